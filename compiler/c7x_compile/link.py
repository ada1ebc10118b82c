# SPDX-License-Identifier: Apache-2.0
"""Builds a native module (lib0.out) from lib0.c and the data blobs with gcc, and checks the result.

The check is part of the build: a module that imports a name outside exports.txt, needs a library, or
has a segment that is writable and executable is an error, not a file.
"""

import functools
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .errors import CompileError

_HERE = Path(__file__).parent
_COMPILE = (
    "-std=gnu11 -O3 -fno-math-errno -fno-trapping-math "
    # Peeling a loop of 8 lanes would leave scalars where a vector was meant.
    "--param max-completely-peel-times=7 "
    "-fPIC -fno-plt -fvisibility=hidden "
    "-fno-stack-protector -fno-asynchronous-unwind-tables -U_FORTIFY_SOURCE -fno-builtin-printf "
    # A sine beside a cosine would become sincos, which no module may import.
    "-fno-builtin-sin -fno-builtin-sinf -fno-builtin-cos -fno-builtin-cosf "
    "-Wall -Wextra"
).split()
_LINK = (
    "-shared -nostdlib -Wl,-soname,lib0.out -Wl,--hash-style=sysv -Wl,-z,now -Wl,-z,norelro "
    "-Wl,-Bsymbolic -Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -Wl,--build-id=none"
).split()
_DATA = """\
    .section .rodata.weights, "a"
    .balign 4096
    .globl _binary_weights_bin_start, _binary_weights_bin_end
_binary_weights_bin_start:
    .incbin "weights.bin"
_binary_weights_bin_end:

    .section .rodata.c7x, "a"
    .globl _binary_weights_bin_size, _binary_tvm_dsp_io_meta_start
    .globl _binary_c7x_manifest_start, _binary_c7x_manifest_size
    .balign 8
_binary_tvm_dsp_io_meta_start:
    .incbin "io_meta.bin"
    .balign 8
_binary_c7x_manifest_start:
    .incbin "manifest.bin"
    .balign 4
_binary_weights_bin_size:
    .long {weights_size}
_binary_c7x_manifest_size:
    .long {manifest_size}
    .section .note.GNU-stack, "", %progbits
"""


@functools.cache
def allowed_imports():
    """The names of exports.txt."""
    lines = (_HERE / "exports.txt").read_text().splitlines()
    return frozenset(line.split()[0] for line in lines if line and not line.startswith("#"))


def include_folder():
    """The folder that holds c7x_module.h: of the source tree, or beside the installed package."""
    for folder in (_HERE / "include", _HERE.parent.parent / "include"):
        if (folder / "c7x_module.h").exists():
            return folder
    raise CompileError("c7x_module.h is not installed with the compiler")


def gcc_version(target):
    """First line of the compiler's --version."""
    result = subprocess.run(
        [target.compiler, "--version"], capture_output=True, text=True, check=False
    )
    return result.stdout.splitlines()[0] if result.stdout else target.compiler


def build(target, folder, output):
    """Compiles folder/lib0.c and links it with weights.bin, io_meta.bin and manifest.bin of the folder
    into the file output. Raises CompileError with the tool's own words."""
    folder = Path(folder)
    write_data_source(folder)
    write_linker_script(target, folder)
    compilations = _compilations(target, f"-I{include_folder()}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda command: _run(command, folder), compilations))
    _run(_link(target, os.path.abspath(output)), folder)
    check(output)


def _compilations(target, include):
    """The commands that make the objects of a module: of lib0.c for each variant, and of its data."""
    kinds = [("lib0.o", target.flags, ()), *(_variant_kind(variant) for variant in target.variants)]
    commands = [
        [target.compiler, *flags, *_COMPILE, *names, include, "-c", "lib0.c", "-o", output]
        for output, flags, names in kinds
    ]
    return [*commands, [target.compiler, "-c", "data.S", "-o", "data.o"]]


def _variant_kind(variant):
    """Its object, flags, and what renames its entry."""
    return f"{variant.entry}.o", variant.flags, (f"-Dcg_main_dsp={variant.entry}",)


def _link(target, output):
    objects = ["lib0.o", *(_variant_kind(variant)[0] for variant in target.variants), "data.o"]
    return [target.compiler, *_LINK, "-Wl,-T,module.ld", *objects, "-lgcc", "-o", output]


def write_data_source(folder):
    """Writes data.S, which turns the blobs of the folder into sections and symbols."""
    sizes = {
        name: (Path(folder) / f"{name}.bin").stat().st_size for name in ("weights", "manifest")
    }
    (Path(folder) / "data.S").write_text(
        _DATA.format(weights_size=sizes["weights"], manifest_size=sizes["manifest"])
    )


def write_linker_script(target, folder):
    """Writes module.ld for the largest pages that a system on the target's architecture may have."""
    text = (_HERE / "data" / "module.ld").read_text()
    page = 65536 if target.architecture == "aarch64" else 4096
    (Path(folder) / "module.ld").write_text(text.replace("@PAGE@", str(page)))


def commands(target):
    """The commands of build as text lines, for a folder that also holds c7x_module.h and module.ld."""
    return [" ".join(command) for command in [*_compilations(target, "-I."), _link(target, "lib0.out")]]


def _run(command, folder):
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CompileError(f"no {command[0]}") from error
    if result.returncode != 0:
        errors = [
            line for line in result.stderr.splitlines() if "error" in line or "undefined" in line
        ]
        raise CompileError(
            f"{command[0]} failed: " + "; ".join(errors[:5] or result.stderr.splitlines()[:5])
        )


def check(path):
    """Raises CompileError when the module breaks a rule of docs/modules.md."""
    imports = set(_tool("nm", "-D", "--undefined-only", "--format=just-symbols", path))
    foreign = sorted(imports - allowed_imports())
    if foreign:
        raise CompileError(
            "the module would import what the firmware does not export: " + ", ".join(foreign)
        )
    dynamic = "\n".join(_tool("readelf", "-dW", path))
    for tag in ("NEEDED", "TEXTREL", "(RELR)", "(INIT_ARRAY)"):
        if tag in dynamic:
            raise CompileError(f"the module has a dynamic entry {tag}")
    for line in _tool("readelf", "-lW", path):
        fields = line.split()
        if fields and fields[0] == "LOAD" and "W" in line and " E " in f" {' '.join(fields[6:])} ":
            raise CompileError("the module has a writable and executable segment")
        if fields and fields[0] == "TLS":
            raise CompileError("the module has thread-local data")


def _tool(*command):
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise CompileError(f"{command[0]} failed: {result.stderr.strip()}")
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
