# SPDX-License-Identifier: Apache-2.0
"""Names of targets, the compiler commands behind them, and the CPU features that code needs."""

import platform
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import CompileError

# gcc's predefined macro -> name in the manifest. Base features of x86-64 and AArch64 are not listed.
_X86_FEATURES = {
    "__SSE3__": "sse3",
    "__SSSE3__": "ssse3",
    "__SSE4_1__": "sse4_1",
    "__SSE4_2__": "sse4_2",
    "__POPCNT__": "popcnt",
    "__AVX__": "avx",
    "__AVX2__": "avx2",
    "__BMI__": "bmi1",
    "__BMI2__": "bmi2",
    "__F16C__": "f16c",
    "__FMA__": "fma",
    "__LZCNT__": "lzcnt",
    "__MOVBE__": "movbe",
    "__AVX512F__": "avx512f",
    "__AVX512BW__": "avx512bw",
    "__AVX512CD__": "avx512cd",
    "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl",
    "__AVX512IFMA__": "avx512ifma",
    "__AVX512VBMI__": "avx512vbmi",
    "__AVX512VBMI2__": "avx512_vbmi2",
    "__AVX512VNNI__": "avx512_vnni",
    "__AVX512BITALG__": "avx512_bitalg",
    "__AVX512VPOPCNTDQ__": "avx512_vpopcntdq",
    "__AVX512FP16__": "avx512_fp16",
    "__AVX512BF16__": "avx512_bf16",
    "__AVXVNNI__": "avx_vnni",
}
_ARM_FEATURES = {
    "__ARM_FEATURE_CRC32": "crc32",
    "__ARM_FEATURE_ATOMICS": "atomics",
    "__ARM_FEATURE_QRDMX": "asimdrdm",
    "__ARM_FEATURE_FP16_SCALAR_ARITHMETIC": "fphp",
    "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "asimdhp",
    "__ARM_FEATURE_FP16_FML": "asimdfhm",
    "__ARM_FEATURE_DOTPROD": "asimddp",
    "__ARM_FEATURE_JCVT": "jscvt",
    "__ARM_FEATURE_COMPLEX": "fcma",
    "__ARM_FEATURE_FRINT": "frint",
    "__ARM_FEATURE_MATMUL_INT8": "i8mm",
    "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "bf16",
    "__ARM_FEATURE_SVE": "sve",
    "__ARM_FEATURE_SVE2": "sve2",
}
# Linux's names in /proc/cpuinfo of what each level of the x86-64 ABI adds.
_X86_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}),
    ("x86-64-v2", {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"}),
)


# Those that a module has code for unless it is asked for one; all processors of ten years have the first.
_LEVELS_OF_A_MODULE = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass(frozen=True)
class Variant:
    """Code for processors that have more than the least; entry: its symbol instead of cg_main_dsp."""

    entry: str
    flags: tuple
    cpu_features: tuple


@dataclass(frozen=True)
class Target:
    """architecture: "x86_64", "aarch64" or "c7x", as in the manifest; compiler: its gcc; flags: that
    choose the instruction set; cpu_features: names for the manifest, what a processor must have at
    least; variants: for those that have more, the best last."""

    architecture: str
    compiler: str
    flags: tuple
    cpu_features: tuple
    variants: tuple = ()

    @property
    def is_native(self):
        return self.architecture != "c7x"


def parse(text):
    """The Target of a --target argument: native, native:MARCH, native:host, aarch64, aarch64:MARCH or
    c7x."""
    kind, _, march = text.partition(":")
    if kind == "c7x" and not march:
        return Target("c7x", "", (), ())
    if kind == "aarch64":
        compiler = "gcc" if platform.machine() == "aarch64" else "aarch64-linux-gnu-gcc"
        return _gcc_target("aarch64", compiler, (f"-march={march}",) if march else ())
    if kind == "native":
        architecture = {"AMD64": "x86_64", "arm64": "aarch64"}.get(
            platform.machine(), platform.machine()
        )
        if architecture == "x86_64":
            if not march:
                return _all_levels()
            return _x86_target(host_level() if march == "host" else march)
        if architecture == "aarch64":
            return _gcc_target(architecture, "gcc", (f"-march={march}",) if march else ())
        raise CompileError(
            f"this host ({architecture}) executes no module; use --target aarch64 or c7x"
        )
    raise CompileError(f"unknown target '{text}'; use native, aarch64 (both also with :MARCH) or c7x")


def _x86_target(march):
    wide = ("-mprefer-vector-width=512",) if _has_macro(march, "__AVX512F__") else ()
    return _gcc_target("x86_64", "gcc", (f"-march={march}", *wide))


def _all_levels():
    least, *better = [_x86_target(level) for level in _LEVELS_OF_A_MODULE]
    variants = [
        Variant("cg_main_dsp_" + level.replace("-", "_"), target.flags, target.cpu_features)
        for level, target in zip(_LEVELS_OF_A_MODULE[1:], better, strict=True)
    ]
    return replace(least, variants=tuple(variants))


def for_this_host(target):
    """The target without variants: the best of them that this host executes, where it is one of ours."""
    return parse("native:host") if target.variants else target


def host_level():
    """The highest level of the x86-64 ABI that this CPU has: x86-64, or x86-64-v2 to -v4."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "x86-64"
    flags = set(
        next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    )
    needed = set()
    best = "x86-64"
    for level, added in reversed(_X86_LEVELS):
        needed |= added
        if needed <= flags:
            best = level
    return best


def _has_macro(march, macro):
    return macro in _macros("gcc", (f"-march={march}",))


def _macros(compiler, flags):
    if shutil.which(compiler) is None:
        package = "gcc" if compiler == "gcc" else "gcc-aarch64-linux-gnu"
        raise CompileError(f"no {compiler}; run: apt-get install -y {package}")
    result = subprocess.run(
        [compiler, *flags, "-dM", "-E", "-x", "c", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        reason = next(
            (l for l in result.stderr.splitlines() if "error" in l), result.stderr.strip()
        )
        raise CompileError(f"{compiler} refuses {' '.join(flags)}: {reason}")
    return {line.split()[1] for line in result.stdout.splitlines() if line.startswith("#define")}


def _gcc_target(architecture, compiler, flags):
    macros = _macros(compiler, flags)
    names = _X86_FEATURES if architecture == "x86_64" else _ARM_FEATURES
    features = tuple(name for macro, name in names.items() if macro in macros)
    return Target(architecture, compiler, flags, features)
