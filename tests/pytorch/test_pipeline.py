"""Two stages with two chunks each, interleaved, in processes of their own that talk over gloo."""

import pytest
from ranks import said_by


@pytest.mark.parametrize("tensor_parallel", [1, 2])
def test_a_pipeline_with_collectives_is_the_same_bit_for_bit_within_its_budgets(tensor_parallel, tmp_path):
    world = 2 * tensor_parallel
    said = said_by("pipeline_process.py", lambda rank: (rank, tmp_path / "store", tensor_parallel), world, tmp_path)
    assert all("same bits within" in out for out in said), "\n".join(said)
