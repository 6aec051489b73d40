"""A daemon of the build under test, and its command line, for end-to-end tests.

    with Daemon(bin_dir, "--emulate-cuda=1") as daemon:
        daemon.ctl("put", "x.npy", "x")            # returns standard output; fails the test on a non-zero exit
        daemon.shell("ones(2)\\n")

The daemon listens on a Unix socket in a temporary folder, so tests run side by side.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile


class Failed(Exception):
    pass


class Daemon:
    def __init__(self, bin_dir, *flags):
        self.bin = pathlib.Path(bin_dir)
        self.flags = flags
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tensord-"))
        self.server = f"unix:{self.folder}/socket"
        self.process = None

    def __enter__(self):
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen([self.bin / "server/tensord", "--listen", self.server, *self.flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        while line and not line.startswith("listening on"):
            line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise Failed(f"the daemon ended with {self.process.wait()}:\n{self.log.read()}")
        return self

    def __exit__(self, *_):
        code = self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        if code != 0:
            raise Failed(f"the daemon ended with {code}")

    def stop(self, with_signal=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(timeout=30)

    def rss(self):
        """Resident bytes of the daemon."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def run(self, *arguments, stdin=None, check=True):
        result = subprocess.run([self.bin / "client/cli/tensorctl", *map(str, arguments)], input=stdin, capture_output=True, text=True,
                                env={**os.environ, "TENSORD_SERVER": self.server}, check=False)
        if check and result.returncode != 0:
            raise Failed(f"tensorctl {' '.join(map(str, arguments))} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result

    def ctl(self, *arguments, stdin=None):
        return self.run(*arguments, stdin=stdin).stdout

    def shell(self, lines):
        return self.ctl("shell", stdin=lines)
