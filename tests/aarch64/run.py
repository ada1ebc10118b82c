#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a build for AArch64 must do beyond the suites of every build: pairs of a client and a device of different
architectures, processors with and without a feature, pages of 16 and 64 KiB. Everything of AArch64 runs under qemu."""
import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/models"))
from models import MODELS  # noqa: E402

SECONDS_MAX = 300
# Where the client is of AArch64: of the command-line tests those that move data, for the time that qemu takes to start.
SOME_CLI_TESTS = ["run", "outputs", "model_load", "session_kv"]


def call(command, code=0, **environment):
    """Output of a command that must end with that code."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, env={**os.environ, **environment}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SECONDS_MAX)
    assert done.returncode == code, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


class Builds:
    """The build for this machine and the one for AArch64."""

    def __init__(self, native, aarch64):
        self.native = native
        self.aarch64 = aarch64

    def run_module(self, client, device, module, code=0, **environment):
        return call([client / "bin/c7x_compute", "run", module], code,
                    C7X_EMULATOR=str(device / "bin/c7x_emulator"), **environment)


def cli_tests(client, device, names):
    folder = ROOT / "tests/cli"
    files = [folder / f"{name}.test" for name in names] or [
        file for file in sorted(folder.glob("*.test")) if file.name != "inspect.test"]  # inspects for its own machine
    output = call([sys.executable, folder / "run.py", "--build", client, "--device", device, *files])
    assert output.splitlines()[-1] == f"{len(files)} passed, 0 failed", output


def a_client_of_this_machine_uses_a_device_of_aarch64(builds):
    cli_tests(builds.native, builds.aarch64, [])


def a_python_program_of_this_machine_uses_a_device_of_aarch64(builds):
    """All but the tests of the package's files; the two real models must have been built."""
    output = call([sys.executable, "-m", "unittest", "discover", "-s", "tests/python", "-p", "test_[!lw]*.py"],
                  C7X_BUILD_DIR=str(builds.aarch64), C7X_EMULATOR=str(builds.aarch64 / "bin/c7x_emulator"),
                  C7X_COMPUTE=str(builds.native / "bin/c7x_compute"),
                  C7X_LIBRARY=str(builds.native / "lib/libc7x_compute.so"),
                  C7X_MODELS=str(ROOT / "build/models-aarch64"))
    assert "skipped" not in output, output


def a_client_of_aarch64_uses_a_device_of_this_machine(builds):
    cli_tests(builds.aarch64, builds.native, SOME_CLI_TESTS)


def a_module_of_another_architecture_is_refused_by_name(builds):
    for device, other in ((builds.native, builds.aarch64), (builds.aarch64, builds.native)):
        output = builds.run_module(builds.native, device, other / "tests/modules/add_one.out", code=1)
        assert re.search("built for (AArch64|x86-64); this device executes (AArch64|x86-64)", output), output


def a_processor_without_a_feature_refuses_with_both_lists(builds):
    model = next(model for model in MODELS if model.name == "silero-vad-16k")
    model = dataclasses.replace(model, target="aarch64:armv8.2-a+dotprod+fp16")
    model.compile()
    refusal = builds.run_module(builds.aarch64, builds.aarch64, model.module, code=1, QEMU_CPU="cortex-a53")
    assert ("built for a processor with crc32 atomics asimdrdm fphp asimdhp asimddp; lacking: atomics asimdrdm fphp "
            "asimdhp asimddp; this processor has: fp asimd crc32") in refusal, refusal
    assert '"status":"ok"' in builds.run_module(builds.aarch64, builds.aarch64, model.module, QEMU_CPU="max")


def later_processors_load_and_run_modules_too(builds):
    for processor in ("cortex-a72", "cortex-a76", "max"):
        for program in ("loader_test", "module_test"):
            call([builds.aarch64 / "tests" / program], QEMU_CPU=processor, C7X_BUILD_DIR=str(builds.aarch64))


def modules_load_with_pages_of_16_and_64_kib(builds):
    """In one process: where qemu 7.2 has larger pages than the kernel, the emulator's processes hang now and then, and
    system calls fail with EFAULT for data of libc."""
    for page in (16384, 65536):
        for program in ("module_test", "transport_test"):
            call([builds.aarch64 / "tests" / program], QEMU_PAGESIZE=str(page), C7X_BUILD_DIR=str(builds.aarch64))


CASES = [a_client_of_this_machine_uses_a_device_of_aarch64, a_client_of_aarch64_uses_a_device_of_this_machine,
         a_python_program_of_this_machine_uses_a_device_of_aarch64,
         a_module_of_another_architecture_is_refused_by_name, a_processor_without_a_feature_refuses_with_both_lists,
         later_processors_load_and_run_modules_too, modules_load_with_pages_of_16_and_64_kib]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build-aarch64", help="the build for AArch64")
    parser.add_argument("--native", type=Path, default=ROOT / "build", help="the build for this machine")
    options = parser.parse_args()
    builds = Builds(options.native.resolve(), options.build.resolve())
    failed = 0
    with tempfile.TemporaryDirectory(prefix="c7x-aarch64-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        for case in CASES:
            try:
                case(builds)
                print(f"PASS {case.__name__}", flush=True)
            except (AssertionError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAIL {case.__name__}: {error}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
