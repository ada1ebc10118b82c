/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A screen of text that is drawn again and again, with the control sequences that every terminal
 * has (ECMA-48, and xterm's second screen), so that no library is needed.
 */
#define _GNU_SOURCE
#include "cli.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define BEGIN "\033[?1049h\033[?25l" /* the second screen, no cursor */
#define END "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define END_OF_LINE "\033[K\r\n"
#define END_OF_SCREEN "\033[J"

static struct termios terminal_before;
static bool has_terminal; /* stdin is one, and terminal_before is how it was */
static int signals = -1;

/* Keys come one by one and unseen; a stopped program would leave the terminal so. */
static void take_terminal(void)
{
    struct termios now;
    has_terminal = tcgetattr(STDIN_FILENO, &terminal_before) == 0;
    if (!has_terminal)
        return;
    now = terminal_before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VSUSP] = _POSIX_VDISABLE;
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

bool cli_screen_begin(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return false;
    take_terminal();
    fputs(BEGIN, stdout);
    return fflush(stdout) == 0;
}

void cli_screen_end(void)
{
    fputs(END, stdout);
    fflush(stdout);
    if (has_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
    close(signals);
}

static struct winsize window_size(void)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct winsize real;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &real) == 0 && real.ws_row > 1 && real.ws_col > 0)
        size = real;
    return size;
}

/* Bytes of the line that fit into `columns`; those that continue a character take none. */
static size_t fitting_bytes(const char *line, size_t length, size_t columns)
{
    for (size_t i = 0; i < length; i++) {
        bool continues = ((unsigned char)line[i] & 0xC0) == 0x80;
        if (!continues && columns-- == 0)
            return i;
    }
    return length;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        count++;
    return count;
}

bool cli_screen_show(const char *text)
{
    const struct winsize window = window_size();
    size_t lines = count_lines(text);
    size_t shown = lines < window.ws_row ? lines : window.ws_row - 1u;
    fputs(HOME, stdout);
    for (size_t i = 0; i < shown; i++) {
        size_t length = strcspn(text, "\n");
        fprintf(stdout, "%.*s" END_OF_LINE, (int)fitting_bytes(text, length, window.ws_col), text);
        text += length + 1;
    }
    fputs(END_OF_SCREEN, stdout);
    if (shown < lines) {
        char note[64];
        int length =
            snprintf(note, sizeof note, "%zu more lines than the window has", lines - shown);
        printf("%.*s", (int)fitting_bytes(note, (size_t)length, window.ws_col), note);
    }
    return fflush(stdout) == 0;
}

/* Whether a signal says that it is over; a new size of the window does not. */
static bool takes_ending_signal(void)
{
    struct signalfd_siginfo info;
    bool ends = false;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        ends = ends || info.ssi_signo != SIGWINCH;
    return ends;
}

static bool takes_ending_key(void)
{
    char key = 'q';
    return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q';
}

bool cli_screen_wait(int64_t ms)
{
    struct pollfd entries[2] = {{.fd = signals, .events = POLLIN},
                                {.fd = has_terminal ? STDIN_FILENO : -1, .events = POLLIN}};
    int count = poll(entries, 2, ms < 3600000 ? (int)ms : 3600000);
    if (count <= 0)
        return true;
    return !(entries[0].revents != 0 && takes_ending_signal()) &&
           !(entries[1].revents != 0 && takes_ending_key());
}
