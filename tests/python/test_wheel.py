# SPDX-License-Identifier: Apache-2.0
"""A wheel with the library inside works where there is no source tree."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import BUILD, ROOT, module

PROGRAM = """
import sys
import numpy as np
import c7x_compute
print(c7x_compute.find_c7x_arm_runtime_so())
with c7x_compute.C7xVirtualMachine(sys.argv[1]) as vm:
    print(vm.run(np.zeros(4, np.float32)).tolist())
"""


class Wheel(unittest.TestCase):
    def test_carries_library_and_emulator(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("C7X_")}
        with tempfile.TemporaryDirectory() as folder:
            source, wheels, site = (Path(folder) / name for name in ("source", "wheels", "site"))
            unwanted = shutil.ignore_patterns("*.egg-info", "build", "__pycache__")
            shutil.copytree(ROOT / "python", source, ignore=unwanted)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)],
                           check=True, env={**environment, "C7X_BUNDLE": str(BUILD)})
            wheel, = wheels.iterdir()
            self.assertRegex(wheel.name, r"^c7x_compute-[\d.]+-py3-none-linux_\w+\.whl$")
            subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True,
                           env=environment)
            done = subprocess.run([sys.executable, "-c", PROGRAM, str(module("add_one"))], check=True, text=True,
                                  stdout=subprocess.PIPE, cwd=folder, env={**environment, "PYTHONPATH": str(site)})
        library, result = done.stdout.splitlines()
        self.assertEqual(library, str(site / "c7x_compute" / "lib" / "libc7x_compute.so"))
        self.assertEqual(result, "[1.0, 1.0, 1.0, 1.0]")


if __name__ == "__main__":
    unittest.main()
