"""What a steady step asks for stands where the plan has it, and what departs is served all the same."""

import contextlib
import gc

import pytest
import tidemark
import torch
from random_plans import least
from test_plan import BUILDS, captured, train
from tidemark import allocator
from torch import nn

GRANULE = 2 << 20


@pytest.mark.parametrize("name", ["resnet", "encoder"])
def test_a_steady_step_is_served_from_the_planned_arena(name):
    build = BUILDS[name]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))
    model, inputs, loss_fn, _ = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        loss_fn(model(*inputs)).backward()
        stepper.step()
        stepper.zero_grad()

    with tidemark.session(plan, model) as session:
        step()  # makes the optimizer's state
        before = session.counters.copies
        for _ in range(3):
            step()
        after = session.counters.copies
        report = session.report()
    served, elsewhere = (after[k] - before[k] for k in ("requests_planned", "requests_unplanned"))
    assert served > 100 and served >= 0.99 * (served + elsewhere)
    height = plan.answer["ranks"][0]["peak_bytes"]
    assert report.measured_reserved_bytes <= height + 2 * GRANULE


def test_a_loss_that_the_loop_holds_over_is_in_the_way_of_nothing():
    build = BUILDS["encoder"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))

    def steady_counts(is_held):
        model, inputs, loss_fn, _ = build()
        stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
        held, counts = [], []
        with tidemark.session(plan, model) as session:
            for _ in range(6):
                loss = loss_fn(model(*inputs))
                loss.backward()
                held = [loss] if is_held else held
                del loss
                stepper.step()
                stepper.zero_grad()
                counts.append(session.counters.copies)
        keys = ("requests_planned", "requests_unplanned", "requests_blocked")
        return [counts[5][key] - counts[3][key] for key in keys]

    # A plan may have a rerun come where backward does not tell the session: it comes one op later and may be blocked.
    planned, unplanned, blocked = steady_counts(True)
    assert [planned, unplanned, blocked] == steady_counts(False)
    assert planned > 1000 and unplanned - blocked <= 2


def test_evaluation_and_other_shapes_lose_nothing_and_the_plan_is_come_back_to():
    build = BUILDS["encoder"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))

    def run(context):
        model, (x,), loss_fn, _ = build()
        stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
        torch.manual_seed(3)
        seen, counts = [], []
        with context(model) as session:
            for k in range(8):
                batch = x[:5] if k == 3 else x
                loss = loss_fn(model(batch))
                loss.backward()
                stepper.step()
                stepper.zero_grad()
                seen.append(loss.item())
                del loss
                if k == 5:
                    with torch.no_grad():
                        model.eval()
                        seen.append(loss_fn(model(torch.cat([x, x]))).item())
                        model.train()
                if session is not None:
                    counts.append(session.counters.copies["requests_unplanned"])
        return seen, counts

    planned, counts = run(lambda model: tidemark.session(plan, model))
    assert planned == run(lambda _: contextlib.nullcontext())[0]
    steady = len(graph.ops) // 100
    assert counts[2] - counts[1] <= steady and counts[7] - counts[6] <= steady, counts
    assert counts[3] > counts[2] + 10 * steady


@pytest.mark.parametrize("name", ["resnet", "encoder"])
def test_a_plan_that_keeps_everything_is_served_as_well(name):
    build = BUILDS[name]
    plan = tidemark.plan(captured(build), "4GiB")
    assert plan.keeps_all
    model, inputs, loss_fn, _ = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with tidemark.session(plan, model) as session:
        for k in range(4):
            if k == 1:
                before = session.counters.copies
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
        after = session.counters.copies
        report = session.report()
    served, elsewhere = (after[k] - before[k] for k in ("requests_planned", "requests_unplanned"))
    assert served > 100 and served >= 0.99 * (served + elsewhere)
    assert report.off_plan == 0 and sum(report.measured_by_phase.values()) == report.measured_peak_bytes


@pytest.mark.parametrize(
    "make", [lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=1e-4), lambda p: torch.optim.AdamW(p, 1e-3)]
)
@pytest.mark.parametrize("foreach", [False, True])
def test_state_made_by_the_optimizers_first_step_blocks_no_planned_address(make, foreach):
    build = BUILDS["resnet"]
    model, inputs, loss_fn, _ = build()
    stepper = make(model.parameters())
    stepper.param_groups[0]["foreach"] = foreach
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=stepper, measured=True, holds_output=False)
    plan = tidemark.plan(graph, least(graph))
    gc.collect()
    with tidemark.session(plan, model) as session:
        for k in range(4):
            if k == 1:
                before = session.counters.copies
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
        after = session.counters.copies
        report = session.report()
    assert after["requests_blocked"] == before["requests_blocked"]
    assert report.measured_reserved_bytes <= plan.budget_bytes


def test_the_arena_goes_with_the_session():
    build = BUILDS["resnet"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))
    gc.collect()
    allocator.empty_cache()
    before = allocator.statistics().reserved_bytes
    held = []

    def keep(model):
        held.append(nn.Parameter(torch.ones(3)))
        return tidemark.session(plan, model)

    train(build, keep, 2)
    gc.collect()
    allocator.empty_cache()
    assert allocator.statistics().reserved_bytes <= before + GRANULE
