#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users' reports about what the command says: each test is named after its report."""
import argparse
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS_MAX = 60
# Lists of numbers whose meaning is their order, as everybody writes it.
LISTS_OF_NUMBERS = {"shape"}


class Command:
    """c7x_compute of a build, with an emulator that nobody else sees."""

    def __init__(self, build):
        self.build = build
        self.folder = tempfile.TemporaryDirectory(prefix="c7x-users-")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("C7X_")}
        self.environment = {**kept, "XDG_RUNTIME_DIR": self.folder.name, "LC_ALL": "C.UTF-8",
                            "C7X_EMULATOR": str(build / "bin/c7x_emulator")}

    def module(self, name):
        return str(self.build / f"tests/modules/{name}.out")

    def arguments(self, *words):
        return [str(self.build / "bin/c7x_compute"), *words]

    def run(self, *words):
        return subprocess.run(self.arguments(*words), env=self.environment, cwd=self.folder.name, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS_MAX)

    def json(self, *words):
        done = self.run(*words, "--json")
        lines = done.stdout.splitlines()
        assert len(lines) == 1, f"{words}: {done.stdout}{done.stderr}"
        return json.loads(lines[0])

    def close(self):
        self.run("emulator", "stop")
        self.folder.cleanup()


def bare_numbers(value, key=""):
    """Numbers that no name says anything about."""
    if isinstance(value, dict):
        for name, part in value.items():
            assert name, "an empty name"
            yield from bare_numbers(part, name)
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, (int, float)) and not isinstance(part, bool) and key not in LISTS_OF_NUMBERS:
                yield f"{key}: {value}"
            yield from bare_numbers(part, key)


def u35_priority_is_an_option_that_is_explained(command):
    for words in (["run"], ["infer"], ["load"], ["session-run"]):
        text = " ".join(command.run(*words, "--help").stdout.split())
        assert "--priority=N 1 (highest) to 8: the target that runs it" in text, text
    assert ".It Fl -priority" in (ROOT / "man/c7x_compute.1").read_text()
    Path(command.folder.name, "ones.raw").write_bytes(struct.pack("<4f", 1, 1, 1, 1))
    done = command.run("run", command.module("add_one"), "--priority", "1", "--input", "ones.raw", "--device", "emu:")
    assert json.loads(done.stdout)["status"] == "ok", done
    jobs = {target["target"]: target["jobs_done"] for target in command.json("ps")["targets"]}
    assert jobs["DSP_C7-1"] == 1 and jobs["DSP_C7-1_PRI_4"] == 0, jobs


def u42_a_failure_is_an_exit_code(command):
    silent = command.module("silent")
    Path(command.folder.name, "zeros.raw").write_bytes(struct.pack("<4f", 0, 2, 3, 4))
    done = command.run("run", silent, "--input", "zeros.raw", "--output", "out.raw")
    assert done.returncode == 1, done
    assert json.loads(done.stdout)["status"] == "error", done.stdout
    assert not Path(command.folder.name, "out.raw").exists(), "a result was written all the same"


def u44_every_number_has_a_name(command):
    add_one = command.module("add_one")
    assert command.run("emulator", "start").returncode == 0
    assert command.run("load", add_one).returncode == 0
    for words in (["run", add_one], ["profile", add_one], ["validate", "--module", add_one], ["ping"], ["status"],
                  ["scan"], ["ps"], ["mem"], ["monitor"], ["explain", "NOMEM"], ["emulator", "status"], ["load", add_one]):
        answer = command.json(*words)
        assert isinstance(answer, dict) and answer.get("status") == "ok", f"{words}: {answer}"
        assert not list(bare_numbers(answer)), f"{words}: {list(bare_numbers(answer))}"
    assert {"heap_free", "carveout_free"} <= command.json("mem").keys()


def u44_a_failure_names_stage_and_reason(command):
    for words in (["run", "/no/such/file"], ["load", "/no/such/file"], ["ping", "--device", "nonsense:"]):
        answer = command.json(*words)
        assert answer["status"] == "error", answer
        assert answer["stage"] and answer["error"], answer
        assert not list(bare_numbers(answer)), answer


