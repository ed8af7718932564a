"""What stands there over steps may lie scattered, and the memory between it is no plan's."""

import gc

import tidemark
import torch
from random_plans import least
from tidemark.allocator_share import GRANULE_BYTES
from torch import nn

LAYERS, ROWS, WIDTH = 16, 8192, 128


def model(is_scattered):
    """Where it is, the parameters of every layer stand in a granule of their own."""
    gc.collect()
    tidemark.allocator.empty_cache()
    layers, between = [], []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        if is_scattered:
            between.append(
                torch.empty(GRANULE_BYTES - sum(p.nbytes for p in layers[-2].parameters()), dtype=torch.uint8)
            )
    return nn.Sequential(*layers)


def of_a_recording(net, x, stepper):
    with tidemark.record(net) as recording:
        step(net, x, stepper)
    return recording.graph(), recording.plan


def step(net, x, stepper):
    net(x).square().mean().backward()
    stepper.step()
    stepper.zero_grad()


def parts(is_scattered):
    net = model(is_scattered)
    x = torch.randn(ROWS, WIDTH)
    stepper = torch.optim.SGD(net.parameters(), lr=1e-3)
    return net, x, stepper, *of_a_recording(net, x, stepper)


def test_gaps_are_measured():
    assert parts(is_scattered=False)[3].gaps_bytes < 2 * GRANULE_BYTES
    gaps = parts(is_scattered=True)[3].gaps_bytes
    assert (LAYERS - 3) * GRANULE_BYTES < gaps < LAYERS * GRANULE_BYTES


def test_a_share_is_of_what_is_not_gaps():
    def step_bytes(is_scattered):
        *_, plan = parts(is_scattered)
        made = plan("60%")
        return made.budget_bytes - made.reserve_bytes - made.graph.gaps_bytes

    plain, scattered = step_bytes(is_scattered=False), step_bytes(is_scattered=True)
    assert 0 <= scattered - plain <= 2**20  # the allocator's share of what is more


def test_the_smallest_budget_has_room_for_them():
    net, x, stepper, graph, _ = parts(is_scattered=True)
    with tidemark.session(tidemark.plan(graph, least(graph)), net) as session:
        for _ in range(3):
            step(net, x, stepper)
        report = session.report()
    assert session.counters.copies["planned_bytes"] > 0 and session.counters.copies["requests_unplanned"] == 0
    assert report.measured_reserved_bytes <= report.budget_bytes
    gaps = tidemark.sizes.format_bytes(graph.gaps_bytes)
    assert f"{gaps}  left free between what stands there over steps" in str(report)


def test_fit_knows_them_too():
    net = model(is_scattered=True)
    x = torch.randn(ROWS, WIDTH)
    session = tidemark.fit(net, (x,), lambda out: out.square().mean(), None, "60%")
    assert session.plan.graph.gaps_bytes > (LAYERS - 3) * GRANULE_BYTES
