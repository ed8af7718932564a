"""What a steady step asks for stands where the plan has it, and what departs is served all the same."""

import contextlib
import gc

import model as example
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
    gc.collect()  # of the captured model some blocks would lie between those of the next, each in a granule
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
        gc.collect()  # the model before
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

    planned, unplanned, blocked = steady_counts(True)
    assert [planned, unplanned, blocked] == steady_counts(False)
    assert planned > 1000 and unplanned <= 2 and blocked == 0


class Formulas(nn.Module):
    """Backward of its ops does otherwise under a dispatch mode, and of fake tensors."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(48, 96)
        self.out = nn.Linear(48, 48)
        self.order = torch.randperm(160)
        self.columns = torch.randint(0, 48, (320, 48))
        self.mask = torch.ones(8, 40, 40, dtype=torch.bool).triu(1)

    def forward(self, x):
        x = self.into(x)
        q, k = x.index_select(0, self.order).split(48, -1), x[self.order].split(48, -1)
        x = torch.cat([q[0], k[1]]).gather(1, self.columns)  # 320 x 48
        scores = torch.baddbmm(torch.empty(8, 40, 40), x.view(8, 40, 48), x.view(8, 40, 48).mT, beta=0.0)
        viewed = scores.view(2, 4, 40, 40).transpose(2, 3)
        viewed.masked_fill_(self.mask.view(2, 4, 40, 40), -1e4)  # the view, so its base
        x = torch.softmax(viewed.transpose(2, 3), -1).view(8, 40, 40) @ x.view(8, 40, 48)
        weights = torch.sigmoid(x)
        weights = weights / weights.sum(-1, keepdim=True)  # gradients of two shapes meet
        return self.out(x * weights).amax(-1) + x.max(-1).values


def heads(loss_fn):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512))
    x, y = torch.randn(128, 48), torch.rand(128, 512)
    return model, (x,), lambda out: loss_fn(out, y)


LOSSES = {  # the first two make their scalar of a tensor of the input's size, which the loop has with it
    "mse": nn.functional.mse_loss,
    "smooth l1": nn.functional.smooth_l1_loss,
    "binary cross entropy": nn.functional.binary_cross_entropy_with_logits,
}


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_what_the_loop_has_of_the_step_before_is_planned_for(name, holds):
    def trained(context):
        model, inputs, loss_fn = heads(LOSSES[name])
        stepper = torch.optim.SGD(model.parameters(), lr=0.1)
        losses, output = [], None
        with context(model) as session:
            for _ in range(5):
                before = session.counters.copies if session else None
                if holds:
                    output = model(*inputs)
                    loss = loss_fn(output)
                else:
                    loss = loss_fn(model(*inputs))
                loss.backward()
                stepper.step()
                stepper.zero_grad()
                losses.append(loss.item().hex())
            after = session.counters.copies if session else None
        return losses, before, after

    model, inputs, loss_fn = heads(LOSSES[name])
    stepper = torch.optim.SGD(model.parameters(), lr=0.1)
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=stepper, measured=True, holds_output=holds)
    plan = tidemark.plan(graph, least(graph))
    del model, inputs, loss_fn, stepper
    gc.collect()
    losses, before, after = trained(lambda model: tidemark.session(plan, model))
    assert losses == trained(lambda _: contextlib.nullcontext())[0]
    assert after["requests_unplanned"] - before["requests_unplanned"] <= 2  # the loss, the output


def served_in_steady_steps(model, inputs, loss_fn, bounds=None):
    """At the smallest budget: what was served where the plan has it, what was not, and how many ops run again."""
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    graph = tidemark.capture(
        model, inputs(), loss_fn, optimizer=stepper, bounds=bounds, measured=True, holds_output=False
    )
    plan = tidemark.plan(graph, least(graph))
    with tidemark.session(plan, model) as session:
        for k in range(6):
            if k == 1:  # the first step has made the optimizer's state
                before = session.counters.copies
            loss_fn(model(*inputs())).backward()
            stepper.step()
            stepper.zero_grad()
        after = session.counters.copies
    served = [after[k] - before[k] for k in ("requests_planned", "requests_unplanned")]
    return *served, len(plan.schedule) - len(graph.ops)


def test_backward_that_a_capture_sees_otherwise_comes_as_planned():
    x = torch.randn(160, 48)
    planned, unplanned, again = served_in_steady_steps(Formulas(), lambda: (x,), lambda out: out.square().mean())
    assert planned > 300 and unplanned == 0 and again > 0


class HoldsOver(nn.Module):
    """Memory is at its peak between two uses of `held`, which is cheap to make again."""

    def __init__(self):
        super().__init__()
        self.scales = nn.Parameter(torch.randn(512, 64))

    def forward(self, x):
        held = self.scales * 2.0
        with torch.no_grad():
            largest = (held.repeat(1, 16) + x.repeat(1, 16)).amax()
        return x + held * largest


def test_what_a_variable_holds_between_two_uses_is_not_planned_away():
    x = torch.randn(512, 64)
    model = nn.Sequential(*(HoldsOver() for _ in range(4)))
    planned, unplanned, _ = served_in_steady_steps(model, lambda: (x,), lambda out: out.square().mean())
    assert planned > 200 and unplanned <= 5, unplanned  # the loss, in every step


def test_whatever_routing_does_within_its_bound_comes_as_planned():
    config = example.Config(vocabulary=32, hidden=32, layers=2, heads=2, head=16, rope=8, first_dense=0)
    inputs = lambda: (torch.randint(0, 32, (4, 64)),)  # noqa: E731  others in every step
    loss_fn = lambda out: sum(o.square().mean() for o in out)  # noqa: E731
    model = example.Decoder(config)
    rows = 4 * 64  # of a part, at most: every token may go to it
    bounds = {"*mlp": tidemark.Routed(rows * config.top_k, parts=config.experts, most=rows)}
    planned, unplanned, again = served_in_steady_steps(model, inputs, loss_fn, bounds)
    assert planned > 1000 and unplanned == 0 and again > 0


class Selecting(nn.Module):
    """Each expert's rows are found by a mask: what nonzero() returns of made-up values says nothing."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == number)
            out = out.index_add(0, row, torch.relu(expert(x[row])) * weights[row, slot].unsqueeze(-1))
        return x + out


