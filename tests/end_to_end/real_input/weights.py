#!/usr/bin/env python3
"""The weights of a real model go up as .npy files and come back bit for bit.

Reads ../shared/data/safetensors/silero_vad_16k.safetensors in place; exits 77 (skipped) where it is absent.
"""
import json
import pathlib
import struct
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from daemon import Daemon  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = ROOT.parent / "shared/data/safetensors/silero_vad_16k.safetensors"


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", entry
            begin, end = entry["data_offsets"]
            yield name, np.frombuffer(data[8 + length:][begin:end], dtype="<f4").reshape(entry["shape"])


def main(bin_dir):
    if not FILE.exists():
        print("skipped: no ../shared/data/safetensors/silero_vad_16k.safetensors beside the checkout")
        return 77
    tensors = dict(read(FILE))
    with tempfile.TemporaryDirectory() as folder, Daemon(bin_dir, "--emulate-cuda=1") as daemon:
        folder = pathlib.Path(folder)
        for i, (name, value) in enumerate(tensors.items()):
            device = ("cpu", "cuda:0")[i % 2]
            np.save(folder / "up.npy", value)
            daemon.ctl("put", folder / "up.npy", name, "--device", device)
        for name, value in tensors.items():
            daemon.ctl("get", name, folder / "down.npy")
            back = np.load(folder / "down.npy")
            if back.dtype != value.dtype or back.shape != value.shape or back.tobytes() != value.tobytes():
                print(f"{name}: came back different")
                return 1
        print(f"{len(tensors)} tensors, {sum(v.nbytes for v in tensors.values())} bytes: all came back bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
