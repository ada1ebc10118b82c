# SPDX-License-Identifier: Apache-2.0
"""Renews the generated parts of the documents from the tables in the code; --check only says what is stale.

docs/protocol.md   between <!-- generated: NAME --> and <!-- end -->: messages, layouts, statuses
docs/exports.md    likewise: names
compiler/c7x_compile/exports.txt   whole
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"wire_u32": 4, "wire_u64": 8, "uint8_t": 1}
TYPES = {"wire_u32": "u32", "wire_u64": "u64", "uint8_t": "u8"}


def header(name):
    return (ROOT / "include" / name).read_text()


def joined(text):
    """Macro text without its line continuations."""
    return re.sub(r"\s*\\\n\s*", " ", text)


def messages_table():
    """One row a message, from WIRE_MESSAGES."""
    table = joined(header("c7x_compute_protocol.h")).split("#define WIRE_MESSAGES(X)")[1].split("\n")[0]
    rows = ["| message | request | response | since | what for |", "|---|---|---|---|---|"]
    for row in re.findall(r'X\((\w+), (\w+), (0x\w+), (0x\w+), (0x\w+),\s*"([^"]*)"\)', table):
        since = int(row[4], 16)
        rows.append(f"| {row[0]} | {row[2]} | {row[3]} | {since >> 16}.{since >> 8 & 255} | {row[5]} |")
    return "\n".join(rows)


def events_table():
    """One row an event, from WIRE_EVENTS."""
    table = joined(header("c7x_compute_protocol.h")).split("#define WIRE_EVENTS(X)")[1].split("\n")[0]
    rows = ["| event | number | what `argument` is |", "|---|---|---|"]
    for number, name, argument in re.findall(r'X\(\w+, (\d+), "([^"]*)",\s*"([^"]*)"\)', table):
        rows.append(f"| {name} | {number} | {argument} |")
    return "\n".join(rows)


def statuses_table():
    """One row a status, from C7X_STATUS_TABLE."""
    table = joined(header("c7x_status.h")).split("#define C7X_STATUS_TABLE(X)")[1].split("\n")[0]
    rows = ["| code | name | text | same call may succeed later | what to do |", "|---|---|---|---|---|"]
    for name, code, text, retry, step in re.findall(r'X\((\w+), (-?\d+), "([^"]*)", (\d),\s*"([^"]*)"\)', table):
        rows.append(f"| {code} | {name} | {text} | {'yes' if retry == '1' else 'no'} | {step} |")
    return "\n".join(rows)


def struct_rows(body, known):
    """Rows of one struct and its size. A comment behind a field is its meaning."""
    offset, rows = 0, []
    for line in body.splitlines():
        match = re.match(r"\s*(?:struct )?(\w+) (\w+)(?:\[(\w+)\])?;(?:\s*/\* (.*?) \*/)?", line)
        if match is None:
            continue
        kind, name, count, meaning = match.groups()
        size = SIZES.get(kind) or known[kind]
        label = TYPES.get(kind, kind)
        number = {"C7X_WIRE_RANK_MAX": 6, "C7X_WIRE_NAME_SIZE": 32}.get(count) or int(count or 1)
        rows.append((offset, label + (f"[{number}]" if count else ""), name, meaning or ""))
        offset += size * number
    return rows, offset


def layouts():
    """A table for each struct of the protocol header."""
    text, known, parts = header("c7x_compute_protocol.h"), {}, []
    for match in re.finditer(r"(?:/\*((?:(?!\*/).)*?)\*/\n)?struct (c7x_\w+) \{\n(.*?)\n\};", text, re.DOTALL):
        comment, name, body = match.groups()
        rows, size = struct_rows(body, known)
        known[name] = size
        parts.append(f"### `struct {name}`, {size} bytes\n")
        if comment and "----" not in comment:
            parts.append(re.sub(r"\s*\n \*\s*", " ", comment).strip() + "\n")
        parts.append("| offset | type | field | meaning |\n|---|---|---|---|")
        parts += [f"| {offset} | {kind} | {field} | {meaning} |" for offset, kind, field, meaning in rows]
        parts.append("")
    return "\n".join(parts).rstrip()


def fill(document, text, name, content):
    """Puts the content between the markers of that name."""
    pattern = rf"(<!-- generated: {name} -->\n)(?:.*?\n)??(<!-- end -->)"
    filled, count = re.subn(pattern, lambda match: f"{match.group(1)}{content}\n{match.group(2)}", text,
                            flags=re.DOTALL)
    if count != 1:
        sys.exit(f"gen_docs: {document} has {count} places for {name}")
    return filled


def protocol():
    document = "docs/protocol.md"
    text = (ROOT / document).read_text()
    for name, content in (("messages", messages_table()), ("events", events_table()), ("layouts", layouts()),
                          ("statuses", statuses_table())):
        text = fill(document, text, name, content)
    return text


def export_groups():
    """{group: names} of the export table, in its order."""
    table = (ROOT / "src/firmware/exports/exports.gperf").read_text().split("\n%%\n")[1]
    groups = {}
    for name, group in re.findall(r'^(\w+), .*, "([^"]+)"$', table, re.MULTILINE):
        groups.setdefault(group, []).append(name)
    return groups


def exports():
    """docs/exports.md: the number of names, and the names by group."""
    document, groups = "docs/exports.md", export_groups()
    lines = [f"{sum(map(len, groups.values()))} names:", ""]
    for group, names in groups.items():
        lines += [f"### {group} ({len(names)})", "", ", ".join(f"`{name}`" for name in names), ""]
    return fill(document, (ROOT / document).read_text(), "names", "\n".join(lines).rstrip())


def allowed_imports():
    """The compiler's list: every name of the export table with its group."""
    lines = ["# What a module may import, one name a line: name and group. All of the firmware's export table",
             "# (src/firmware/exports/exports.gperf); tools/gen_docs.py writes this file. Portable modules may import",
             "# these too: behind each name stands plain C on every device. c7x-compile refuses to write a module that",
             "# needs another name."]
    lines += [f"{name} {group}" for group, names in export_groups().items() for name in names]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if something is stale")
    options = parser.parse_args()
    stale = []
    for name, text in (("docs/protocol.md", protocol()), ("docs/exports.md", exports()),
                       ("compiler/c7x_compile/exports.txt", allowed_imports())):
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not options.check:
            path.write_text(text)
            print(f"wrote {name}")
    for name in stale if options.check else []:
        print(f"{name} is stale; run: python3 tools/gen_docs.py")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
