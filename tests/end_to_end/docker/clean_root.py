#!/usr/bin/env python3
"""Proves the Dockerfile's cpu target where no Docker engine runs: each of its steps is done in a clean root of the base system.

Reads deploy/docker/Dockerfile and carries out FROM, ARG, WORKDIR, COPY, RUN, ENV and USER: the base comes from debootstrap, every step
that changes files is an overlay layer (kept for the next run, under a name made of all that went into it, as Docker keeps it), RUN is a
chroot. Whatever else the file says must be known here, or the test fails. Then starts ENTRYPOINT as the image's user, on a read-only root,
without capabilities and with a network of its own, asks its HEALTHCHECK, and ends it with its STOPSIGNAL.

With a Docker engine the test builds and runs the image instead. Exits 77 (skipped) where neither is possible, and says why.

All mounts and processes live in namespaces that end with this program, also when it is killed; only --work stays.
"""
import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import inspect
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
IMAGE = "debian:bookworm-slim"
SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
KNOWN_METADATA = {"EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")  # part of what ccache looks up
STARTED = time.monotonic()
OWN = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()  # another test makes other layers


def say(text):
    print(f"[{time.monotonic() - STARTED:5.1f} s] {text}", flush=True)


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, **options)


def skip(why):
    print(f"skipped: no Docker engine with BuildKit runs here, and {why}")
    sys.exit(77)


