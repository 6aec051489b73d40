#!/usr/bin/env python3
"""The house rules that a machine can check: layout, READMEs, length of sources, words that do not belong here.

Prints one line for each breach and exits 1 if there is any.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = {"CMakeLists.txt", "proto", "server", "client", "kernels", "tests", "deploy", "README.md", "LICENSE", "CHANGELOG.md",
       "CONTRIBUTING.md", "CMakePresets.json"}
# Folders that hold data or generated text alone, and those whose parent's README speaks of them.
NO_README = re.compile(r"(.*/(golden|data|include/tensord|include)|proto/tensord(/v1)?|proto/google(/rpc)?|tests/unit/.*|kernels/cpu/isa"
                       r"|kernels/ops/functors|tests/end_to_end/.*|deploy/docker)")
SOURCE = {".cc", ".h", ".cu", ".cuh", ".py", ".proto"}
LONGEST = 500
WORDS = re.compile(r"/home/\w|\bTODO\b|\bFIXME\b|\bXXX\b")


def tracked():
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z"]  # also where the checkout is another user's
    out = subprocess.run(git, cwd=ROOT, capture_output=True, check=False) if shutil.which("git") else None
    if out and out.returncode == 0 and out.stdout:
        return [name for name in out.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file() and ".build" not in p.parts]


def breaches(files):
    folders = set()
    for name in files:
        path = pathlib.PurePosixPath(name)
        top = path.parts[0]
        if top not in TOP and not top.startswith("."):
            yield f"{top}: the layout does not name this top-level entry"
        if not top.startswith("."):
            folders.update(str(parent) for parent in path.parents if str(parent) != ".")
        if path.suffix not in SOURCE:
            continue
        text = (ROOT / name).read_text(errors="replace")
        lines = text.count("\n")
        if lines > LONGEST:
            yield f"{name}: {lines} lines; what second thing does it do? ({LONGEST} is the bound)"
        if name != "tests/lint/house.py":
            for match in WORDS.finditer(text):
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r} does not belong here"
    for folder in sorted(folders):
        if not NO_README.fullmatch(folder) and f"{folder}/README.md" not in files:
            yield f"{folder}: has no README.md"


def main():
    found = sorted(set(breaches(tracked())))
    print("\n".join(found) if found else "house: layout, READMEs and sources are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
