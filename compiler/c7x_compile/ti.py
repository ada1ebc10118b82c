# SPDX-License-Identifier: Apache-2.0
"""What --emit-c writes beside lib0.c: blobs, link script, and the commands that build lib0.out.

For the c7x target these are the commands of TI's C7000 tools, which are not part of this project.
The firmware's symbols come from a stub library with one empty definition per imported name.
"""

import shutil
from pathlib import Path

from . import link

_C7X_SCRIPT = """\
/* Links lib0.out: one region, weights alone behind a guard that stream prefetch may touch. */
MEMORY
{
    DDR : origin = 0x80000000, length = 0x19000000
}

SECTIONS
{
    GROUP
    {
        .rodata
        .guard : { . += 0x1000; } fill = 0
        .rodata.weights
        .neardata
        .bss
    } > DDR
    .text > DDR
    .cinit > DDR
    .const > DDR
    .data > DDR
    .switch > DDR
    .far > DDR
    .fardata > DDR
    .plt > DDR
    .sysmem > DDR
}
"""

_C7X_BUILD = """\
#!/bin/sh
# Builds lib0.out for the C7x with TI's C7000 code generation tools; CGT is their folder.
set -eu
cd "$(dirname "$0")"
: "${{CGT:?set CGT to the folder of the C7000 code generation tools}}"
CL="$CGT/bin/cl7x"
FLAGS="-mv7524 --abi=eabi --cpp_default -O2 --define=SOC_J722S --define=TVM_DSP_TARGET_C7X"
FLAGS="$FLAGS -I$CGT/include -I."

# The firmware's symbols, as a library to link against.
"$CL" $FLAGS -c stubs.c
"$CL" -mv7524 --abi=eabi -z --dynamic=exe --no_entry_point --soname=dsp_syms.out -o dsp_syms.out stubs.obj

"$CL" $FLAGS -c lib0.c blobs.c
"$CL" -mv7524 --abi=eabi -z --dynamic=lib --relocatable --no_entry_point --ram_model -heap 0 -x \\
    --priority --warn_sections --soname=lib0.out {imports} \\
    -o lib0.out lib0.obj blobs.obj -ldsp_syms.out -l"$CGT/lib/rts7524_le.lib" lib0.cmd
"""


def write_native(folder, target):
    """Completes a folder with lib0.c and the blobs so that build.sh makes lib0.out in it."""
    folder = Path(folder)
    link.write_data_source(folder)
    shutil.copy(link.include_folder() / "c7x_module.h", folder)
    link.write_linker_script(target, folder)
    _write_script(
        folder,
        '#!/bin/sh\nset -eu\ncd "$(dirname "$0")"\n' + "\n".join(link.commands(target)) + "\n",
    )


def write_c7x(folder, imports):
    """Completes a folder for TI's tools. imports: names that lib0.c leaves undefined, sorted."""
    folder = Path(folder)
    shutil.copy(link.include_folder() / "c7x_module.h", folder)
    (folder / "lib0.cmd").write_text(_C7X_SCRIPT)
    (folder / "stubs.c").write_text(_stubs_source(imports))
    (folder / "blobs.c").write_text(_blobs_source(folder))
    options = " ".join(f"--import={name}" for name in imports)
    _write_script(folder, _C7X_BUILD.format(imports=options))


def _stubs_source(imports):
    """Stands for the firmware's exports while linking."""
    lines = ["#ifdef __cplusplus", 'extern "C" {', "#endif"]
    lines += [f"void {name}(void) {{}}" for name in imports]
    lines += ["#ifdef __cplusplus", "}", "#endif", ""]
    return "\n".join(lines)


def _blobs_source(folder):
    """C that holds the blobs as arrays, weights in a section of their own."""
    weights = (folder / "weights.bin").read_bytes()
    manifest = (folder / "manifest.bin").read_bytes()
    parts = [
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        '#pragma DATA_SECTION("_binary_weights_bin_start", ".rodata.weights")',
        '#pragma DATA_SECTION("_binary_weights_bin_end", ".rodata.weights")',
        _array("_binary_weights_bin_start", weights),
        "extern const uint8_t _binary_weights_bin_end[1] = {0};",
        f"extern const uint32_t _binary_weights_bin_size = {len(weights)}u;",
        _array("_binary_tvm_dsp_io_meta_start", (folder / "io_meta.bin").read_bytes()),
        _array("_binary_c7x_manifest_start", manifest),
        f"extern const uint32_t _binary_c7x_manifest_size = {len(manifest)}u;",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def _array(name, data):
    rows = [",".join(str(byte) for byte in data[at : at + 24]) for at in range(0, len(data), 24)]
    return f"extern const uint8_t {name}[{len(data)}] = {{\n" + ",\n".join(rows) + "};"


def _write_script(folder, text):
    path = folder / "build.sh"
    path.write_text(text)
    path.chmod(0o755)
