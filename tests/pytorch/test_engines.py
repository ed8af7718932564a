"""Engines that people train with, two processes over gloo: a step of the engine's own loop is recorded and planned, and
what follows is equal bit for bit to the run without a plan."""

import json

import pytest
import torch
from ranks import said_by
from tidemark.planning import with_share

WORLD = 2
SENT_BYTES = 512 * 48 * 4  # what gloo's own thread may hold a moment longer
MESH_BYTES = 2 * 512  # beside the step: a block for the mesh of either job, with and without a plan, which DTensor keeps
GATHERED_BYTES = 4 * 257 * 2048  # of a layer
# Of PyTorch itself, tried without Tidemark.
NEEDS_CPU_STREAMS = pytest.mark.skipif(
    not hasattr(getattr(torch.cpu, "Stream", None), "record_event"), reason="FSDP2 of this PyTorch needs an accelerator"
)
NEEDS_PAIRED_SENDS = pytest.mark.skipif(
    torch.__version__.startswith(("2.6.", "2.9.")), reason="1F1B of PyTorch 2.6 waits for ever over gloo, and of 2.9 fails"
)
ENGINES = (
    "ddp",
    pytest.param("fsdp2", marks=NEEDS_CPU_STREAMS),
    "tensor_parallel",
    pytest.param("pipelining", marks=NEEDS_PAIRED_SENDS),
)


def trained(engine, folder):
    """What each process says."""
    said = said_by("engine_process.py", lambda rank: (engine, rank, WORLD, folder / "store"), WORLD, folder)
    return [json.loads(out.splitlines()[-1]) for out in said]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no process groups")
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_trains_by_a_plan_of_its_own_step(engine, tmp_path):
    for rank in trained(engine, tmp_path):
        assert rank["trained_alike"]
        assert rank["acted"] > 0 and rank["off_plan"] == 0
        assert rank["measured"] == pytest.approx(rank["predicted"], rel=0.03, abs=SENT_BYTES + MESH_BYTES)
        assert rank["measured"] < 0.75 * rank["keep_all"]
        assert rank["micro_batches"] == (2 if engine == "pipelining" else 1)


@NEEDS_CPU_STREAMS
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no process groups")
def test_what_fsdp_gathers_is_served_where_it_is_planned(tmp_path):
    """So that the budget is what was planned and the allocator's share of it."""
    for rank in trained("fsdp2_within_budget", tmp_path):
        assert rank["trained_alike"]
        assert rank["least"] <= with_share(rank["predicted"]) + rank["gaps"]
        assert rank["reserved"] <= rank["budget"]
        assert rank["measured"] == pytest.approx(rank["predicted"], rel=0.03, abs=GATHERED_BYTES)
        served, elsewhere = rank["requests"]
        assert elsewhere < served / 10
