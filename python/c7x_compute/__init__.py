# SPDX-License-Identifier: Apache-2.0
"""Runs compiled neural networks on TI's C7x DSP, or on its emulator, with numpy arrays.

with C7xVirtualMachine("lib0.out") as vm:
    y = vm["main"](x)
"""

from c7x_compute._library import find_c7x_arm_runtime_so
from c7x_compute.errors import C7xError
from c7x_compute.inspect import Declaration, TensorSpec, declaration
from c7x_compute.vm import C7xVirtualMachine

__version__ = "0.1.0"
__all__ = ["C7xError", "C7xVirtualMachine", "Declaration", "TensorSpec", "declaration", "find_c7x_arm_runtime_so"]
