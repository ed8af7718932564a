"""Copies to host memory and back run beside the kernels: however long each takes, nothing changes by a bit, and memory
is what the plan says."""

import random

import pytest
import tidemark
import torch
from random_plans import random_plan, with_swaps
from test_memory import BUILDS, captured, peak_of
from training import gradients_in_flight, same, train

from models import MODELS, transformer


def delays(seed):
    """Most copies at once, some very late."""
    rng = random.Random(seed)
    return lambda: rng.choice([0, 0, 0, 1e-4, 1e-3, 8e-3])


def swapped(graph, seed):
    """Every other time with recomputation in between."""
    nothing = tidemark.Plan(graph, 0, list(range(len(graph.ops))))
    return with_swaps(random_plan(graph, seed, share=0.4) if seed % 2 else nothing, seed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", MODELS)
def test_late_copies_change_nothing(name, seed):
    build = MODELS[name]
    plan = swapped(tidemark.capture(*build()), seed)
    assert len(plan.swaps) > 3 or name == "tied"
    host, held = tidemark.HostMemory(delays(seed)), []

    def context(model):
        held.append(tidemark.session(plan, model, host))
        return held[0]

    assert same(train(build, context), train(build))
    assert 2 * len(plan.swaps) <= held[0].counters.swapped <= 3 * len(plan.swaps)  # some lie within a node of backward
    assert held[0].counters.off_plan == 0
    assert (host.bytes_out > 0) == (host.bytes_in > 0) == (len(plan.swaps) > 0)
    host.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", BUILDS)
def test_memory_is_the_plans_however_late_copies_are(name, seed):
    plan, host = swapped(captured(BUILDS[name]), seed), tidemark.HostMemory(delays(seed))
    assert len(plan.swaps) > 3
    assert 0.97 * plan.peak_bytes <= peak_of(BUILDS[name], plan, host=host) <= plan.peak_bytes
    host.close()


def test_several_micro_batches_in_flight():
    built = transformer()
    plan = swapped(tidemark.capture(*built), 1)
    host = tidemark.HostMemory(delays(7))
    everything = tidemark.Plan(plan.graph, 0, list(range(len(plan.graph.ops))))
    kept = gradients_in_flight(built, tidemark.session(everything, built[0]))
    assert same(gradients_in_flight(built, tidemark.session(plan, built[0], host)), kept)
    host.close()


def test_what_is_changed_while_it_is_copied_is_copied_first():
    host = tidemark.HostMemory(lambda: 0.02)
    tensor = torch.arange(1000.0)
    copy = host.copy_out(tensor)
    host.settle(tensor[3:])
    tensor.zero_()
    assert torch.equal(host.copy_in(copy).wait().view(torch.float32), torch.arange(1000.0))
    assert not host.leaving
    host.close()


def test_the_plan_swaps_where_the_link_is_quick_and_never_without_one():
    model, inputs, loss_fn = transformer(dropout=0.0)
    keep = tidemark.capture(model, inputs, loss_fn).keep_all_peak_bytes()
    budget = int(0.8 * keep)

    def swaps(link):
        graph = tidemark.capture(model, inputs, loss_fn, host_link=link)
        plan = tidemark.planning.solve(graph.to_json(), budget)["captured"]
        found = [(swap["storage"], swap["after"], swap["before"]) for swap in plan["swaps"]]
        assert len(found) == plan["swapped"]
        made = tidemark.Plan(graph, 0, plan["order"], found)
        assert max(tidemark.schedule.Timeline(graph, made.schedule).live_bytes(found)) == plan["live_peak_bytes"]
        return found

    assert not swaps(None)
    assert not swaps(tidemark.HostLink(1e3, 1e3))
    assert len(swaps(tidemark.HostLink(1e15, 1e15, 0))) > 5
