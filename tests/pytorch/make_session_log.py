"""Makes tests/data/session: the log of a session on the CPU, and the plan that it followed.

    make_session_log.py FOLDER

A small transformer over two micro-batches, by a plan that swaps and recomputes. The package must be installed."""

import copy
import gc
import pathlib
import random
import sys

import tidemark
import torch
from tidemark.graph import HostLink
from tidemark.planning import plan_of, solve
from training import train

from models import transformer

STEPS, MICRO_BATCHES = 2, 2


def build():
    return transformer(dropout=0.0, layers=2)


def make_plan():
    """Costs are drawn, over a link so slow that recomputing some is the better answer."""
    graph = tidemark.capture(*build(), micro_batches=MICRO_BATCHES)
    rng, drawn = random.Random(1), copy.copy(graph)
    drawn.host_link = HostLink(3e6, 3e6, 0)
    drawn.ops = [copy.copy(op) for op in graph.ops]
    for op in drawn.ops:
        op.cost = rng.randrange(1000, 1_000_000)
    answer, file = solve(drawn.to_json(), int(0.7 * graph.keep_all_peak_bytes()), effort_percent=1)
    plan = plan_of(graph, 0, answer, file)  # nothing is limited
    assert answer["fits"] and plan.swaps and len(plan.schedule) > len(graph.ops), "both are wanted"
    return plan


def record(plan, path):
    def context(model):
        return tidemark.session(plan, model, record=path)

    seen = train(build, context, steps=STEPS, micro_batches=MICRO_BATCHES)
    gc.collect()  # what holds the session
    return seen


if __name__ == "__main__":
    torch.set_num_threads(1)
    tidemark.allocator.install()
    folder = pathlib.Path(sys.argv[1])
    plan = make_plan()
    (folder / "transformer.plan.json").write_bytes(plan.file)
    record(plan, folder / "transformer.log")
