"""Carries out a Dockerfile where no container can be started: each instruction in a chroot over a stack of layers.

The base image is a Debian made by debootstrap. A layer is what an instruction changed (the upper folder of an overlay mount),
kept below `cache` under a name made from the instruction and those before it; from the first COPY on, whose files can be
others each time, layers are made anew. Needs root and overlay mounts, and a mount namespace of its own (enter_namespace).
"""

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASES = {"debian:12-slim": "bookworm"}
DEVICES = {
    "null": 3,
    "zero": 5,
    "random": 8,
    "urandom": 9,
}  # minor numbers; of its own /dev, so that the host's is out of reach


class Unavailable(Exception):
    """There can be no chroot here, and why."""


def enter_namespace():
    """Starts this program again in a mount namespace of its own, where there can be one, so that no mount outlives it."""
    if "TIDEMARK_MOUNTS" in os.environ or no_namespace() is not None:
        return
    os.execvpe(
        "unshare",
        ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv],
        {**os.environ, "TIDEMARK_MOUNTS": "own"},
    )


def no_namespace():
    """Why there can be no mount namespace; None: there can."""
    if os.geteuid() != 0:
        return "only root mounts and calls chroot"
    if not shutil.which("unshare") or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "no mount namespace can be made"
    return None


def require_namespace():
    if "TIDEMARK_MOUNTS" not in os.environ:
        raise Unavailable(no_namespace() or "call enter_namespace first")


