# SPDX-License-Identifier: Apache-2.0
"""The documents say what is: generated parts are fresh, links lead somewhere, verbs exist, examples run."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]


def generated_parts_are_fresh(_):
    done = subprocess.run([sys.executable, "tools/gen_docs.py", "--check"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout


def files_that_are_named_exist(_):
    """Markdown links, and `paths` that begin with a folder of the project."""
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("build"))
    missing = []
    for document in DOCUMENTS:
        text = document.read_text()
        for link in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if not (document.parent / link).exists():
                missing.append(f"{document.relative_to(ROOT)}: {link}")
        for path in re.findall(rf"`((?:{folders})/[\w./-]+)`", text):
            if not (ROOT / path).exists():
                missing.append(f"{document.relative_to(ROOT)}: {path}")
    assert not missing, "\n".join(missing)


def verbs_that_are_named_exist(_):
    verbs = set(re.findall(r"^([a-z0-9-]+(?: [a-z0-9-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    verbs = {verb for group in verbs for verb in group.split()}
    for document in DOCUMENTS:
        named = set(re.findall(r"(?:`|^    )make ([a-z0-9-]+)", document.read_text(), re.MULTILINE))
        assert named <= verbs, f"{document.name}: no verb {named - verbs}"


def every_verb_is_in_the_readme(_):
    listed = set(re.findall(r"^([a-z0-9 -]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    verbs = {verb for group in listed for verb in group.split()} - {"all", "help", "clean"}
    readme = (ROOT / "README.md").read_text()
    missing = [verb for verb in verbs if not re.search(rf"`make {verb}[` ]", readme)]
    assert not missing, f"README.md does not name {missing}"


def readme_commands_run(build):
    """The commands of "Use it", on a test module in place of lib0.out."""
    text = (ROOT / "README.md").read_text().split("## Use it")[1].split("From C")[0]
    commands = re.findall(r"^    (build/bin/.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(commands) >= 5, commands
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(build / "tests/modules/add_one.out", Path(folder) / "lib0.out")
        make_input = ("import numpy; numpy.save('x.npy', numpy.arange(4, dtype='float32'))")
        subprocess.run([sys.executable, "-c", make_input], cwd=folder, check=True)
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        try:
            for command in commands:
                words = command.replace("build/bin", str(build / "bin")).split()
                done = subprocess.run(words, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
                assert done.returncode == 0, f"{command}: {done.stdout}"
        finally:  # the last one starts an emulator
            subprocess.run([build / "bin/c7x_compute", "emulator", "stop"], env=environment, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)


def readme_c_code_compiles(build):
    code = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    program = f"#include <c7x_compute_client.h>\n#include <stdio.h>\nint main(void)\n{{\n{code}return 0;\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "example.c").write_text(program)
        done = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "example.c", "-I",
                               str(ROOT / "include")], cwd=folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def each_public_header_compiles_alone(_):
    for header in (ROOT / "include").glob("*.h"):
        for compiler in (["cc", "-std=c99", "-xc"], ["cc", "-std=c11", "-xc"], ["c++", "-std=c++17", "-xc++"]):
            done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I",
                                   str(ROOT / "include"), "-"], input=f'#include "{header.name}"\n', text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert done.returncode == 0, f"{header.name} with {compiler[1]}: {done.stdout}"


CASES = [generated_parts_are_fresh, files_that_are_named_exist, verbs_that_are_named_exist,
         every_verb_is_in_the_readme, readme_commands_run, readme_c_code_compiles,
         each_public_header_compiles_alone]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    failed = 0
    for case in CASES:
        try:
            case(Path(options.build).resolve())
            print(f"PASS {case.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAIL {case.__name__}: {error}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
