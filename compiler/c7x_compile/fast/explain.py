# SPDX-License-Identifier: Apache-2.0
"""The table of --explain: what computes each operator, and why."""

_HEAD = ("kernel", "GFLOP", "MB", "why", "operators")


def table(calls, texts):
    """Lines of text. calls: of regions.Plan; texts: (kernel name, names of the ONNX nodes) of all kernel
    calls in order. GFLOP is of the operator as the model has it, MB what it reads and writes at least."""
    fast = {}
    for name, _, choice in calls:
        fast.setdefault(name, []).append(choice)
    rows = [_HEAD]
    flop = moved = 0
    for name, text in texts:
        if not fast.get(name):
            rows.append((name[:32], "-", "-", "TVM's loops", text))
            continue
        choice = fast[name].pop(0)
        flop, moved = flop + choice.flop, moved + choice.bytes
        sizes = f"{choice.flop / 1e9:.4f}", f"{choice.bytes / 1e6:.2f}"
        rows.append((name, *sizes, choice.why, text))
    rows.append(("sum of fast kernels", f"{flop / 1e9:.4f}", f"{moved / 1e6:.2f}", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  "
        f"{row[3]:<{widths[3]}}  {row[4]}".rstrip()
        for row in rows
    ]
