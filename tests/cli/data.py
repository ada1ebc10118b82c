# SPDX-License-Identifier: Apache-2.0
"""Makes and shows the small binary files of the tests, with nothing but the standard library.

    data pack FORMAT NUMBER...      little-endian numbers (struct format, one letter) to stdout
    data show FORMAT FILE           the numbers of a file, on one line
    data npy DESCR SHAPE ORDER [VERSION] < RAW     a .npy file to stdout; ORDER is C or F
    data head FILE                  the head of a .npy file
    data damage FILE                clears the magic number of the first tensor of the weights
    data trace FILE                 checks a recording, and shows what is in it: threads, then slices in order, by thread
    data json FILE KEY...           what stands there, numbers as keys of lists
"""
import json
import struct
import sys


def pack(letter, *numbers):
    values = [float(n) if letter in "efd" else int(n, 0) for n in numbers]
    sys.stdout.buffer.write(struct.pack(f"<{len(values)}{letter}", *values))


def show(letter, path):
    with open(path, "rb") as file:
        print(*(number for number, in struct.iter_unpack("<" + letter, file.read())))


def npy(descr, shape, order, version="1"):
    text = f"{{'descr': {descr!r}, 'fortran_order': {order == 'F'}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == "1" else "<I", len(text))
    sys.stdout.buffer.write(b"\x93NUMPY" + bytes([int(version), 0]) + length + text + sys.stdin.buffer.read())


def head(path):
    with open(path, "rb") as file:
        start = file.read(10)
        print(start[:6] == b"\x93NUMPY", file.read(struct.unpack("<H", start[8:])[0]).decode().rstrip())


def damage(path):
    magic = struct.pack("<Q", 0xDD5E40F096B4A13F)
    with open(path, "r+b") as file:
        at = file.read().index(magic)
        file.seek(at)
        file.write(bytes(len(magic)))


def trace(path):
    with open(path, encoding="utf-8") as file:
        recording = json.load(file)
    events = recording["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    print("threads:", *(names[tid] for tid in sorted(order, key=order.get)))
    slices = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"]))
    for tid, name in names.items():
        open_until = []
        for item in (e for e in slices if e["tid"] == tid):
            end = item["ts"] + item["dur"]
            while open_until and open_until[-1] <= item["ts"] + 5e-4 and end > open_until[-1] + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-3, f"{item} does not lie in what is around it"
            print(f"{name}: {'  ' * len(open_until)}{item['name']}")
            open_until.append(end)
    ids = {e["id"]: [] for e in events if e["ph"] == "b"}
    for event in (e for e in events if e["ph"] in "bne" and e["id"] in ids):
        ids[event["id"]].append(event["ts"])
    assert ids and all(times == sorted(times) for times in ids.values())
    assert all(e["args"]["requests"] >= 0 for e in events if e["ph"] == "C")
    print("lost:", recording["otherData"]["lost_events"])


def show_json(path, *keys):
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
    print(value)


if __name__ == "__main__":
    {"pack": pack, "show": show, "npy": npy, "head": head, "damage": damage, "trace": trace,
     "json": show_json}[sys.argv[1]](*sys.argv[2:])
