# SPDX-License-Identifier: Apache-2.0
"""Installs into a temporary DESTDIR and builds a small client against the result by pkg-config and by CMake."""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

CLIENT = """
#include <c7x_compute_client.h>
#include <c7x_compute_protocol.h>
#include <c7x_kernels.h>
#include <c7x_module.h>
#include <stdio.h>
int main(void)
{
    uint32_t version = 0;
    struct c7x_client *client = c7x_client_open();
    if (client == NULL || c7x_client_ping(client, &version, NULL) != C7X_OK) {
        fprintf(stderr, "%s\\n", c7x_client_last_error(client));
        return 1;
    }
    c7x_client_close(client);
    return version == C7X_WIRE_VERSION ? 0 : 1;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(client C)
find_package(c7x-compute REQUIRED)
add_executable(shared client.c)
target_link_libraries(shared c7x-compute::c7x_compute)
add_executable(static client.c)
target_link_libraries(static c7x-compute::c7x_compute_static)
"""

EXPECTED = ["bin/c7x_compute", "bin/c7x_emulator", "include/c7x_compute_client.h", "include/c7x_compute_protocol.h",
            "include/c7x_inspect.h", "include/c7x_kernels.h", "include/c7x_module.h", "include/c7x_runtime.h",
            "include/c7x_status.h",
            "share/man/man1/c7x_compute.1", "share/man/man1/c7x_emulator.1"]


def call(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def install(build, place):
    """Everything is where it belongs, below DESTDIR."""
    call("cmake", "--install", str(build), "--prefix", "/usr", env={**os.environ, "DESTDIR": str(place)})
    for name in EXPECTED:
        if not (place / "usr" / name).is_file():
            raise AssertionError(f"not installed: {name}")
    if not list((place / "usr").rglob("libc7x_compute.so")) or not list((place / "usr").rglob("libc7x_compute.a")):
        raise AssertionError("no library was installed")


def client_environment(place):
    """No hint where the emulator is: the installed library has to find it beside itself."""
    library = next((place / "usr").rglob("libc7x_compute.so")).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith("C7X_")}
    return {**kept, "LD_LIBRARY_PATH": str(library)}, library


def by_pkg_config(place, work):
    """A C99 and a C++17 program compile with what pkg-config says, and run."""
    environment, library = client_environment(place)
    flags = call("pkg-config", "--cflags", "--libs", "c7x-compute",
                 env={**environment, "PKG_CONFIG_PATH": str(library / "pkgconfig")}).split()
    (work / "client.cc").write_text(CLIENT)
    call("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "client.c", *flags, "-o", "client", cwd=work)
    call("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "client.cc", *flags, "-o", "client++", cwd=work)
    for program in ("./client", "./client++"):
        call(program, cwd=work, env=environment)


def by_cmake(place, work):
    """find_package finds shared and static library, and both programs run."""
    environment, library = client_environment(place)
    (work / "CMakeLists.txt").write_text(PROJECT)
    call("cmake", "-S", ".", "-B", "out", f"-Dc7x-compute_DIR={library / 'cmake/c7x-compute'}", cwd=work)
    call("cmake", "--build", "out", cwd=work)
    call("out/shared", cwd=work, env=environment)
    call("out/static", cwd=work, env={**environment, "PATH": f"{place / 'usr/bin'}:{os.environ['PATH']}"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        place, work = Path(folder) / "root", Path(folder) / "work"
        work.mkdir()
        (work / "client.c").write_text(CLIENT)
        cases = [("install", lambda: install(Path(options.build), place)),
                 ("pkg-config", lambda: by_pkg_config(place, work)), ("cmake", lambda: by_cmake(place, work))]
        for name, case in cases:
            try:
                case()
                print(f"PASS {name}")
            except AssertionError as error:
                failed += 1
                print(f"FAIL {name}: {error}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
