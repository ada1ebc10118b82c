# SPDX-License-Identifier: Apache-2.0
"""Makes and shows the small binary files of the tests, with nothing but the standard library.

    data pack FORMAT NUMBER...      little-endian numbers (struct format, one letter) to stdout
    data show FORMAT FILE           the numbers of a file, on one line
    data npy DESCR SHAPE ORDER [VERSION] < RAW     a .npy file to stdout; ORDER is C or F
    data head FILE                  the head of a .npy file
    data damage FILE                clears the magic number of the first tensor of the weights
"""
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


if __name__ == "__main__":
    {"pack": pack, "show": show, "npy": npy, "head": head, "damage": damage}[sys.argv[1]](*sys.argv[2:])
