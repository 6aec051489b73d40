#!/usr/bin/env python3
"""Proves the Dockerfile's cpu target where no Docker engine runs: each of its steps is done in a clean root of the base system.

Reads deploy/docker/Dockerfile and carries out FROM, ARG, WORKDIR, COPY, RUN, ENV and USER with debootstrap, mounts in a namespace of its own, and chroot; whatever else
the file says must be known here, or the test fails. Then starts ENTRYPOINT as the image's user on a read-only root without capabilities, asks its HEALTHCHECK, and
ends it with its STOPSIGNAL. With a Docker engine the test builds and runs the image instead.

Exits 77 (skipped) where neither is possible: not root, not Debian 12, or no way to make mounts.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
KNOWN_METADATA = {"EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, **options)


def instructions(text):
    """(name, argument) of each instruction, continuation lines joined, comments left out."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#")))
    for line in joined.split("\n"):
        if line.strip():
            name, _, argument = line.strip().partition(" ")
            yield name.upper(), argument.strip()


class Stage:
    def __init__(self, root):
        self.root = root
        self.workdir = "/"
        self.environment = {}
        self.user = None
        self.metadata = {}

    def path(self, inside):
        inside = pathlib.PurePosixPath(self.workdir) / inside
        return self.root / str(inside).lstrip("/")

    def chroot(self, command, user=None, mounts=()):
        """A command line inside the root, with /proc, /dev and the mounts asked for, in a mount namespace of its own."""
        setup = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        for source, target in mounts:
            self.path(target).mkdir(parents=True, exist_ok=True)
            setup.append(f"mount --bind {source} {self.path(target)}")
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **self.environment}
        inside = f"cd {shlex.quote(self.workdir)} && {command}"
        who = f"--userspec={user}:{user} " if user else ""
        line = " && ".join(setup + [f"exec chroot {who}{self.root} /bin/sh -c {shlex.quote(inside)}"])
        return ["unshare", "--mount", "--propagation", "private", "env", "-i", *(f"{k}={v}" for k, v in environment.items()), "sh", "-c", line]


class Builder:
    def __init__(self, work, ccache):
        self.work, self.ccache = work, ccache
        self.arguments, self.stages = {}, {}

    def base(self, image):
        """A clean root of an image; only Debian's own is known."""
        if image != "debian:bookworm-slim":
            raise SystemExit(f"the Dockerfile's base {image} is not known to this test")
        root = self.work / "base"
        if not (root / "etc/debian_version").exists():
            shutil.rmtree(root, ignore_errors=True)
            run("debootstrap", "--variant=minbase", "bookworm", root, stdout=subprocess.DEVNULL)
            # The image's registry settings are the host's here, so that both reach the same one.
            for name in ("apt/sources.list", "apt/sources.list.d", "apt/apt.conf.d", "resolv.conf", "ssl/certs"):
                source, target = pathlib.Path("/etc") / name, root / "etc" / name
                if source.is_dir():
                    shutil.copytree(source, target, dirs_exist_ok=True)
                elif source.exists():
                    shutil.copy(source, target)
            (root / "etc/apt/sources.list").write_text("") if list((root / "etc/apt/sources.list.d").glob("*.sources")) else None
        return root

    def from_(self, argument):
        image, _, alias = argument.partition(" AS ")
        image = re.sub(r"\$\{(\w+)\}", lambda m: self.arguments[m[1]], image)
        root = self.work / alias
        shutil.rmtree(root, ignore_errors=True)
        run("cp", "-a", self.base(image), root)
        self.stages[alias] = Stage(root)
        return self.stages[alias]

    def copy(self, stage, argument):
        words = argument.split()
        source_root = ROOT
        if words[0].startswith("--from="):
            source_root = self.stages[words.pop(0)[len("--from="):]].root
        *sources, target = words
        for source in sources:
            origin = source_root / source.lstrip("/")
            destination = stage.path(target)
            if origin.is_dir():
                ignored = (ROOT / ".dockerignore").read_text().split() if source_root == ROOT else []
                destination.mkdir(parents=True, exist_ok=True)
                run("tar", "-C", origin, *(f"--exclude=./{i}" for i in ignored if "*" not in i), "-cf", self.work / "copy.tar", ".")
                run("tar", "-C", destination, "-xf", self.work / "copy.tar")
            else:
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, destination)

    def step(self, stage, name, argument):
        if name == "WORKDIR":
            stage.workdir = argument
            stage.path(".").mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            self.copy(stage, argument)
        elif name == "RUN":
            mounts = []
            while match := re.match(r"--mount=type=cache,target=(\S+)\s+", argument):
                mounts.append((self.ccache, match[1]))
                argument = argument[match.end():]
            run(*stage.chroot(argument, mounts=mounts), stdout=subprocess.DEVNULL)
        elif name == "ENV":
            stage.environment.update(pair.split("=", 1) for pair in argument.split())
        elif name == "USER":
            stage.user = argument
        elif name in KNOWN_METADATA:
            stage.metadata[name] = argument
        else:
            raise SystemExit(f"{name} is not known to this test")

    def build(self, target):
        """Carries out the stages that `target` needs: itself and those it copies from."""
        steps, alias = {}, None
        for name, argument in instructions(DOCKERFILE.read_text()):
            if name == "FROM":
                alias = argument.partition(" AS ")[2]
                steps[alias] = []
            if alias is None:
                key, _, value = argument.partition("=")
                self.arguments[key] = value
            else:
                steps[alias].append((name, argument))
        needed = re.findall(r"--from=(\w+)", " ".join(a for _, a in steps[target])) + [target]
        for alias in needed:
            for name, argument in steps[alias]:
                print(f"[{alias}] {name} {argument[:100]}", flush=True)
                if name == "FROM":
                    stage = self.from_(argument)
                else:
                    self.step(stage, name, argument)
        return stage


