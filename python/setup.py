# SPDX-License-Identifier: Apache-2.0
"""Wheels with the native library inside: C7X_BUNDLE names a build folder, whose library and emulator are copied.

    C7X_BUNDLE=build pip wheel --no-deps ./python

Without C7X_BUNDLE the package is pure Python and looks for an installed library.
"""
import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

BUNDLE = os.environ.get("C7X_BUNDLE")


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if BUNDLE is None or self.editable_mode:
            return
        place = Path(self.build_lib) / "c7x_compute" / "lib"
        place.mkdir(parents=True, exist_ok=True)
        for file in ("lib/libc7x_compute.so", "bin/c7x_emulator"):
            shutil.copy(Path(BUNDLE) / file, place)


class PlatformWheel(bdist_wheel):
    """Any Python 3, one platform: nothing is compiled against Python itself."""

    def finalize_options(self):
        super().finalize_options()
        if BUNDLE is not None:
            self.root_is_pure = False

    def get_tag(self):
        tag = super().get_tag()
        return tag if BUNDLE is None else ("py3", "none", tag[2])


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
