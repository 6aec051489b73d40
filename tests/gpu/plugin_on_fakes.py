#!/usr/bin/env python3
"""The plugin that nvcc built, behind the daemon, on fakes of libcudart, cuBLASLt and NVML.

    plugin_on_fakes.py BUILD

The same bits go to a GPU machine; here LD_LIBRARY_PATH puts the fakes before the real libraries.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from daemon import Daemon  # noqa: E402


def check(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, re.M):
            sys.exit(f"expected {pattern!r} in:\n{text}")


def log_of(daemon):
    daemon.log.flush()
    return (daemon.folder / "log").read_text()


def devices_are_listed_and_compute(build):
    os.environ["TENSORD_EMULATED_CUDA"] = "devices=2,memory=64MiB"
    with Daemon(build) as daemon:
        log = log_of(daemon)
        check(log, r'"CUDA plugin" path=\S+/libtensord_cuda\.so', r"device name=cuda:0 ", r"device name=cuda:1 ")
        assert "emulated=yes" not in log, log  # the daemon takes them for real
        listed = daemon.ctl("devices")
        check(listed, r"^cpu ", r"^cuda:0 .*GPU-\S+ .* 64 MiB .*ok", r"^cuda:1 .*ok")
        answers = daemon.shell('X = td.ones([2, 3]).to("cuda:0")\nX.sum()\nY = X @ X.T\nY\n(Y * 2 + 1).to("cuda:1").to("cpu")\n')
        check(answers, r"tensor\(6\., device='cuda:0'\)", r"tensor\(\[\[3\., 3\.\],", r"tensor\(\[\[7\., 7\.\],\s+\[7\., 7\.\]\]\)")


def selected_devices_are_taken_alone(build):
    os.environ["TENSORD_EMULATED_CUDA"] = "devices=3,memory=16MiB"
    with Daemon(build, "--devices", "cpu,cuda:2") as daemon:
        listed = daemon.ctl("devices")
        check(listed, r"^cuda:2 ")
        assert "cuda:0" not in listed and "cuda:1" not in listed, listed
        uuid = re.search(r"GPU-\S+", listed)[0]
    with Daemon(build, "--devices", uuid[:40]) as daemon:
        check(daemon.ctl("devices"), rf"^cuda:2 .*{uuid}")
    with Daemon(build, "--devices", "cpu") as daemon:
        assert "cuda" not in daemon.ctl("devices")
    refused = subprocess.run([build / "server/tensord", "--listen", "unix:/tmp/never", "--devices", "cuda:9"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2, refused
    check(refused.stderr, r"tensord: no device cuda:9; there are cpu, cuda:0 \(GPU-")


def why_there_is_none(build):
    for code, name in ((35, "cudaErrorInsufficientDriver"), (100, "cudaErrorNoDevice"), (803, "cudaErrorSystemDriverMismatch")):
        os.environ["TENSORD_EMULATED_CUDA"] = f"startup_error={code}"
        with Daemon(build) as daemon:
            check(log_of(daemon), rf'"no CUDA device: {name} \({code}\): ')
            assert "cuda" not in daemon.ctl("devices")


def main():
    build = pathlib.Path(sys.argv[1])
    os.environ["LD_LIBRARY_PATH"] = str(build / "fake")
    devices_are_listed_and_compute(build)
    selected_devices_are_taken_alone(build)
    why_there_is_none(build)


main()
