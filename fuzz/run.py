# SPDX-License-Identifier: Apache-2.0
"""Runs each fuzz target on its seeds and then for a while; the last line is "N passed, N failed".

The corpus grows in the build folder. What fails is written there, too: put the file into fuzz/seeds/TARGET, where it is
run first from then on, and give the fault a test.
"""
import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = ["elf", "weights", "declaration", "wire", "firmware"]
LENGTH_MAX = {"wire": 497, "firmware": 16384}


def follow(process, name):
    """All that the target prints; its last word goes to stderr once a minute."""
    output = []
    said = time.monotonic()
    for line in process.stdout:
        output.append(line)
        del output[:-2000]
        if line.startswith("#") and time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"     fuzz_{name}: {line.rstrip()}", file=sys.stderr, flush=True)
    return "".join(output)


def run(build, name, seconds):
    """Returns None, or what the target printed before it failed."""
    corpus = build / "corpus" / name
    findings = build / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    command = [str(build / "fuzz" / f"fuzz_{name}"), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096",
               f"-max_len={LENGTH_MAX.get(name, 32768)}", f"-artifact_prefix={findings}/{name}-",
               "-print_final_stats=1", str(corpus), str(HERE / "seeds" / name)]
    environment = {**os.environ, "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=environment) as process:
        output = follow(process, name)
    if process.returncode != 0:
        return output[-8000:]
    stats = dict(line.split(":", 1) for line in output.splitlines() if line.startswith("stat::")
                 for line in [line[len("stat::"):]])
    print(f"ok   fuzz_{name}: {stats.get('number_of_executed_units', '?').strip()} inputs in {seconds} s", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--hours", type=float, help="over all targets")
    parser.add_argument("targets", nargs="*", default=TARGETS)
    options = parser.parse_args()
    seconds = int(options.hours * 3600 / len(TARGETS)) if options.hours else options.seconds
    failed = 0
    for name in options.targets or TARGETS:
        output = run(options.build.resolve(), name, seconds)
        if output is not None:
            failed += 1
            print(f"FAIL fuzz_{name}\n{output}", flush=True)
    print(f"{len(options.targets or TARGETS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
