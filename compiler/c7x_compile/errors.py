# SPDX-License-Identifier: Apache-2.0
"""The errors that the compiler reports to its user."""


class CompileError(Exception):
    """The model cannot be compiled as asked; the text says why and what to do."""


class UnsupportedOperators(CompileError):
    """Operators that cannot be compiled.

    nodes: list of (node name, operator type, reason), each node once, in graph order.
    """

    def __init__(self, nodes):
        self.nodes = list(nodes)
        lines = [f"{len(self.nodes)} operator(s) cannot be compiled:"]
        lines += [f"  {name} ({kind}): {reason}" for name, kind, reason in self.nodes]
        super().__init__("\n".join(lines))
