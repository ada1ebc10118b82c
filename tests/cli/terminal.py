# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own: terminal.py ROWS COLUMNS END COMMAND...

Waits for two screens, makes the window a row larger and waits for a third, ends the command by END (a key, or "signal"),
and prints what the third screen showed, then how the command ended and whether the terminal is what it was.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

SECONDS_MAX = 20
END_OF_SCREEN = b"\x1b[J"


def set_size(descriptor, rows, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))


def read_until(master, enough):
    seen = b""
    while not enough(seen):
        if not select.select([master], [], [], SECONDS_MAX)[0]:
            sys.exit(f"nothing came for {SECONDS_MAX} s: {seen!r}")
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        seen += part
    return seen


def main():
    rows, columns, end, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    master, slave = pty.openpty()
    set_size(slave, rows, columns)
    before = termios.tcgetattr(slave)
    running = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    seen = read_until(master, lambda seen: seen.count(END_OF_SCREEN) >= 2)
    set_size(master, rows + 1, columns)
    seen += read_until(master, lambda seen: END_OF_SCREEN in seen)
    if end == "signal":
        running.send_signal(signal.SIGTERM)
    else:
        os.write(master, end.encode())
    running.wait(timeout=SECONDS_MAX)
    is_restored = termios.tcgetattr(slave) == before
    os.close(slave)
    last = seen + read_until(master, lambda seen: False)
    screen = last.split(b"\x1b[H")[3]
    text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", screen.decode().split("\x1b[J")[0]).replace("\r", "")
    note = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", screen.decode().split("\x1b[J")[1])
    print(text + note.rstrip())
    sequences = [last.count(part) for part in (b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25l", b"\x1b[?25h")]
    print(f"ended with {running.returncode}; terminal {'as before' if is_restored else 'changed'}, {sequences}")


if __name__ == "__main__":
    main()
