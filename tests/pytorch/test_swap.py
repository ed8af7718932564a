"""Copies to host memory and back run beside the kernels: however long they take, nothing changes by a bit, and memory is
what the plan says."""

import contextlib

import pytest
import tidemark
import torch
from random_plans import random_plan, swapped
from test_memory import BUILDS, captured, peak_of
from timeline import Timeline
from training import gradients_in_flight, same, train

from models import MODELS, transformer

RATES = [0, 10**9, 10**8]  # bytes a second; 0: as memory is


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", MODELS)
def test_late_copies_change_nothing(name, seed):
    build, held = MODELS[name], []
    plan = swapped(tidemark.capture(*build()), seed)
    assert len(plan.swaps) > 3 or name == "tied"

    def context(model):
        held.append(tidemark.session(plan, model, copy_bytes_per_s=RATES[seed % 3]))
        return held[0]

    assert same(train(build, context), train(build))
    counters = held[0].counters
    assert counters.off_plan == 0
    assert len(plan.swaps) <= counters.swapped <= 3 * len(plan.swaps)  # some lie within a node of backward
    assert counters.copies["copied_out_bytes"] == counters.copies["copied_in_bytes"] > 0 or name == "tied"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", BUILDS)
def test_memory_is_the_plans_however_late_copies_are(name, seed):
    plan = swapped(captured(BUILDS[name]), seed)
    assert len(plan.swaps) > 3
    peak = peak_of(BUILDS[name], plan, copy_bytes_per_s=RATES[seed % 3])
    assert 0.97 * plan.peak_bytes <= peak <= plan.peak_bytes


@pytest.mark.parametrize("seed", range(3))
def test_batches_of_other_sizes_are_copied_whole(seed):
    """Larger than captured, smaller, and both in turn; what is copied is what there is."""
    model, (x, *rest), loss_fn = transformer(dropout=0.0)
    plan = swapped(tidemark.capture(model, (x, *rest), loss_fn), seed)
    batches = [torch.cat([x] * 3), x[:1], x, torch.cat([x, x[:1]])]

    def gradients(context):
        seen = []
        with context:
            for batch in batches:
                loss_fn(model(batch, *rest)).backward()
                seen += [p.grad.clone() for p in model.parameters()]
                model.zero_grad()
        return seen

    session = tidemark.session(plan, model, copy_bytes_per_s=RATES[seed])
    for got, expected in zip(gradients(session), gradients(contextlib.nullcontext()), strict=True):
        assert torch.equal(got, expected)
    assert session.counters.swapped > 3


def test_several_micro_batches_in_flight():
    built = transformer()
    graph = tidemark.capture(*built)
    plan, everything = swapped(graph, 1), random_plan(graph, 0, share=0.0)
    kept = gradients_in_flight(built, tidemark.session(everything, built[0]))
    assert same(gradients_in_flight(built, tidemark.session(plan, built[0], copy_bytes_per_s=10**8)), kept)


def test_the_plan_swaps_where_the_link_is_quick_and_never_without_one():
    model, inputs, loss_fn = transformer(dropout=0.0)
    keep = tidemark.capture(model, inputs, loss_fn).keep_all_peak_bytes()
    budget = int(0.8 * keep)

    def swaps(link):
        graph = tidemark.capture(model, inputs, loss_fn, host_link=link)
        plan = tidemark.planning.solve(graph.to_json(), budget)[0]["captured"]
        found = [(swap["storage"], swap["after"], swap["before"]) for swap in plan["swaps"]]
        assert len(found) == plan["swapped"]
        live = Timeline(graph, plan["order"]).live_bytes(found)
        assert max(live) == plan["live_peak_bytes"]
        return found

    assert not swaps(None)
    assert not swaps(tidemark.HostLink(1e3, 1e3))
    graph = tidemark.capture(model, inputs, loss_fn)
    found = swaps(tidemark.HostLink(1e15, 1e15, 0))
    assert len(found) > 3 and sum(graph.block_bytes(storage) for storage, _, _ in found) >= keep - budget


def test_the_report_says_what_was_copied_and_how_much_of_it_was_hidden():
    model, inputs, loss_fn = transformer()
    graph = tidemark.capture(model, inputs, loss_fn)
    plan = swapped(graph, 0)
    with tidemark.session(plan, model, copy_bytes_per_s=10**8) as session:
        loss_fn(model(*inputs)).backward()
    slow = session.report()
    assert slow.copies["copies_out"] == slow.swapped > 0 and 0 <= slow.hidden_share < 1
    assert "on 2 streams of their own" in str(slow) and "ms waited (measured)" in str(slow)
    with tidemark.session(random_plan(graph, 0, share=0.0), model) as session:
        loss_fn(model(*inputs)).backward()
    assert session.report().hidden_share is None and "copies " not in str(session.report())
