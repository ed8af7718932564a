"""What a capture has not measured is learnt from a step that ran, and planned again to the same budget."""

import contextlib
import gc

import pytest
import tidemark
import torch
from random_plans import least
from test_plan import BUILDS
from tidemark import allocator
from tidemark.recorded_step import may_plan_again, with_requests
from torch import nn
from training import same


def unmeasured(name):
    model, inputs, loss_fn, bounds = BUILDS[name]()
    return tidemark.capture(model, inputs, loss_fn, optimizer=torch.optim.AdamW(model.parameters(), 1e-3), bounds=bounds)


def train(name, context, steps=5):
    gc.collect()
    model, inputs, loss_fn, _ = BUILDS[name]()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(2)
    losses, counts = [], []
    with context(model) as session:
        for _ in range(steps):
            loss = loss_fn(model(*inputs))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e3)  # is not of the captured step
            stepper.step()
            stepper.zero_grad()
            losses.append(loss.item())
            if session is not None:
                counts.append(session.counters)
    return losses, [p.detach().clone() for p in model.parameters()], counts, session


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("name", ["resnet", "encoder"])
def test_a_step_is_recorded_and_planned_again(name, share):
    """With room for what the steps before have left in granules that they share with what stays."""
    graph = unmeasured(name)
    low = least(graph) + (16 << 20)
    budget = low + int(share * (graph.keep_all_peak_bytes() - least(graph)))
    plan = tidemark.plan(graph, budget)
    assert not graph.knows_requests
    losses, parameters, counts, session = train(name, lambda model: tidemark.session(plan, model))
    plain = train(name, lambda _: contextlib.nullcontext())
    assert losses == plain[0] and all(torch.equal(a, b) for a, b in zip(parameters, plain[1], strict=True))
    assert session.plan is not plan and session.plan.graph.knows_requests and session.plan.budget_bytes == budget
    planned, elsewhere = (
        counts[-1].copies[key] - counts[-2].copies[key] for key in ("requests_planned", "requests_unplanned")
    )
    assert planned > 100 and planned >= 0.99 * (planned + elsewhere)
    report = session.report()
    assert report.off_plan == 0 and report.measured_reserved_bytes <= budget
    assert counts[-1].micro_batches == 5


def test_a_step_that_runs_otherwise_is_not_learnt_from():
    graph = unmeasured("encoder")
    calls = sorted((call for op in graph.ops for call in op.calls), key=lambda call: call.index)
    kernels = [(call.func, [], [], []) for call in calls]
    assert with_requests(graph, kernels[:-1]) is None
    assert with_requests(graph, [*kernels, kernels[0]]) is None
    learnt = with_requests(graph, kernels)
    assert learnt.knows_requests and not any(op.requests for op in learnt.ops)


def test_plans_without_a_budget_or_with_collectives_that_run_again_stay():
    graph = unmeasured("encoder")
    plan = tidemark.plan(graph, least(graph))
    assert may_plan_again(plan)
    again = next(i for k, i in enumerate(plan.schedule) if i in plan.schedule[:k])
    graph.ops[again].recompute = "collective"
    assert not may_plan_again(plan)
    graph.ops[again].recompute = "pure"
    plan.budget_bytes = 0
    assert not may_plan_again(plan)


def test_the_log_has_what_is_asked_for_and_released():
    with allocator.log("cpu") as events:
        one = torch.empty(1000, dtype=torch.uint8)
        address = one.data_ptr()
        del one
    assert events == [(address, 1000), (address, 0)]
    with allocator.log("meta" if not torch.cuda.is_available() else "cuda") as events:
        torch.empty(10)
    assert events == []


def test_a_decorated_function_goes_on_with_what_was_learnt():
    graph = unmeasured("resnet")
    plan = tidemark.plan(graph, graph.keep_all_peak_bytes() + (16 << 20))
    model, inputs, loss_fn, _ = BUILDS["resnet"]()
    stepper = torch.optim.AdamW(model.parameters(), lr=1e-3)
    gc.collect()

    @(session := tidemark.session(plan, model))
    def train_three():
        for _ in range(3):
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()

    train_three()
    learnt = session.plan
    assert learnt is not plan and learnt.graph.knows_requests
    train_three()
    assert session.plan is learnt


def test_a_step_that_never_comes_as_captured_is_given_up_with_a_warning():
    graph = unmeasured("encoder")
    plan = tidemark.plan(graph, graph.keep_all_peak_bytes() + (16 << 20))
    model, inputs, loss_fn, _ = BUILDS["encoder"]()
    gc.collect()
    with pytest.warns(UserWarning, match="the steps ran otherwise than captured"):
        with tidemark.session(plan, model) as session:
            for _ in range(5):  # without the optimizer that was captured
                loss_fn(model(*inputs)).backward()
    assert session.plan is plan


def test_a_kernel_that_reads_anothers_format_is_not_called_on_made_up_values():
    """Backward of an LSTM; the session records a step for what it asks for."""
    torch.manual_seed(0)
    model, x = nn.LSTM(32, 48, batch_first=True), torch.randn(4, 12, 32)
    loss_fn = lambda out: out[0].square().mean()  # noqa: E731
    graph = tidemark.capture(model, (x,), loss_fn, measured=True)
    assert not graph.knows_requests
    plan = tidemark.plan(graph, 2 * graph.keep_all_peak_bytes() + (16 << 20))

    def gradients(context):
        seen = []
        with context:
            for _ in range(3):
                loss_fn(model(x)).backward()
                seen += [p.grad.clone() for p in model.parameters()]
                model.zero_grad()
        return seen

    assert same(gradients(tidemark.session(plan, model)), gradients(contextlib.nullcontext()))
