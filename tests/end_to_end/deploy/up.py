#!/usr/bin/env python3
"""deploy/up with programs that are built already: starting, starting again, other flags, --status, --stop, and what goes wrong.

A copy of deploy/ in a folder with a space in its name, the programs of the build under test, and a cmake that has nothing to do.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from daemon import Failed  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Checkout:
    def __init__(self, folder, tensord, tensorctl):
        self.root = folder / "a checkout"
        self.run = self.root / ".build/run"
        shutil.copytree(ROOT / "deploy", self.root / "deploy")
        for program, place in ((tensord, "server/tensord"), (tensorctl, "client/cli/tensorctl")):
            link = self.root / ".build/release" / place
            link.parent.mkdir(parents=True)
            link.symlink_to(program)
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (("cmake", "exit 0"), ("dpkg-query", 'for p; do echo "$p installed"; done')):
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        unset = {"TENSORD_SERVER", "TENSORD_LISTEN", "TENSORD_WORKSPACE"}
        self.environment = {k: v for k, v in os.environ.items() if k not in unset} | {"PATH": f"{tools}:{os.environ['PATH']}"}

    def up(self, *arguments, code=0):
        """Runs deploy/up in another folder; standard output and error together."""
        result = subprocess.run([self.root / "deploy/up", *arguments], cwd="/", env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        if result.returncode != code:
            raise Failed(f"deploy/up {' '.join(arguments)} ended with {result.returncode}, not {code}:\n{result.stdout}")
        return result.stdout

    def pid(self):
        return int((self.run / "tensord.pid").read_text())


def check(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, flags=re.M):
            raise Failed(f"no {pattern!r} in:\n{text}")


def alive(pid):
    """Whether the process runs: one that has ended but was not waited for has no command line."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def scenario(checkout):
    check(checkout.up("--status", code=3), "not running")
    check(checkout.up("--stop"), "no daemon of deploy/up is running")

    out = checkout.up("--listen", "localhost:0")
    check(out, r"starting: tensord --listen localhost:0 --emulate-cuda=1", r"healthy on \S+:\d+ \(pid", r"^>>> X$", r"device='cuda:0'\)$", "DEVICE_MISMATCH",
          r"export TENSORD_SERVER=\S+:\d+ PATH=.*a\\ checkout")
    first = checkout.pid()
    check(checkout.up("--status"), rf"running, pid {first}: tensord --listen localhost:0 --emulate-cuda=1")
    check(checkout.up("--listen=localhost:0"), rf"running already \(pid {first}\)", "healthy on")

    check(checkout.up("--listen", "localhost:0", "--", "--emulate-cuda=2:64MiB", "--threads", "1"), "has other flags", "stopping", r"cuda:1")
    second = checkout.pid()
    if alive(first) or not alive(second):
        raise Failed("the first daemon goes on, or the second has ended")
    check(checkout.up("--stop"), rf"stopping the daemon \(pid {second}\)")
    if alive(second):
        raise Failed("--stop returned before the daemon had ended")
    check(checkout.up("--stop"), "no daemon of deploy/up is running")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        check(checkout.up("--listen", address, code=1), f"cannot listen on {address}: another process listens there", "^error: the daemon ended at once")
    check(checkout.up("--listen", "localhost:0", "--", "--no-such-flag", code=1), "--no-such-flag", "^error: the daemon ended at once")
    check(checkout.up("--status", code=3), "not running")
    check(checkout.up("--emulate-cuda=1", code=1), "^error: unknown argument --emulate-cuda=1; flags of the daemon go behind --")
    check(checkout.up("--listen", code=1), "^error: --listen needs HOST:PORT")

    # A pid that another process has by now: left alone.
    (checkout.run / "tensord.pid").write_text(f"{os.getpid()}\n")
    check(checkout.up("--stop"), "no daemon of deploy/up is running")


def main():
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(pathlib.Path(folder), *sys.argv[1:3])
        try:
            scenario(checkout)
        finally:
            checkout.up("--stop")
    print("deploy/up starts, reuses, replaces and stops the daemon, and says what is wrong")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        print(failed)
        sys.exit(1)