def prove(stage):
    """Runs the image as its user, on a read-only root, without capabilities."""
    entry = " ".join(json.loads(stage.metadata["ENTRYPOINT"]))
    check = " ".join(json.loads(stage.metadata["HEALTHCHECK"].partition("CMD ")[2]))
    run("mount", "--bind", stage.root, stage.root)
    run("mount", "-o", "remount,bind,ro", stage.root)
    try:
        daemon = subprocess.Popen(["setpriv", "--no-new-privs", *stage.chroot(f"exec {entry} --emulate-cuda=1", user=stage.user)],
                                  stdout=subprocess.PIPE, text=True)
        line = daemon.stdout.readline()
        print(f"started as user {stage.user}: {line.strip()}", flush=True)
        end = time.monotonic() + 30
        while subprocess.run(stage.chroot(check, user=stage.user), stdout=subprocess.DEVNULL, check=False).returncode != 0:
            if daemon.poll() is not None or time.monotonic() > end:
                raise SystemExit("the image's health check never passed")
            time.sleep(0.05)
        devices = run(*stage.chroot("tensorctl devices", user=stage.user), capture_output=True, text=True).stdout
        if "cuda:0" not in devices or "cpu" not in devices:
            raise SystemExit(f"the image's devices are not those expected:\n{devices}")
        print("healthy; devices listed")
        daemon.send_signal(getattr(signal, stage.metadata["STOPSIGNAL"]))
        code = daemon.wait(timeout=15)
        print(f"ended by {stage.metadata['STOPSIGNAL']} with {code}")
        return code
    finally:
        subprocess.run(["umount", stage.root], check=False)


def with_docker():
    run("docker", "build", "-f", DOCKERFILE, "--target", "cpu", "-t", "tensord:test", ROOT)
    container = run("docker", "run", "-d", "--read-only", "--cap-drop=ALL", "tensord:test", "--emulate-cuda=1", capture_output=True, text=True).stdout.strip()
    try:
        end = time.monotonic() + 60
        while subprocess.run(["docker", "exec", container, "tensorctl", "ping"], check=False).returncode != 0:
            if time.monotonic() > end:
                raise SystemExit("the container never became healthy")
            time.sleep(0.1)
    finally:
        run("docker", "rm", "-f", container)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    work = parser.parse_args().work
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        return with_docker()
    release = pathlib.Path("/etc/os-release").read_text()
    mounts = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    if not mounts or "VERSION_CODENAME=bookworm" not in release or not shutil.which("debootstrap"):
        print("skipped: no Docker engine, and a clean root needs Debian 12, root, mounts and debootstrap")
        return 77
    work.mkdir(parents=True, exist_ok=True)
    ccache = pathlib.Path(os.environ.get("CCACHE_DIR", pathlib.Path.home() / ".cache/ccache"))
    ccache.mkdir(parents=True, exist_ok=True)
    return prove(Builder(work, ccache).build("cpu"))


if __name__ == "__main__":
    sys.exit(main())
