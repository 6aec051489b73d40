#!/usr/bin/env python3
"""1,797 images of handwritten digits are classified on the daemon by a two-layer network that was fitted outside.

Images and weights go up as .npy files through `tensorctl put`; the predictions come home through `get` and equal NumPy's for
every image, on the CPU and on an emulated device.
"""
import pathlib
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from daemon import Daemon  # noqa: E402


def main(bin_dir):
    digits = load_digits()
    images = digits.data.astype(np.float32) / 16
    fitted = MLPClassifier(hidden_layer_sizes=(64,), max_iter=60, random_state=0).fit(images, digits.target)
    weights = {"w1": fitted.coefs_[0].T, "b1": fitted.intercepts_[0], "w2": fitted.coefs_[1].T, "b2": fitted.intercepts_[1]}
    weights = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in weights.items()}
    hidden = np.maximum(images @ weights["w1"].T + weights["b1"], 0)
    expected = (hidden @ weights["w2"].T + weights["b2"]).argmax(axis=1)
    print(f"{len(images)} images; NumPy is right on {(expected == digits.target).mean():.1%}")

    with tempfile.TemporaryDirectory() as folder, Daemon(bin_dir, "--emulate-cuda=1") as daemon:
        folder = pathlib.Path(folder)
        for name, value in {"images": images, **weights}.items():
            np.save(folder / f"{name}.npy", value)
        for device in ("cpu", "cuda:0"):
            for name in ("images", *weights):
                daemon.ctl("put", folder / f"{name}.npy", name, "--device", device)
            daemon.ctl("run", "predictions = linear(relu(linear(images, w1, b1)), w2, b2).argmax(axis=1)")
            daemon.ctl("get", "predictions", folder / "predictions.npy")
            got = np.load(folder / "predictions.npy")
            wrong = int((got != expected).sum())
            print(f"{device}: {wrong} of {len(images)} predictions differ from NumPy's")
            if got.shape != expected.shape or wrong:
                return 1
            daemon.ctl("rm", "--all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
