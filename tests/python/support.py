# SPDX-License-Identifier: Apache-2.0
"""Where library, test modules and real models are; C7X_LIBRARY and C7X_MODELS name those of another build."""

import os
from pathlib import Path

from c7x_compute import C7xVirtualMachine

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("C7X_BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = Path(os.environ.get("C7X_LIBRARY", BUILD / "lib" / "libc7x_compute.so"))
MODELS = Path(os.environ.get("C7X_MODELS", ROOT / "build" / "models"))
CLS = MODELS / "ppocr-cls" / "lib0.out"
SILERO = MODELS / "silero-vad-16k" / "lib0.out"


def module(name):
    return BUILD / "tests" / "modules" / f"{name}.out"


def machine(module_name, **options):
    """A machine for a test module."""
    return C7xVirtualMachine(module(module_name), so_path=LIBRARY, **options)
