#!/usr/bin/env python3
"""The tutorial as written: `tensorctl shell` against `tensord --emulate-cuda=1`, every line and its answer.

Each line runs in one shell whose standard input is the whole text, with --echo, so that the answer to a line is what stands between it and the next. Random
values are matched by pattern. The same lines are then pasted with Python's prompts, and `--strict` ends with an exit code.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from daemon import Daemon, Failed  # noqa: E402

NUMBER = r" ?-?\d+\.\d{4}"
GPU = r", device='cuda:0'\)"
ERROR = r"error FAILED_PRECONDITION DEVICE_MISMATCH: "

# A line, and a pattern for the whole of its answer.
TUTORIAL = [
    ("try_all_gpus()", r"\[device\(type='cuda', index=0\)\]"),
    ("X = ones(2, 3, device=try_gpu())", ""),
    ("X", r"tensor\(\[\[1\., 1\., 1\.\],\n        \[1\., 1\., 1\.\]\]" + GPU),
    ("Y = rand(2, 3, device=try_gpu(1))", ""),
    ("Y.device", r"device\(type='cpu'\)"),
    ("X + Y", ERROR + r"add: operand 1 \(Y, float32\[2,3\]\) is on cpu, operand 0 \(X, float32\[2,3\]\) is on cuda:0; "
              r"tensors must be on one device\. Move one first: Y\.to\(\"cuda:0\"\)\nnext: .+"),
    ("Z = Y.cuda(0)", ""),
    ("Z.cuda(0) is Z", "True"),
    ("X + Z", rf"tensor\(\[\[{NUMBER},{NUMBER},{NUMBER}\],\n        \[{NUMBER},{NUMBER},{NUMBER}\]\]" + GPU),
    ("net = nn.Sequential(nn.Linear(3, 1))", ""),
    ("net(X)", ERROR + r"(?=.*\bcuda:0\b)(?=.*\bcpu\b).*\nnext: .+"),
    ("net = net.to(device=try_gpu())", ""),
    ("net(X)", rf"tensor\(\[\[{NUMBER}\],\n        \[{NUMBER}\]\]" + GPU),
    ("net(X).shape", r"\(2, 1\)"),
    ("net[0].weight.data.device", r"device\(type='cuda', index=0\)"),
    ("ones(2, device=\"cuda:7\")", r"error NOT_FOUND DEVICE_UNKNOWN: no device cuda:7; there are cpu, cuda:0\nnext: .+"),
]


def answers(text):
    """The answer to each echoed line."""
    parts = re.split(r"^>>> (.*)\n", text, flags=re.M)
    if parts[0]:
        raise Failed(f"unexpected output before the first line: {parts[0]!r}")
    return list(zip(parts[1::2], (part.rstrip("\n") for part in parts[2::2])))


def check(condition, what):
    if not condition:
        raise Failed(what)


def check_tutorial(text):
    got = answers(text)
    check(len(got) == len(TUTORIAL), f"{len(got)} answers to {len(TUTORIAL)} lines:\n{text}")
    for (line, pattern), (echoed, answer) in zip(TUTORIAL, got):
        check(echoed == line, f"expected the echo of {line!r}, got {echoed!r}")
        check(re.fullmatch(pattern, answer), f"{line}\nanswers\n{answer}\nwhich is not\n{pattern}")


def main(bin_dir):
    lines = "".join(line + "\n" for line, _ in TUTORIAL)
    with Daemon(bin_dir, "--emulate-cuda=1") as daemon:
        result = daemon.run("shell", "--echo", stdin=lines)
        check(result.stderr == "", f"the shell wrote to standard error: {result.stderr}")
        check_tutorial(result.stdout)

        # The names outlive the shell: other commands see them, and where they are.
        check(daemon.ctl("ls").split() == ["X", "Y", "Z", "net"], "ls does not list the tutorial's names")
        devices = daemon.ctl("devices")
        for text in ("cuda:0", "(emulated)", "default/X", "default/net"):
            check(text in devices, f"devices does not show {text}:\n{devices}")

        # Pasted from a Python session, and strict about failures.
        pasted = "".join(f">>> {line}\n" for line, _ in TUTORIAL)
        result = daemon.run("shell", "--echo", "--strict", stdin=pasted, check=False)
        check_tutorial(result.stdout)
        check(result.returncode == 5, f"--strict ended with {result.returncode} after a refused line")

        daemon.ctl("rm", "--all")
        check(daemon.ctl("ls") == "", "rm --all left names")
    print(f"{len(TUTORIAL)} lines answered as the tutorial says")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except Failed as failed:
        print(failed)
        sys.exit(1)
