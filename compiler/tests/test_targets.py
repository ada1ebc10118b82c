# SPDX-License-Identifier: Apache-2.0
"""Targets, and what both sides of the border must name alike."""

import platform
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from c7x_compile import link, targets
from c7x_compile.errors import CompileError

ROOT = Path(__file__).resolve().parents[2]


@unittest.skipUnless(platform.machine() == "x86_64", "x86-64 only")
class Native(unittest.TestCase):
    def test_levels(self):
        self.assertEqual(targets.parse("native:x86-64").cpu_features, ())
        level2 = targets.parse("native:x86-64-v2").cpu_features
        self.assertEqual(level2, ("sse3", "ssse3", "sse4_1", "sse4_2", "popcnt"))
        level3 = targets.parse("native:x86-64-v3").cpu_features
        self.assertEqual(
            level3[5:], ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe")
        )

    def test_host_is_the_best_level_that_this_host_has(self):
        self.assertIn(f"-march={targets.host_level()}", targets.parse("native:host").flags)

    def test_default_has_a_variant_for_each_level(self):
        target = targets.parse("native")
        self.assertIn("-march=x86-64-v2", target.flags)
        self.assertEqual(
            [variant.entry for variant in target.variants],
            ["cg_main_dsp_x86_64_v3", "cg_main_dsp_x86_64_v4"],
        )
        features = [set(target.cpu_features), *(set(v.cpu_features) for v in target.variants)]
        self.assertTrue(features[0] < features[1] < features[2])

    def test_unknown_march_is_named(self):
        with self.assertRaisesRegex(CompileError, "refuses -march=z80"):
            targets.parse("native:z80")


@unittest.skipUnless(shutil.which("aarch64-linux-gnu-gcc"), "no aarch64-linux-gnu-gcc")
class AArch64(unittest.TestCase):
    def test_the_base_needs_no_feature(self):
        self.assertEqual(targets.parse("aarch64").cpu_features, ())

    def test_march_names_what_it_needs(self):
        self.assertEqual(
            targets.parse("aarch64:armv8.2-a+dotprod").cpu_features,
            ("crc32", "atomics", "asimdrdm", "asimddp"),
        )


class Border(unittest.TestCase):
    def test_the_loader_knows_every_cpu_feature(self):
        for names, machine in (
            (targets._X86_FEATURES, "x86_64"),
            (targets._ARM_FEATURES, "aarch64"),
        ):
            source = (ROOT / f"src/firmware/loader/arch/{machine}.c").read_text()
            known = set(re.findall(r'\{"(\w+)", ', source))
            self.assertLessEqual(set(names.values()), known)

    def test_segments_lie_on_pages_of_their_own(self):
        for architecture, page in (("x86_64", 4096), ("aarch64", 65536)):
            target = targets.Target(architecture, "gcc", (), ())
            with tempfile.TemporaryDirectory() as folder:
                link.write_linker_script(target, folder)
                script = (Path(folder) / "module.ld").read_text()
            self.assertEqual(set(re.findall(r"ALIGN\((.*)\)", script)), {str(page)})

    def test_the_firmware_exports_every_allowed_import(self):
        source = (ROOT / "src/firmware/exports/exports.gperf").read_text()
        exported = set(re.findall(r'^(\w+), .*"$', source, re.MULTILINE))
        self.assertEqual(link.allowed_imports(), exported)


if __name__ == "__main__":
    unittest.main()
