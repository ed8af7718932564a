"""The README of the example for newcomers, followed to the letter: its commands, in order, print what it says they print.
Installing is what scripts/test_pytorch does before it runs this."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from readme_commands import commands, follow

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "integrations" / "pytorch" / "examples" / "huggingface"


def run(command, folder):
    """`python` is the one that runs the suite, with the package that the suite tests."""
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python").exists():
        (folder / "bin" / "python").symlink_to(sys.executable)
    paths = os.pathsep.join(path for path in sys.path if path)
    places = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | places, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert ran.returncode in ((0, 1) if command.startswith("diff ") else (0,)), ran.stdout
    return ran.stdout.splitlines()


def losses(printed):
    return [re.search(r"'loss': '?([\d.e-]+)", line)[1] for line in printed if "'loss'" in line]


def test_the_readme_is_followed_to_the_letter(tmp_path):
    for name in ("train.py", "within.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    printed, told = {}, commands((EXAMPLE / "README.md").read_text())
    for command, expected in told:
        printed[command] = run(command, tmp_path)
        follow(printed[command], expected)
    assert list(printed) == ["python train.py", "diff train.py within.py", "python within.py"]
    assert len(losses(printed["python train.py"])) == 4
    assert losses(printed["python train.py"]) == losses(printed["python within.py"])
    assert printed["diff train.py within.py"] == told[1][1]
    assert sum(line.startswith(">") for line in printed["diff train.py within.py"]) == 3
