# SPDX-License-Identifier: Apache-2.0
"""A module on the emulated device, called again and again."""

import json
import os
import subprocess

import numpy as np

from c7x_compile import check
from c7x_compile.errors import CompileError


class DeviceSession:
    """A module loaded once on the emulated device, through `c7x_compute session-run`."""

    def __init__(self, module, inputs, threads=1):
        """inputs: list of arrays, the same for every call; threads: of the emulator."""
        self._data = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs)
        request = {
            "op": "infer",
            "num_inputs": len(inputs),
            "input_size": len(self._data),
            "shape": ";".join(",".join(map(str, array.shape)) for array in inputs),
            "dtype": ";".join(str(array.dtype) for array in inputs),
        }
        self._request = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        self._process = subprocess.Popen(
            [check.find_c7x_compute(), "session-run", "--module", str(module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "C7X_THREADS": str(threads)},
        )
        self._reply()

    def infer(self):
        """Runs the model once. Returns (nanoseconds on the device, output bytes, reply)."""
        self._process.stdin.write(self._request + self._data)
        self._process.stdin.flush()
        reply = self._reply()
        data = self._process.stdout.read(reply.get("output_size", 0))
        return reply["cycles"], data, reply

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def _reply(self):
        line = self._process.stdout.readline()
        reply = json.loads(line) if line else {"error": "the session ended"}
        if reply.get("status") not in ("ok", "ready"):
            raise CompileError(reply.get("error", "the session failed"))
        return reply


