"""The benches that need a GPU, as far as they run without one: the table at equal peak, tiny, and what is computed of traces."""

import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from bench_device import rows_that_fill  # noqa: E402
from trace_overlap import overlap_of  # noqa: E402


def test_the_table_can_be_made():
    pytest.importorskip("transformers")
    rivals = ("checkpoint", "selective", "save_on_cpu", "torchtune", "deepcompile")
    command = [sys.executable, str(BENCH / "pytorch_rivals.py"), "--tiny", "--models", "llama", "--rounds", "1", "--steps", "1"]
    ran = subprocess.run(
        [*command, "--memory", "8MiB", "--rivals", ",".join(rivals)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("CPU: no GPU took part")
    rows = [line for line in ran.stdout.splitlines() if line.startswith("| llama |")]
    assert "to fill 60%" in rows[0] and [row.split(" | ")[1] for row in rows[1:]] == list(rivals)
    assert all("| equal | holds |" in row for row in rows[1:4])
    assert all("not installed" in row or "needs a GPU" in row for row in rows[4:])


def test_rows_fill_what_is_given():
    peaks = {1: 1_000, 2: 1_300}
    assert rows_that_fill(1_000 + 9 * 300, peaks) == 10
    assert rows_that_fill(1_000 + 9 * 300 - 1, peaks) == 9
    assert rows_that_fill(0, peaks) == 1
    with pytest.raises(ValueError, match="more for more rows"):
        rows_that_fill(1_000, {1: 5, 2: 5})


def event(cat, name, ts, dur):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}


def test_the_share_of_copies_beside_kernels():
    events = [
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, 10),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 8, 6),  # both ways at once: 14 us in all
        event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 20, 50),  # nothing to hide from
        event("kernel", "gemm", 4, 2),
        event("kernel", "add", 5, 3),  # beside the other on another stream: 4 to 8
        event("kernel", "mul", 13, 100),
        event("cpu_op", "aten::mm", 0, 200),
        {"ph": "i", "cat": "kernel", "name": "mark", "ts": 1},
    ]
    found = overlap_of(events)
    assert (found.copies_us, found.beside_kernels_us) == (14, 5)
    assert found.share == 5 / 14
    assert overlap_of([]).share == 0
