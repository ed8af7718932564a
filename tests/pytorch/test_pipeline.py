"""Two stages with two chunks each, interleaved, in processes of their own that talk over gloo."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("pipeline_process.py")


@pytest.mark.parametrize("tensor_parallel", [1, 2])
def test_a_pipeline_with_collectives_is_the_same_bit_for_bit_within_its_budgets(tensor_parallel, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(rank), tmp_path / "store", str(tensor_parallel)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2 * tensor_parallel)
    ]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    done = [p.returncode == 0 and "same bits within" in output for p, output in zip(processes, outputs, strict=True)]
    assert all(done), "\n".join(outputs)
