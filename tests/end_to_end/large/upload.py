#!/usr/bin/env python3
"""A tensor of 3 GiB goes up and comes down through tensorctl; the daemon's memory grows by no more than 1.2 times its size. A client killed in the
middle of the same upload leaves nothing behind.

Exits 77 (skipped) where less than 8 GiB of memory or 7 GiB of disk are free.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from daemon import Daemon  # noqa: E402

GIB = 1 << 30
SIZE = 3 * GIB
DEADLINE = 60  # seconds for a condition that must come; nothing is waited for longer than it takes


def available():
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) * 1024 for line in info if line.startswith("MemAvailable"))


def write(path):
    """A .npy of float32 that differs in every page, written in pieces."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=(3, GIB // 4))
    step = 1 << 24
    for row in range(3):
        for at in range(0, GIB // 4, step):
            array[row, at:at + step] = np.arange(at, at + step, dtype=np.float32) + row
    array.flush()


def held(daemon):
    """Bytes of tensors that the daemon holds on the CPU."""
    (cpu,) = [d for d in json.loads(daemon.ctl("-o", "json", "devices"))["devices"] if d["name"] == "cpu"]
    return cpu["held_bytes"]


def until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not come within {DEADLINE} s")
        time.sleep(0.01)


def main(bin_dir):
    with tempfile.TemporaryDirectory() as folder:
        if available() < 8 * GIB or shutil.disk_usage(folder).free < 7 * GIB:
            print("skipped: needs 8 GiB of memory and 7 GiB of disk")
            return 77
        folder = pathlib.Path(folder)
        write(folder / "up.npy")
        with Daemon(bin_dir, "--lease", "2s", "--grace", "1s") as daemon:
            before = daemon.rss()
            client = subprocess.Popen([daemon.bin / "client/cli/tensorctl", "--server", daemon.server, "put", folder / "up.npy", "killed"])
            until(lambda: daemon.rss() > before + GIB // 2 or client.poll() is not None, "half a GiB of the upload")
            if client.poll() is not None:
                print("the upload ended before it could be killed")
                return 1
            client.send_signal(signal.SIGKILL)
            client.wait()
            until(lambda: held(daemon) == 0, "the end of what a killed client held")
            if "killed" in daemon.ctl("ls"):
                print("a killed client left its name")
                return 1

        # A daemon of its own: what the killed upload left in the pool would count as growth that need not happen.
        with Daemon(bin_dir) as daemon:
            before = daemon.rss()
            peak = before
            client = subprocess.Popen([daemon.bin / "client/cli/tensorctl", "--server", daemon.server, "put", folder / "up.npy", "big"])
            while client.poll() is None:
                peak = max(peak, daemon.rss())
                time.sleep(0.005)
            if client.returncode != 0:
                return 1
            client = subprocess.Popen([daemon.bin / "client/cli/tensorctl", "--server", daemon.server, "get", "big", folder / "down.npy"])
            while client.poll() is None:
                peak = max(peak, daemon.rss())
                time.sleep(0.005)
            if client.returncode != 0 or subprocess.run(["cmp", folder / "up.npy", folder / "down.npy"], check=False).returncode != 0:
                print("the tensor came back different")
                return 1
            growth = (peak - before) / SIZE
            print(f"the daemon grew by {growth:.3f} of the tensor's {SIZE} bytes")
            daemon.ctl("rm", "big")
            return 0 if growth <= 1.2 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