def test_rows_that_a_mask_selects_come_as_planned():
    model = nn.Sequential(*(Selecting() for _ in range(3)))
    inputs = lambda: (torch.randn(128, 32),)  # noqa: E731  others in every step
    bounds = {"*": tidemark.Rows(64, most=128)}
    planned, unplanned, _ = served_in_steady_steps(model, inputs, lambda out: out.square().mean(), bounds)
    assert planned > 300 and unplanned == 0


@pytest.mark.parametrize("failing", range(3))
def test_a_step_that_failed_is_done_again_as_planned(failing):
    class Boom(Exception):
        pass

    def fail(*_):
        raise Boom

    torch.manual_seed(0)
    layers = [[nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)] for _ in range(4)]
    model = nn.Sequential(*sum(layers, []))
    x = torch.randn(256, 64)
    loss_of = lambda: model(x).square().mean() / 3  # noqa: E731
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    graph = tidemark.capture(
        model, (x,), lambda out: out.square().mean() / 3, optimizer=stepper, micro_batches=3, measured=True
    )
    plan = tidemark.plan(graph, least(graph))
    with tidemark.session(plan, model) as session:
        for k in range(6):
            if k == 1:
                before = session.counters.copies
            for attempt in range(2 if k == 3 else 1):
                with contextlib.suppress(Boom):
                    for j in range(3):
                        is_bad = k == 3 and attempt == 0 and j == failing
                        hook = model[5].register_forward_hook(fail) if is_bad else None
                        try:
                            loss_of().backward()
                        finally:
                            if hook:
                                hook.remove()
                    stepper.step()
                stepper.zero_grad()
        after = session.counters.copies
    assert after["requests_planned"] - before["requests_planned"] > 500
    assert after["requests_unplanned"] - before["requests_unplanned"] <= 15  # the loss


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


def taken_from_the_machine():
    """By what is alive."""
    gc.collect()
    allocator.empty_cache()
    return allocator.statistics().reserved_bytes


def test_a_loss_held_into_the_next_session_is_in_the_way_of_nothing():
    build = BUILDS["encoder"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))
    before = taken_from_the_machine()
    model, inputs, loss_fn, _ = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        with tidemark.session(plan, model) as session:
            for _ in range(3):
                loss = loss_fn(model(*inputs))
                loss.backward()
                stepper.step()
                stepper.zero_grad()
        losses.append(loss.detach())
        counts = session.counters.copies
        assert counts["requests_planned"] > 1000
        assert session.report().measured_reserved_bytes <= plan.budget_bytes
    assert counts["requests_unplanned"] <= 0.01 * counts["requests_planned"]
    del losses, loss, stepper, model, session
    assert taken_from_the_machine() <= before + 2 * GRANULE


def test_the_arena_goes_with_the_session():
    build = BUILDS["resnet"]
    graph = captured(build)
    plan = tidemark.plan(graph, least(graph))
    before = taken_from_the_machine()
    held = []

    def keep(model):
        held.append(nn.Parameter(torch.ones(3)))
        return tidemark.session(plan, model)

    train(build, keep, 2)
    assert taken_from_the_machine() <= before + GRANULE


def test_the_arena_goes_where_the_session_is_left():
    """The object, which answers for what was done, holds none of it."""
    build = BUILDS["encoder"]
    graph = captured(build)
    plan = tidemark.plan(graph, 4 * least(graph))  # room for the arena beside what the model holds
    model, inputs, loss_fn, _ = build()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        loss_fn(model(*inputs)).backward()
        stepper.step()
        stepper.zero_grad()

    step()
    before = taken_from_the_machine()
    with tidemark.session(plan, model) as session:
        step()
        assert session.counters.copies["planned_bytes"] > 4 * GRANULE
    assert taken_from_the_machine() <= before + GRANULE
    assert session.counters.copies["requests_planned"] > 100
