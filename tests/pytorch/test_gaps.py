"""What stands there over steps may lie scattered, and the memory between it is no plan's."""

import gc

import pytest
import tidemark
import torch
from tidemark import allocator
from tidemark.allocator_share import GRANULE_BYTES
from tidemark.held_elsewhere import held_elsewhere
from torch import nn

LAYERS, ROWS, WIDTH = 16, 8192, 128


@pytest.fixture(autouse=True)
def _whole_granules():
    """Granules that are cached have free blocks of other sizes, which layers would share."""
    gc.collect()
    allocator.empty_cache()


def block(size):
    return torch.empty(size, dtype=torch.uint8)


def filled(size):
    """Blocks where there was room for them, so that the next ones begin at a granule."""
    blocks = []
    with allocator.budget(max(1, allocator.statistics().reserved_bytes)):
        while True:
            try:
                blocks.append(block(size))
            except torch.OutOfMemoryError:
                return blocks


def model(is_scattered=False):
    """The layers, and what lies between them where every layer's parameters stand in a granule of their own."""
    layers, between = [], []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        if is_scattered:
            between.append(block(GRANULE_BYTES - sum(p.nbytes for p in layers[-2].parameters())))
    return nn.Sequential(*layers), between


def step(net, x):
    net(x).square().mean().backward()
    with torch.no_grad():
        for p in net.parameters():
            p.sub_(p.grad, alpha=1e-3)
    net.zero_grad()


def recorded(net, x):
    with tidemark.record(net) as recording:
        step(net, x)
    return recording


def trained(net, x, plan):
    with tidemark.session(plan, net) as session:
        for _ in range(3):
            step(net, x)
        report = session.report()
    assert session.counters.copies["planned_bytes"] > 0 and session.counters.copies["requests_unplanned"] == 0
    assert report.measured_reserved_bytes <= report.budget_bytes
    return report


def least_of(recording):
    reserve = recording.plan("200%").reserve_bytes
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        recording.plan(reserve + GRANULE_BYTES)
    return refusal.value.smallest_bytes


@pytest.mark.parametrize("is_scattered", [False, True])
def test_the_smallest_budget_has_room_for_them(is_scattered):
    net = model(is_scattered)[0]
    x = torch.randn(ROWS, WIDTH)
    recording = recorded(net, x)
    gaps = recording.graph().gaps_bytes
    if is_scattered:
        assert (LAYERS - 3) * GRANULE_BYTES < gaps < LAYERS * GRANULE_BYTES
    report = trained(net, x, recording.plan(least_of(recording)))
    assert (f"{tidemark.sizes.format_bytes(gaps)}  left free between what stands there" in str(report)) == (gaps > 0)


@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="Python before 3.11 has no notes")
def test_a_plan_of_another_process_says_what_it_did_not_know(tmp_path):
    x = torch.randn(ROWS, WIDTH)
    recording = recorded(model()[0], x)
    recording.plan(least_of(recording)).save(tmp_path / "plan.json")
    allocator.empty_cache()  # of what the recorded model had: layers that share its granules are not scattered
    net = model(is_scattered=True)[0]
    with pytest.raises(torch.OutOfMemoryError) as raised, tidemark.session(tmp_path / "plan.json", net):
        for _ in range(4):
            step(net, x)
    (note,) = raised.value.__notes__
    assert "memory in one piece for it was not to be had" in note


def test_what_others_have_in_gaps_is_counted_once():
    net, between = model(is_scattered=True)
    x = torch.randn(ROWS, WIDTH)
    recording = recorded(net, x)
    assert recording.graph().gaps_bytes < GRANULE_BYTES
    plan = recording.plan(least_of(recording))
    others = sum(b.nbytes for b in between)
    assert others <= plan.reserve_bytes < others + GRANULE_BYTES
    report = trained(net, x, plan)
    assert report.budget_bytes < report.measured_reserved_bytes + 5 * GRANULE_BYTES


def test_gaps_around_what_others_have_are_no_plans_either():
    small = GRANULE_BYTES // 32
    others, between = zip(*[(block(small), block(GRANULE_BYTES - small)) for _ in range(LAYERS)], strict=True)
    net = model()[0]
    x = torch.randn(ROWS, WIDTH)
    del between
    recording = recorded(net, x)
    assert recording.graph().gaps_bytes > (LAYERS - 3) * (GRANULE_BYTES - small)
    plan = recording.plan(least_of(recording))
    assert plan.reserve_bytes >= sum(b.nbytes for b in others)
    trained(net, x, plan)


def test_a_share_is_of_what_is_not_gaps():
    def step_bytes(is_scattered):
        plan = recorded(model(is_scattered)[0], torch.randn(ROWS, WIDTH)).plan("60%")
        return plan.budget_bytes - plan.reserve_bytes - plan.graph.gaps_bytes

    plain, scattered = step_bytes(is_scattered=False), step_bytes(is_scattered=True)
    assert 0 <= scattered - plain <= 2**20  # the allocator's share of what is more


def test_stitched_blocks_are_no_gaps():
    """Such a block has addresses of its own, and its bytes in granules of others."""
    small = 432 * GRANULE_BYTES // 1024
    rest = GRANULE_BYTES - small
    keep, drop = filled(2**16), []
    for _ in range(20):
        for size in (small, rest, GRANULE_BYTES, rest, small, GRANULE_BYTES):
            (drop if size == rest else keep).append(block(size))
    drop.clear()
    keep += [block(2 * rest) for _ in range(20)]
    net = nn.ParameterList([nn.Parameter(b, requires_grad=False) for b in keep])
    allocator.empty_cache()
    free = allocator.statistics().reserved_bytes - allocator.statistics().allocated_bytes
    assert held_elsewhere(net, None, ())[1] <= free < 2 * GRANULE_BYTES


class WithOthers(nn.Module):
    """The batch is the rows and more."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x, others):
        return self.layers(x) * sum(block.view(torch.float32).sum() for block in others)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_batches_and_gradients_pass(is_recorded):
    """What stands in gaps now leaves them to the next step, whichever way the step is captured."""
    net, between = model(is_scattered=True)
    x, net = torch.randn(ROWS, WIDTH), WithOthers(net)
    for one in between:
        one.zero_()
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    if is_recorded:
        with tidemark.record(net) as recording:
            net(x, between).square().mean().backward()
        plan = recording.plan("200%")
        elsewhere, gaps = plan.reserve_bytes, plan.graph.gaps_bytes
    else:
        elsewhere, gaps = held_elsewhere(net, None, (x, between))
    assert (LAYERS - 3) * GRANULE_BYTES < gaps < LAYERS * GRANULE_BYTES
    assert elsewhere < GRANULE_BYTES


def test_storages_over_one_block_are_one():
    net, _ = model()
    alias = torch.from_numpy(net[0].weight.detach().numpy())
    others = block(4 * GRANULE_BYTES)
    before = held_elsewhere(net, None, ())[0]
    net.register_buffer("alias", alias)
    assert held_elsewhere(net, None, ())[0] == before >= others.nbytes


def test_copies_on_write_are_left_shared():
    net, _ = model()
    net.register_buffer("copy", torch._lazy_clone(net[0].weight.detach()))
    before = allocator.statistics().allocated_bytes
    held_elsewhere(net, None, ())
    assert allocator.statistics().allocated_bytes == before