def instructions(text):
    """(name, argument) of each instruction, continuation lines joined, comments left out."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#")))
    for line in joined.split("\n"):
        if line.strip():
            name, _, argument = line.strip().partition(" ")
            yield name.upper(), argument.strip()


class Stage:
    def __init__(self, layer):
        self.layers = [layer]  # names under --work, topmost first
        self.key = (layer, OWN)
        self.workdir = "/"
        self.environment = {"PATH": PATH}
        self.user = None
        self.metadata = {}


class Debian:
    """The base image: packages and settings as in IMAGE, from the mirror that this machine uses."""

    def __init__(self):
        targets = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                                 capture_output=True, text=True, check=False).stdout
        self.sources = [f"deb {uri} {suite} main" for uri, suite, component in (line.split() for line in targets.splitlines())
                        if suite in SUITES and component == "main"]
        self.mirror = next((source.split()[1] for source in self.sources if source.split()[2] == SUITES[0]), None)
        config = run("apt-config", "dump", capture_output=True, text=True).stdout
        self.acquire = re.findall(r'^Acquire::(?:http|https|Check)\S* ".+";$', config, flags=re.M)
        self.proxy = next(iter(re.findall(r'^Acquire::https?::Proxy "(\S+)";$', config, flags=re.M)), None)

    def unreachable(self):
        if not self.mirror:
            return "apt knows no mirror of Debian 12"
        try:
            proxies = {"http": self.proxy, "https": self.proxy} if self.proxy else None
            opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
            opener.open(f"{self.mirror.rstrip('/')}/dists/{SUITES[0]}/InRelease", timeout=30).close()
        except OSError as error:
            return f"apt's mirror is not reached: {error}"
        return None

    def make(self, root, log):
        environment = {**os.environ, "DPKG_FORCE": "unsafe-io", **({"http_proxy": self.proxy} if self.proxy else {})}
        root.mkdir()
        run("mount", "--bind", root, "/mnt")  # debootstrap takes no path with a space; nobody else sees this mount
        try:
            run("debootstrap", "--variant=minbase", SUITES[0], "/mnt", self.mirror, env=environment, stdout=log, stderr=log)
        finally:
            run("umount", "/mnt")
        (root / "etc/apt/sources.list").write_text("".join(f"{source}\n" for source in self.sources))
        (root / "etc/apt/apt.conf.d/host").write_text("".join(f"{line}\n" for line in self.acquire))
        # As in the image: no manuals, and no syncing to disk after each package.
        (root / "etc/dpkg/dpkg.cfg.d/docker").write_text("force-unsafe-io\npath-exclude /usr/share/doc/*\npath-exclude /usr/share/man/*\n"
                                                         "path-exclude /usr/share/locale/*\npath-include /usr/share/doc/*/copyright\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")


class Builder:
    def __init__(self, work, ccache):
        self.work, self.ccache = work, ccache
        self.arguments, self.stages, self.used = {}, {}, set()
        self.log = work / "log"
        self.log.write_text("")

    @contextlib.contextmanager
    def logged(self, what):
        """A log for a command's output, whose end is shown if it fails."""
        try:
            with self.log.open("a") as log:
                yield log
        except subprocess.CalledProcessError as error:
            print("".join(self.log.read_text().splitlines(keepends=True)[-40:]), flush=True)
            raise SystemExit(f"{what}\nended with {error.returncode}; its last lines are above") from None

    def mount(self, layers, upper=None):
        """Mounts layers at --work/root; names are relative, so that any path of --work will do."""
        (self.work / "root").mkdir(exist_ok=True)
        writable = f",upperdir={upper},workdir=overlay" if upper else ""
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(layers)}{writable}", "root", cwd=self.work)
        return self.work / "root"

    def unmount(self):
        run("umount", self.work / "root")

    def layer(self, stage, inputs, change):
        """change(root) on top of the stage, unless a run before this one did the same to the same."""
        stage.key = hashlib.sha256(repr((stage.key, stage.workdir, sorted(stage.environment.items()), inputs)).encode()).hexdigest()[:16]
        if (self.work / stage.key).exists():
            say("  as before")
        else:
            for name in ("upper", "overlay"):
                shutil.rmtree(self.work / name, ignore_errors=True)
                (self.work / name).mkdir(mode=0o755)
            root = self.mount(stage.layers, "upper")
            try:
                change(root)
            finally:
                self.unmount()
            (self.work / "upper").rename(self.work / stage.key)
        stage.layers.insert(0, stage.key)
        self.used.add(stage.key)

    def from_(self, argument):
        image, _, alias = argument.partition(" AS ")
        image = re.sub(r"\$\{(\w+)\}", lambda m: self.arguments[m[1]], image)
        if image != IMAGE:
            raise SystemExit(f"the Dockerfile's base {image} is not known to this test")
        debian = Debian()
        name = "base-" + hashlib.sha256(repr((debian.sources, debian.acquire, inspect.getsource(Debian.make))).encode()).hexdigest()[:16]
        if not (self.work / name).exists():
            shutil.rmtree(self.work / "upper", ignore_errors=True)
            with self.logged("debootstrap") as log:
                debian.make(self.work / "upper", log)
            (self.work / "upper").rename(self.work / name)
        self.used.add(name)
        self.stages[alias] = Stage(name)
        return self.stages[alias]

    def copy(self, stage, argument):
        words = argument.split()
        origin = self.stages[words.pop(0)[len("--from="):]] if words[0].startswith("--from=") else None
        *sources, target = words
        staging = self.work / "copied"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        root = self.mount([*origin.layers, "copied"]) if origin else ROOT
        ignored = [] if origin else [f"--exclude={'./' if '*' not in i else ''}{i.removeprefix('**/')}" for i in (ROOT / ".dockerignore").read_text().split()]
        single = len(sources) == 1 and not (root / sources[0].lstrip("/")).is_dir() and not target.endswith("/")
        for source in sources:
            path = root / source.lstrip("/")
            what = [f"--directory={path}", "."] if path.is_dir() else [f"--directory={path.parent}", path.name]
            with subprocess.Popen(["tar", *ignored, "--create", *what], stdout=subprocess.PIPE) as packed:
                run("tar", f"--directory={staging}", "--extract", stdin=packed.stdout)
            if packed.returncode != 0:
                raise SystemExit(f"COPY {source}: cannot be read")
        if origin:
            self.unmount()

        def change(inside):
            destination = inside / str(pathlib.PurePosixPath(stage.workdir) / target).lstrip("/")
            (destination.parent if single else destination).mkdir(parents=True, exist_ok=True)
            run("cp", "--archive", "--no-target-directory", next(staging.iterdir()) if single else staging, destination)

        run("chown", "--recursive", "0:0", staging)
        # As Docker's key: names, modes and contents, no times.
        content = [(str(p.relative_to(staging)), p.lstat().st_mode, hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "")
                   for p in sorted(staging.rglob("*"))]
        self.layer(stage, (argument, content), change)
        shutil.rmtree(staging)

    def chroot(self, stage, root, command, mounts=(), user=None):
        """The arguments that run a shell line inside a root; its mounts are in a namespace of its own and end with it."""
        setup = [f"mount -t proc proc {shlex.quote(f'{root}/proc')}", f"mount -t sysfs -o ro sysfs {shlex.quote(f'{root}/sys')}",
                 f"mount -t tmpfs -o mode=1777 tmpfs {shlex.quote(f'{root}/dev/shm')}",
                 f"mount --bind /etc/resolv.conf {shlex.quote(f'{root}/etc/resolv.conf')}"]
        for source, target in mounts:
            (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
            setup.append(f"mount --bind {shlex.quote(str(source))} {shlex.quote(f'{root}{target}')}")
        environment = {"HOME": "/root" if user is None else "/", **stage.environment}
        if mounts:
            environment.update({name: os.environ[name] for name in LOCALE if name in os.environ})
        restrict = f"setpriv --reuid={user[0]} --regid={user[1]} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all " if user else ""
        inside = shlex.quote(f"cd {shlex.quote(stage.workdir)} && {command}")
        setup.append(f"exec nice -n 5 env -i {' '.join(shlex.quote(f'{k}={v}') for k, v in environment.items())} "
                     f"chroot {shlex.quote(str(root))} {restrict}/bin/sh -c {inside}")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(setup)]

    def step(self, stage, name, argument):
        if name == "WORKDIR":
            stage.workdir = argument
            self.layer(stage, (name,), lambda root: (root / argument.lstrip("/")).mkdir(parents=True, exist_ok=True))
        elif name == "COPY":
            self.copy(stage, argument)
        elif name == "RUN" and stage.user is None:
            command, mounts = argument, []
            while match := re.match(r"--mount=type=cache,target=(\S+)\s+", command):
                mounts.append((self.ccache, match[1]))
                command = command[match.end():]

            def change(root):
                with self.logged(f"RUN {command}") as log:
                    run(*self.chroot(stage, root, command, mounts), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

            self.layer(stage, (name, argument), change)
        elif name == "ENV":
            stage.environment.update(pair.split("=", 1) for pair in shlex.split(argument))
        elif name == "USER":
            stage.user = argument
        elif name in KNOWN_METADATA:
            stage.metadata[name] = argument
        else:
            raise SystemExit(f"{name} {'after USER ' if stage.user else ''}is not known to this test")

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
        for alias in [*re.findall(r"--from=(\w+)", " ".join(a for _, a in steps[target])), target]:
            for name, argument in steps[alias]:
                say(f"[{alias}] {name} {argument[:110]}")
                if name == "FROM":
                    stage = self.from_(argument)
                else:
                    self.step(stage, name, argument)
        self.used.add("ccache")
        left = [path for path in self.work.iterdir() if path.is_dir() and path.name not in self.used]
        say(f"removing what no step uses any more: {len(left)} folders")
        run("rm", "-rf", *left)
        return stage


def own_network():
    """A network of this process' own, with loopback up: the port is free and nobody else reaches it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1))  # SIOCSIFFLAGS, IFF_UP


def expect(condition, what):
    if not condition:
        raise SystemExit(what)


def wait_until_healthy(check, alive, seconds=30):
    end = time.monotonic() + seconds
    while subprocess.run(check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        expect(alive() and time.monotonic() < end, "the image's health check never passed")
        time.sleep(0.05)


def prove(builder, stage):
    """Runs the image as its user, on a read-only root, without capabilities."""
    entry = shlex.join(json.loads(stage.metadata["ENTRYPOINT"]))
    check = shlex.join(json.loads(stage.metadata["HEALTHCHECK"].partition("CMD ")[2]))
    root = builder.mount(stage.layers)
    users = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    user = next(((int(u[2]), int(u[3])) for u in users if stage.user in (u[0], u[2])), None)
    expect(user and user[0] != 0, f"USER {stage.user} is not an ordinary user of the image")
    own_network()

    def inside(command):
        return builder.chroot(stage, root, command, user=user)

    expect(subprocess.run(inside("touch /written"), stderr=subprocess.DEVNULL, check=False).returncode != 0, "the root is not read-only")
    daemon = subprocess.Popen(inside(f"exec {entry} --emulate-cuda=1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until_healthy(inside(check), lambda: daemon.poll() is None)
        status = dict(re.findall(r"^(\w+):\s*(.*)$", pathlib.Path(f"/proc/{daemon.pid}/status").read_text(), flags=re.M))
        expect(status["Uid"].split() == [str(user[0])] * 4 and int(status["CapBnd"], 16) == int(status["CapPrm"], 16) == 0,
               f"the daemon has more rights than it should: {status}")
        devices = run(*inside("tensorctl devices"), capture_output=True, text=True).stdout
        expect("cuda:0" in devices and "cpu" in devices, f"the image's devices are not those expected:\n{devices}")
        total = run(*inside("tensorctl run 'ones(2, 3, device=\"cuda:0\").sum()'"), capture_output=True, text=True).stdout
        expect("6." in total, f"the sum of six ones is {total}")
        say(f"healthy as user {stage.user}; devices listed, a sum computed")
        daemon.send_signal(getattr(signal, stage.metadata["STOPSIGNAL"]))
        code = daemon.wait(timeout=20)
        expect(code == 0, f"{stage.metadata['STOPSIGNAL']} ended it with {code}")
        say(f"ended by {stage.metadata['STOPSIGNAL']} with 0")
    except BaseException:
        daemon.kill()
        print(daemon.stdout.read())
        raise
    finally:
        builder.unmount()


BUILDKIT = {**os.environ, "DOCKER_BUILDKIT": "1"}


def engine():
    """Whether a Docker engine runs here that has BuildKit and gets the base image."""
    probe = f"FROM {IMAGE}\nRUN --mount=type=cache,target=/cache true\n"
    return shutil.which("docker") and subprocess.run(["docker", "build", "-q", "-"], input=probe.encode(), env=BUILDKIT, capture_output=True,
                                                     check=False).returncode == 0


def with_docker():
    run("docker", "build", "-f", DOCKERFILE, "--target", "cpu", "-t", "tensord:test", ROOT, env=BUILDKIT)
    container = run("docker", "run", "-d", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true", "tensord:test", "--emulate-cuda=1",
                    capture_output=True, text=True).stdout.strip()

    def state(of):
        return run("docker", "inspect", "--format", of, container, capture_output=True, text=True).stdout.strip()

    try:
        end = time.monotonic() + 120  # the image's own check, at its own interval
        while state("{{.State.Health.Status}}") != "healthy":
            expect(state("{{.State.Running}}") == "true" and time.monotonic() < end, "the container never became healthy")
            time.sleep(0.2)
        run("docker", "exec", container, "tensorctl", "devices")
        run("docker", "stop", container)
        expect(state("{{.State.ExitCode}}") == "0", f"docker stop ended it with {state('{{.State.ExitCode}}')}")
        say("a Docker engine built and ran the image")
    except BaseException:
        subprocess.run(["docker", "logs", container], check=False)
        raise
    finally:
        run("docker", "rm", "-f", container, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for the base and the layers, kept from run to run")
    parser.add_argument("--isolated", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    if not arguments.isolated:
        if engine():
            with_docker()
            return
        namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if "VERSION_CODENAME=bookworm" not in pathlib.Path("/etc/os-release").read_text() or not shutil.which("debootstrap"):
            skip("a clean root needs Debian 12 and debootstrap")
        if os.geteuid() != 0 or subprocess.run([*namespaces, "--net", "true"], capture_output=True, check=False).returncode != 0:
            skip("a clean root needs root and namespaces")
        os.execvp("unshare", [*namespaces, sys.executable, __file__, "--isolated", "--work", str(arguments.work)])

    if why := Debian().unreachable():
        skip(why)
    arguments.work.mkdir(parents=True, exist_ok=True)
    work = arguments.work.resolve()
    lock = (work / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once would build the same layer
    found = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=False) if shutil.which("ccache") else None
    ccache = pathlib.Path(found.stdout.strip()) if found and found.returncode == 0 else work / "ccache"
    ccache.mkdir(parents=True, exist_ok=True)
    builder = Builder(work, ccache)
    for name in ("try", "upper", "overlay"):
        (work / name).mkdir(exist_ok=True)
    try:
        builder.mount(["try"], "upper")
        builder.unmount()
    except subprocess.CalledProcessError:
        skip(f"overlays cannot be mounted in {work}")
    prove(builder, builder.build("cpu"))


if __name__ == "__main__":
    main()