def u45_the_parts_of_a_profile_are_the_whole(command):
    profile = command.json("profile", command.module("operators"), "--repeat", "4")["profile"]
    total = {part: profile[part]["total_ns"] for part in ("entry", "operators_sum", "unattributed", "pre_empted")}
    assert total["operators_sum"] + total["unattributed"] + total["pre_empted"] == total["entry"], total
    assert sum(entry["total_ns"] for entry in profile["operators"]) == total["operators_sum"], profile
    assert profile["end_to_end"]["total_ns"] >= total["entry"], profile


def benchmark(command, module, input_ms, *words):
    """What `benchmark` tells of a module that works for about so many ms, on the shared emulator."""
    Path(command.folder.name, "ms.raw").write_bytes(struct.pack("<i", input_ms))
    return command.json("benchmark", command.module(module), "--input", "ms.raw", "--device", "emu:", *words)["benchmark"]


def jobs_done(command):
    return sum(target["jobs_done"] for target in command.json("ps")["targets"] if target["target"].endswith("_PRI_4"))


def u46_warm_up_is_not_in_the_figures(command):
    told = benchmark(command, "spin", 0, "--repeat", "8")
    assert told["calls"] == told["latency"]["n"] == 8 and told["warm_up_calls"] >= 1, told
    assert jobs_done(command) == told["warm_up_calls"] + told["calls"], told


def u46_percentiles_and_deviation_are_of_all_calls(command):
    for repeat in (1, 2, 20):
        told = benchmark(command, "spin", 1, "--repeat", str(repeat))
        for part in ("latency", "late", "copy_in", "queue", "device", "pre_empted", "copy_out"):
            p50, p90, p99, most, deviation = (told[part][f"{name}_ns"] for name in ("p50", "p90", "p99", "max", "sd"))
            assert told[part]["n"] == repeat and 0 <= p50 <= p90 <= p99 <= most, told
            # Of one there is none, of two it is known from them, and no call lies further away than all together.
            assert repeat > 1 or deviation == 0, told
            assert repeat != 2 or abs(deviation - (most - p50) / math.sqrt(2)) <= 1, told
            assert deviation <= (most or 1) * math.sqrt(repeat), told


def u46_a_rate_that_cannot_be_kept_shows_in_the_latency(command):
    """20 calls that should be sent within 19 ms, of a module that takes about 20 ms: the last one waits for the others, of
    which ten took the median or more."""
    told = benchmark(command, "spin", 20, "--rate", "1000", "--repeat", "20")
    assert told["loop"] == "open" and told["latency"]["n"] == 20 and told["failed_calls"] == 0, told
    assert told["device"]["p50_ns"] >= 5_000_000, told
    assert told["latency"]["max_ns"] >= 10 * told["device"]["p50_ns"] - 19_000_000, told
    one_by_one = benchmark(command, "spin", 1, "--repeat", "20")
    assert one_by_one["loop"] == "closed" and one_by_one["late"]["max_ns"] == 0, one_by_one


