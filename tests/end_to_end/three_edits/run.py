#!/usr/bin/env python3
"""Adds an op to a copy of the sources by the three edits that CONTRIBUTING.md shows, builds it, and runs it.

The edits are read from that page: each code block after a numbered heading goes in front of the line named here. If the page or the
places grow stale, this test fails.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
OP = "softsign"
# File, and a line before which the block goes.
PLACES = [
    ("kernels/ops/ops.def", "TENSORD_UNARY(Sqrt, sqrt"),
    ("kernels/ops/functors/unary.h", "struct Abs {"),
    ("tests/oracle/elementwise.cc", '{"sqrt", R('),
]
COPIED = ["CMakeLists.txt", "kernels", "proto", "server", "client", "tests"]


def blocks():
    """The three indented code blocks of the section on adding an op."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = page.split("## Adding an elementwise op", 1)[1]
    found = re.findall(r"\n\n((?:       .*\n|\n(?=       ))+)", section)
    if len(found) != len(PLACES):
        sys.exit(f"CONTRIBUTING.md shows {len(found)} code blocks, expected {len(PLACES)}")
    return ["\n".join(line[7:] for line in block.rstrip("\n").split("\n")) + "\n" for block in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    work = parser.parse_args().work
    source = work / "src"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name)
        else:
            shutil.copy(ROOT / name, source / name)
    edited = 0
    for (name, before), block in zip(PLACES, blocks()):
        path = source / name
        text = path.read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: {before!r} is there {text.count(before)} times, expected once")
        start = text.rindex("\n", 0, text.index(before)) + 1
        path.write_text(text[:start] + block + text[start:])
        edited += 1
    print(f"{edited} edits made")
    build = work / "build"
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTENSORD_CPU_VARIANTS=v2"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "--target", "three_edits_driver"], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([build / "tests/end_to_end/three_edits/three_edits_driver", OP], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