def parse_dockerfile(text):
    """[(word, rest)] in order: comments left out, lines that end in a backslash joined."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*#", line)]
    found = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            found.append((word.upper(), rest.strip()))
    return found


def base_folder(image, cache):
    """The root of a base image, made where it is not there yet."""
    if image not in BASES:
        raise ValueError(f"FROM {image}: this test knows {', '.join(BASES)}")
    folder = cache / image.replace(":", "-")
    if (folder / "complete").exists():
        return folder / "root"
    if not shutil.which("debootstrap"):
        raise Unavailable("debootstrap is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = subprocess.run(["debootstrap", "--variant=minbase", BASES[image], folder / "root"], capture_output=True, text=True)
    subprocess.run(["umount", "--quiet", "--recursive", folder / "root" / "proc"], capture_output=True)
    if made.returncode != 0:
        raise Unavailable("debootstrap: " + (made.stdout + made.stderr).strip().splitlines()[-1])
    (folder / "complete").touch()
    return folder / "root"


class Stage:
    """One stage of a Dockerfile: a stack of layers, and the root that shows them together."""

    def __init__(self, image, cache, scratch):
        self.layers = [base_folder(image, cache)]
        self.key = hashlib.sha256(image.encode()).hexdigest()
        self.cache = cache
        self.scratch = scratch
        self.is_cached = True  # no COPY yet
        self.workdir = "/"
        self.root = None

    def mounted(self, upper):
        """The root with `upper` on top, mounted; what runs in it changes `upper` alone."""
        work, root = (pathlib.Path(tempfile.mkdtemp(dir=self.scratch, prefix=name)) for name in ("work-", "root-"))
        lower = ":".join(str(layer) for layer in reversed(self.layers))
        made = subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", root],
            capture_output=True,
            text=True,
        )
        if made.returncode != 0:
            raise Unavailable("no overlay mounts: " + made.stderr.strip())
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root / "dev"], check=True)
        for name, minor in DEVICES.items():
            os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            os.chmod(root / "dev" / name, 0o666)
        for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
            os.symlink(f"/proc/self/fd{target}", root / "dev" / name)
        return root

    def unmount(self, root):
        subprocess.run(["umount", "--recursive", root], check=True)

    def change(self, word, rest, act):
        """A layer of what act(root) does; one made before, where nothing since the base can be another."""
        self.key = hashlib.sha256(f"{self.key} {word} {rest}".encode()).hexdigest()
        self.is_cached = self.is_cached and word != "COPY"
        layer = (self.cache / "layers" if self.is_cached else self.scratch) / self.key[:16]
        if layer.exists():
            print(f"  {word} {shown(rest)}  (made before)", flush=True)
        else:
            print(f"  {word} {shown(rest)}", flush=True)
            upper = layer.with_suffix(".part")
            shutil.rmtree(upper, ignore_errors=True)
            upper.mkdir(parents=True)
            root = self.mounted(upper)
            try:
                act(root)
            finally:
                self.unmount(root)
            upper.rename(layer)
        self.layers.append(layer)

    def run(self, command):
        self.change("RUN", command, lambda root: run_in(root, command, self.workdir))

    def open(self):
        """Mounts the finished stage for commands and COPY --from; changes to it are thrown away."""
        if self.root is None:
            self.root = self.mounted(pathlib.Path(tempfile.mkdtemp(dir=self.scratch, prefix="upper-")))
        return self.root

    def close(self):
        if self.root is not None:
            self.unmount(self.root)
            self.root = None


def shown(text):
    return text if len(text) <= 96 else text[:93] + "..."


def run_in(root, command, workdir="/", environment=None, shell=("/bin/sh", "-c"), check=True):
    """Runs a command in a root; its output is part of the message where it fails."""
    if os.path.exists("/etc/resolv.conf"):
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    script = f'cd {shlex.quote(str(workdir))} && exec "$@"'
    words = [
        "chroot",
        str(root),
        "/usr/bin/env",
        "-i",
        f"PATH={PATH}",
        "HOME=/root",
        *(f"{name}={value}" for name, value in (environment or {}).items()),
        "/bin/sh",
        "-c",
        script,
        "sh",
        *shell,
        command,
    ]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise RuntimeError(f"exit status {done.returncode}: {command}\n{last}")
    return done


class Build:
    """Carries out a Dockerfile. `context` is a folder; `instead` maps the text of a RUN to a function of (root) that takes
    its place, for a step that this machine has no time for."""

    def __init__(self, dockerfile, context, cache, scratch, instead=None):
        self.context, self.cache, self.scratch = context, cache, scratch
        self.instead = instead or {}
        self.stages, self.names, self.command = [], {}, []
        try:
            self.carry_out(dockerfile)
        except BaseException:
            self.close()
            raise

    def carry_out(self, dockerfile):
        for word, rest in parse_dockerfile(dockerfile.read_text()):
            handler = getattr(self, "do_" + word.lower(), None)
            if handler is None:
                raise ValueError(f"{dockerfile}: this test does not know {word}")
            handler(rest)

    @property
    def stage(self):
        return self.stages[-1]

    def close(self):
        for stage in self.stages:
            stage.close()

    def do_from(self, rest):
        words = rest.split()
        self.stages.append(Stage(words[0], self.cache, self.scratch))
        if len(words) == 3 and words[1].upper() == "AS":
            self.names[words[2]] = self.stage
        print(f"  FROM {rest}", flush=True)

    def do_workdir(self, rest):
        self.stage.workdir = os.path.join(self.stage.workdir, rest)
        self.stage.change(
            "WORKDIR", rest, lambda root: (root / self.stage.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
        )

    def do_run(self, rest):
        if rest in self.instead:
            self.stage.change("RUN", rest, self.instead[rest])
        else:
            self.stage.run(rest)

    def do_copy(self, rest):
        words = rest.split()
        source = self.context
        if words[0].startswith("--from="):
            source = self.names[words.pop(0).removeprefix("--from=")].open()
        paths, place = words[:-1], os.path.join(self.stage.workdir, words[-1])
        self.stage.change(
            "COPY", rest, lambda root: [copy_into(source / path.lstrip("/"), root / place.lstrip("/")) for path in paths]
        )

    def do_cmd(self, rest):
        self.command = json.loads(rest)


def copy_into(source, target):
    """As COPY does: of a folder its contents; a file under the name that is given."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