def u46_a_stall_is_seen_by_all_requests_that_it_holds_up(command):
    """Stops the sender for a second, in which 50 of the 200 calls should have been sent."""
    Path(command.folder.name, "ms.raw").write_bytes(struct.pack("<i", 0))
    words = command.arguments("benchmark", command.module("spin"), "--input", "ms.raw", "--device", "emu:", "--rate", "50",
                              "--repeat", "200")
    sender = subprocess.Popen(words, env=command.environment, cwd=command.folder.name, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while jobs_done(command) < 10:
            assert sender.poll() is None, "it ended before it was stopped"
        sender.send_signal(signal.SIGSTOP)
        time.sleep(1)
        sender.send_signal(signal.SIGCONT)
        told = json.loads(sender.communicate(timeout=SECONDS_MAX)[0])["benchmark"]
    finally:
        sender.kill()
        sender.wait()
    assert told["latency"]["n"] == 200 and told["unsent_calls"] == 0, told
    assert told["late"]["max_ns"] >= 900_000_000, told
    assert told["latency"]["p90_ns"] >= 400_000_000, told


def u48_an_error_names_the_tensor(command):
    Path(command.folder.name, "integers.raw").write_bytes(struct.pack("<4i", 1, 2, 3, 4))
    done = command.run("run", command.module("add_one"), "--input", "integers.raw", "--dtype", "int32")
    assert done.returncode == 1, done
    assert 'input 0 "x": expected float32 [4], got int32 [4]' in done.stderr, done.stderr
    assert '\\"x\\"' in done.stdout, done.stdout


def u30_ps_says_who_has_the_device(command):
    session = subprocess.Popen(command.arguments("session-run", command.module("add_one"), "--device", "emu:"),
                               env=command.environment, cwd=command.folder.name, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert "ready" in session.stdout.readline()
        listed = command.json("ps")
        mine = [entry for entry in listed["sessions"] if entry["pid"] == session.pid]
        assert len(mine) == 1 and mine[0]["program"] == "c7x_compute" and mine[0]["module_count"] == 1, listed
        assert any(entry["pid"] == session.pid for entry in listed["modules"]), listed
        assert command.run("ping", "--device", "emu:").returncode == 0, "others were locked out"
    finally:
        session.communicate('{"op":"exit"}\n', timeout=SECONDS_MAX)


def own_emulator(command):
    """Lets the command use a copy of the emulator: its path and bytes. A cross-compiled one is started by a script."""
    built = Path(command.environment["C7X_EMULATOR"])
    program = Path(command.folder.name, "program")
    start = Path(command.folder.name, "c7x_emulator")
    real = next(built.parent.glob("*/c7x_emulator"), built)
    program.write_bytes(real.read_bytes())
    start.write_text(f'#!/bin/sh\nexec {program} "$@"\n' if real == built else
                     built.read_text().replace(str(real), str(program)))
    for file in (program, start):
        file.chmod(0o755)
    command.environment["C7X_EMULATOR"] = str(start)
    return program, real.read_bytes()


def u29_status_says_when_the_running_firmware_is_old(command):
    """An update puts another program in the place of the one that runs."""
    program, original = own_emulator(command)
    assert command.run("emulator", "restart").returncode == 0
    before = command.json("status")
    assert before["running_firmware"] == before["installed_firmware"] and not before["restart_needed"], before
    build = bytes.fromhex(before["running_firmware"].split()[1])
    assert original.count(build) == 1, "the build is not in the program"
    updated = Path(command.folder.name, "updated")
    updated.write_bytes(original.replace(build, bytes(byte ^ 0xFF for byte in build)))
    updated.chmod(0o755)
    updated.rename(program)
    after = command.json("status")
    assert after["restart_needed"] and after["running_firmware"] == before["running_firmware"], after
    assert after["installed_firmware"] != before["installed_firmware"], after
    text = command.run("status").stdout
    assert "restart needed: c7x_compute emulator restart" in text, text
    assert command.run("emulator", "restart").returncode == 0
    now = command.json("status")
    assert now["running_firmware"] == after["installed_firmware"] and not now["restart_needed"], now
    assert "restart needed" not in command.run("status").stdout


CASES = [u29_status_says_when_the_running_firmware_is_old, u35_priority_is_an_option_that_is_explained,
         u30_ps_says_who_has_the_device, u42_a_failure_is_an_exit_code, u44_every_number_has_a_name,
         u44_a_failure_names_stage_and_reason, u45_the_parts_of_a_profile_are_the_whole,
         u46_warm_up_is_not_in_the_figures, u46_percentiles_and_deviation_are_of_all_calls,
         u46_a_rate_that_cannot_be_kept_shows_in_the_latency, u46_a_stall_is_seen_by_all_requests_that_it_holds_up,
         u48_an_error_names_the_tensor]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    failed = 0
    for case in CASES:
        command = Command(options.build.resolve())
        command.run("emulator", "start")
        try:
            case(command)
            print(f"PASS {case.__name__}")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAIL {case.__name__}: {error}")
        finally:
            command.close()
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
