"""From a wheel to training within a budget, as its README says, to the letter, in an environment of its own. TIDEMARK_WHEEL
names the wheel; scripts/test_pytorch makes one. So that no gigabyte is fetched again, the environment has, through a .pth
file, the packages of the one that runs the suite, without Tidemark, and pip is told to fetch nothing (--no-deps)."""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import sysconfig

import pytest
from readme_commands import blocks, commands, follow

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch" / "examples" / "quickstart"
README = (EXAMPLE / "README.md").read_text()
FIVE_MINUTES = 300


@pytest.fixture
def wheel():
    path = os.environ.get("TIDEMARK_WHEEL")
    if not path:
        pytest.skip("TIDEMARK_WHEEL names no wheel to install; scripts/test_pytorch makes one")
    return pathlib.Path(path)


def share_packages(environment, folder):
    """Those that the suite has, but for Tidemark."""
    folder.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for package in pathlib.Path(place).iterdir():
            if not re.search("tidemark|[.]pth$|^__pycache__$", package.name):
                (folder / package.name).symlink_to(package)
    (own,) = environment.glob("lib/python*/site-packages")
    (own / "shared.pth").write_text(f"{folder}\n")


def run(command, folder):
    """`python3` is the interpreter of the suite. pip fetches nothing."""
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python3").exists():
        (folder / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    own = {key: value for key, value in os.environ.items() if not re.match("PYTHON|TIDEMARK_|PIP_", key)}
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own |= {"PATH": path, "OMP_NUM_THREADS": "1", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    ran = subprocess.run(
        command, shell=True, cwd=folder, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert ran.returncode == (1 if command.startswith("diff ") else 0), ran.stdout
    return ran.stdout.splitlines()


def seconds():
    """Of the processor, as the machine may be shared."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def losses(printed):
    return [line for line in printed if line.startswith("step ")]


def peak_and_budget(printed):
    """MiB, measured and asked for."""
    text = "\n".join(printed)
    return float(re.search(r"peak ([\d.]+) MiB measured", text)[1]), float(re.search(r"MiB of ([\d.]+) MiB", text)[1])


def test_the_readme_is_followed_to_the_letter(wheel, tmp_path):
    shutil.copy(wheel, tmp_path)
    for name in ("train.py", "within.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    begin, printed = seconds(), {}
    for command, expected in commands(README):
        mine = re.sub(r"tidemark-\S+[.]whl", wheel.name, command)
        printed[command] = run(mine, tmp_path)
        follow(printed[command], expected)
        if "-m venv" in command:
            share_packages(tmp_path / "trial", tmp_path / "shared")
    *_, train, diff, within = printed.values()
    assert len(losses(train)) == 12 and losses(train) == losses(within)
    peak, budget = peak_and_budget(within)
    assert peak <= budget
    assert "/trial/" in run("trial/bin/python -c 'import tidemark; print(tidemark.__file__)'", tmp_path)[0]
    assert [line[0] for line in diff if line[0] in "<>"] == [">"] * 3
    assert seconds() - begin < FIVE_MINUTES


def test_the_readme_shows_the_scripts():
    assert blocks(README, "python") == [(EXAMPLE / "train.py").read_text()]
    plain, within = ((EXAMPLE / name).read_text().splitlines() for name in ("train.py", "within.py"))
    _, told = commands(README)[3]
    added = [line[2:] for line in told if line.startswith("> ")]
    assert len(within) == len(plain) + 3 and [line for line in within if line not in added] == plain


def test_what_is_not_printed_is_noticed():
    follow(["a 1", "b", "c 2.5"], ["a 7", "...", "c 3"])
    with pytest.raises(AssertionError, match="is not printed"):
        follow(["a 1", "b"], ["b", "a 1"])
