"""Installs the wheel tidemark-cli in a clean environment and works with it as a user does.

    wheel_trial.py WHEEL

The environment has nothing but the wheel (pip asks no index), the commands no variable but PATH and HOME, and every library
that not each Linux has comes out of the wheel.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

# What the manylinux profiles (PEP 600) leave to the system, of what a C++ program links against.
OF_THE_SYSTEM = {
    "linux-vdso.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
}

# Packages whose headers alone are in the program.
COMPILED_IN = ("libcli11-dev", "libtomlplusplus-dev", "nlohmann-json3-dev")
# Shared libraries that auditwheel copies into the wheel, and the package whose licence is theirs.
LICENCES = {
    "libfmt": "libfmt-dev",
    "libmimalloc": "libmimalloc-dev",
    "libnuma": "libnuma-dev",
    "libspdlog": "libspdlog-dev",
    "libtbb": "libtbb-dev",
    "libyaml-cpp": "libyaml-cpp-dev",
}
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "ci.md"

BUDGET = """\
schema: tidemark-budget/1
jobs:
  - name: small
    model: {model}
    policy: keep-all
    capacity: {capacity}
"""


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Installed:
    """The wheel in a virtual environment of its own."""

    def __init__(self, wheel, folder):
        self.folder, self.environment = folder, folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", self.environment], check=True)
        subprocess.run(
            [
                self.environment / "bin" / "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-index",
                "--no-deps",
                wheel,
            ],
            check=True,
        )
        where = self.python("-c", "import tidemark_cli; print(tidemark_cli.PROGRAM); print(tidemark_cli.SHARE)").stdout.split()
        self.program, self.share = map(pathlib.Path, where)

    def run(self, *words, status=0):
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={"PATH": f"{self.environment}/bin:/usr/bin:/bin", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        said = done.stdout + done.stderr
        check(done.returncode == status, f"{' '.join(map(str, words))}: exit status {done.returncode}, not {status}\n{said}")
        return done

    def python(self, *words):
        return self.run(self.environment / "bin" / "python", *words)

    def tidemark(self, *words, status=0):
        return self.run("tidemark", *words, status=status)


def glibc_of(wheel, folder):
    """The newest glibc, as (2, N), that symbols of any program or library of the wheel ask for."""
    newest = (0, 0)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for path in folder.rglob("*"):
        if path.is_file() and path.open("rb").read(4) == b"\x7fELF":
            listed = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
            found = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", listed)]
            newest = max([newest, *found])
    return newest


def try_tag(wheel, folder):
    tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_(\w+)\.whl$", wheel.name)
    check(tag, f"{wheel.name} is for no manylinux platform and any Python 3")
    promised = (int(tag[1]), int(tag[2]))
    needed = glibc_of(wheel, folder / "unpacked")
    check((0, 0) < needed <= promised, f"{wheel.name} promises to run with glibc {promised}, and needs {needed}")
    said = re.search(r"\(glibc (\d+)\.(\d+) or later, (\S+)\)", PAGE.read_text())
    check(said, f"{PAGE.name} does not say which Linux the wheel is for")
    is_for = (int(said[1]), int(said[2]), said[3].replace("x86-64", "x86_64"))
    check(is_for == (*promised, tag[3]), f"{PAGE.name} says {said[0]}, where the wheel is {wheel.name}")


def try_libraries(installed):
    for line in installed.run("ldd", installed.program).stdout.splitlines():
        name, _, place = line.strip().partition(" => ")
        name = pathlib.Path(name.split(" (")[0]).name
        is_inside = place.startswith(str(installed.environment))
        check(is_inside or name in OF_THE_SYSTEM or name.startswith("ld-linux"), f"{name} is not in the wheel: {line.strip()}")


def try_version(installed, wheel):
    version = wheel.name.split("-")[1]
    check(version in installed.tidemark("--version").stdout, f"tidemark --version does not say {version}")
    check(
        version in installed.python("-m", "tidemark_cli", "--version").stdout, f"python -m tidemark_cli does not say {version}"
    )


def try_plan(installed):
    model = installed.share / "models" / "small-mla-moe.yaml"
    said = json.loads(installed.tidemark("plan", model, "--out", "plan.json", "--format", "json").stdout)
    check(said["verdict"] == "FITS", f"the plan of {model.name}: {said['verdict']}")
    check((installed.folder / "plan.json").stat().st_size > 0, "an empty plan.json")
    installed.tidemark("check", "plan.json", "--budget", "60GiB")


def try_check(installed):
    model = os.path.relpath(installed.share / "models" / "small-mla-moe.yaml", installed.folder)
    for capacity, status, verdict in (("60GiB", 0, "PASS"), ("5GiB", 1, "FAIL")):
        (installed.folder / "tidemark-budget.yaml").write_text(BUDGET.format(model=model, capacity=capacity))
        said = installed.tidemark("check", status=status).stdout
        check(said.startswith(f"{verdict} small"), f"at {capacity} the gate says:\n{said}")


def try_files(installed):
    names = {str(path.relative_to(installed.share)) for path in installed.share.rglob("*") if path.is_file()}
    needed = {
        "schemas/check.schema.json",
        "ci/Dockerfile",
        "ci/workflows/github.yml",
        "ci/workflows/gitlab.yml",
        "devices/h100-80g.yaml",
        *(f"licences/{package}.txt" for package in COMPILED_IN),
    }
    check(needed <= names, f"not in the wheel: {', '.join(sorted(needed - names))}")


def try_licences(wheel, installed):
    """Each shared library that the wheel holds has its licence beside it."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [pathlib.PurePath(name).name for name in archive.namelist() if re.search(r"\.libs/.+\.so", name)]
    check(libraries, "the wheel holds no library")
    for library in libraries:
        name = re.sub(r"(-[0-9a-f]{8})?\.so.*", "", library)  # auditwheel adds a hash
        check(name in LICENCES, f"{library} comes with the wheel, and this test knows no licence of it")
        licence = installed.share / "licences" / f"{LICENCES[name]}.txt"
        check(licence.is_file() and licence.stat().st_size > 0, f"{library} comes without {licence.name}")


