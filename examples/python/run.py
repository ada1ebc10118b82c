# SPDX-License-Identifier: Apache-2.0
"""Runs a module once: pip install ./python && python run.py lib0.out"""

import sys

import numpy as np

from c7x_compute import C7xError, C7xVirtualMachine, declaration


def main():
    if len(sys.argv) != 2:
        print("usage: run.py MODULE", file=sys.stderr)
        return 1
    path = sys.argv[1]
    try:
        # What the module wants and gives stands in its file; no device is needed to read it.
        declared = declaration(path)
        inputs = []
        for spec in declared.inputs:
            values = np.arange(np.prod(spec.shape, dtype=int)) % 10  # 0 1 2 ... 9 0 1 ...
            inputs.append(values.reshape(spec.shape).astype(spec.dtype))

        # A device ($C7X_DEVICE, else an emulator of our own); the first run loads the module onto it.
        with C7xVirtualMachine(path) as vm:
            outputs = vm["main"](*inputs)
            if isinstance(outputs, np.ndarray):  # a single output comes without a list
                outputs = [outputs]
            for spec, output in zip(declared.outputs, outputs):
                for k, value in enumerate(output.ravel()[:4]):
                    print(f"output {spec.name} [{k}]: {value:g}")
            print(f"time: {vm.last_cycles} ns (clock cycles on a board)")
    except (C7xError, OSError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
