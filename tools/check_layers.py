# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom under src/ against the table in ARCHITECTURE.md, and who exports what.

The table is the fenced block that begins with ```layers: one folder a line, a colon, and the folders it may include;
`public` stands for include/. A folder may always include itself, files named *_impl.h only itself, and tests
(*_test.c) whatever they test. Also checks that libc7x_compute exports just what the public header declares.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def read_table():
    """{folder: set of folders it may include} from ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"^```layers\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if block is None:
        sys.exit("check_layers: ARCHITECTURE.md has no ```layers block")
    table = {}
    for line in block.group(1).splitlines():
        folder, _, allowed = line.partition(":")
        table[folder.strip()] = set(allowed.split())
    return table


def folder_of(path, table):
    """The longest folder of the table that holds the path (relative to src), or None."""
    candidates = [folder for folder in table if path == folder or path.startswith(folder + "/")]
    return max(candidates, key=len, default=None)


def target_of(name, source, table):
    """The folder that an included name belongs to, or None if it cannot be found."""
    if (ROOT / "include" / name).exists():
        return "public"
    if name == "os_port.h":
        return "os"
    for path in (ROOT / "src" / name, source.parent / name):
        if path.exists():
            return folder_of(str(path.resolve().relative_to(ROOT / "src")), table)
    return None


def check_source(source, table):
    """The complaints about one source file."""
    relative = str(source.relative_to(ROOT / "src"))
    folder = folder_of(relative, table)
    if folder is None:
        return [f"src/{relative}: its folder is not in the table of ARCHITECTURE.md"]
    complaints = []
    for name in INCLUDE.findall(source.read_text()):
        target = target_of(name, source, table)
        if target is None:
            complaints.append(f"src/{relative}: cannot find {name}")
        elif target != folder and name.endswith("_impl.h"):
            complaints.append(f"src/{relative}: {name} is private to src/{target}")
        elif target != folder and target not in table[folder]:
            complaints.append(f"src/{relative}: src/{folder} may not include {name} of {target}")
    return complaints


def check_exports():
    """The complaints about the map of exported symbols."""
    header = (ROOT / "include/c7x_compute_client.h").read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = set(re.findall(r"\b(c7x_[a-z_0-9]+)\(", header))
    exported = set(re.findall(r"^\s+(c7x_\w+);", (ROOT / "src/client/libc7x_compute.map").read_text(), re.MULTILINE))
    return [f"{name}: declared in c7x_compute_client.h, not in libc7x_compute.map" for name in declared - exported] + \
           [f"{name}: in libc7x_compute.map, not declared in c7x_compute_client.h" for name in exported - declared]


def main():
    table = read_table()
    sources = [path for pattern in ("*.c", "*.h") for path in (ROOT / "src").rglob(pattern)
               if not path.name.endswith("_test.c")]
    failed = 0
    for source in sorted(sources):
        for complaint in check_source(source, table):
            print(complaint)
            failed = 1
    exports = check_exports()
    for complaint in exports:
        print(complaint)
    cases = {"layers": failed, "exports": bool(exports)}
    failures = sum(1 for value in cases.values() if value)
    print(f"{len(cases) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
