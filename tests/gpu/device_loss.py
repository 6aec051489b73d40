#!/usr/bin/env python3
"""What the daemon does when a device is lost: --on-device-loss=drain|exit|stay, and its default.

    device_loss.py BUILD PLUGIN_FOLDER

The devices are a test plugin's (lossy_plugin.cc): each is lost at its first exp.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from daemon import Daemon  # noqa: E402


def lose(build, devices, *flags):
    """Loses cuda:0 of a daemon with so many devices; whether it ended by itself with which code, and its log."""
    os.environ["TENSORD_LOSSY_DEVICES"] = str(devices)
    daemon = Daemon(build, *flags)
    daemon.__enter__()
    told = daemon.run("shell", stdin='X = td.ones(3, device="cuda:0")\nX.exp()\n', check=False)
    assert "DEVICE_LOST" in told.stdout + told.stderr, told
    return daemon


def ends(build, devices, grace, *flags):
    daemon = lose(build, devices, *flags)
    code = daemon.process.wait(timeout=30)
    log = (daemon.folder / "log").read_text()
    assert code == 75, (code, log)
    assert '"device lost" name=cuda:0' in log and f'stop signal="device lost" grace={grace}' in log, log


def stays(build):
    daemon = lose(build, 2, "--on-device-loss", "stay")
    answer = daemon.shell('td.ones(3, device="cuda:1").sum()\n')
    assert "tensor(3., device='cuda:1')" in answer, answer
    again = daemon.run("shell", stdin='td.ones(3, device="cuda:0")\n', check=False)
    assert "DEVICE_LOST" in again.stdout + again.stderr, again
    daemon.__exit__()  # code 0


def main():
    build = pathlib.Path(sys.argv[1])
    os.environ["TENSORD_PLUGIN_DIR"] = sys.argv[2]
    ends(build, 2, "5s")
    ends(build, 1, "0")
    ends(build, 2, "0", "--on-device-loss", "exit")
    ends(build, 1, "1s", "--on-device-loss", "drain", "--shutdown-grace", "1s")
    stays(build)


main()