def try_completions(installed):
    """The scripts lie where the shells of an environment look, and bash completes with the one of its own."""
    share = installed.environment / "share"
    scripts = {
        "bash": share / "bash-completion" / "completions" / "tidemark",
        "zsh": share / "zsh" / "site-functions" / "_tidemark",
    }
    for shell, script in scripts.items():
        check(script.is_file(), f"not in the wheel: {script.relative_to(installed.environment)}")
        check(script.read_text() == installed.tidemark("completion", shell).stdout, f"{script.name} is not that of the program")
    ask = 'source "$0"; COMP_WORDS=(tidemark check --output js); COMP_CWORD=3; _tidemark; echo "${COMPREPLY[@]}"'
    offered = installed.run("bash", "--norc", "-c", ask, scripts["bash"]).stdout
    check(offered == "json=\n", f"bash offers {offered!r} for `tidemark check --output js`")


def main():
    wheel = pathlib.Path(sys.argv[1]).resolve()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        installed = Installed(wheel, folder)
        trials = {
            "platform tag": lambda: try_tag(wheel, folder),
            "libraries": lambda: try_libraries(installed),
            "version": lambda: try_version(installed, wheel),
            "files": lambda: try_files(installed),
            "licences": lambda: try_licences(wheel, installed),
            "completions": lambda: try_completions(installed),
            "plan": lambda: try_plan(installed),
            "check": lambda: try_check(installed),
        }
        for name, trial in trials.items():
            try:
                trial()
                print(f"ok      {name}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {name}: {error}", flush=True)
    print(f"wheel_trial: {len(trials) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
