"""What a plan rebuilds from, or has given up, is changed behind its back: gradients are as without a session, or it is
refused as autograd would."""

import contextlib
import threading
import warnings

import pytest
import tidemark
import torch
from random_plans import least
from test_misuse import PLANS, gradients, mean_square, recomputing
from torch import nn
from training import gradients_in_flight, same

from models import transformer


class Gated(nn.Module):
    """Saves what it makes of the linear layer's output, and not that output."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        logits = self.linear(x)
        return logits, torch.log_softmax(logits, -1).exp()


def gated(plan_of):
    torch.manual_seed(0)
    model, x = Gated(), torch.randn(512, 32)
    return model, x, plan_of(tidemark.capture(model, (x,), lambda out: out[1].square().mean()))


class Shifted(nn.Module):
    """Autograd saves neither the shift nor the input."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(32))
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        shifted = x + self.shift
        for _ in range(3):
            shifted = torch.sin(torch.cos(shifted))
        return self.linear(shifted)


def test_data_behind_a_parameter_may_become_another_and_is_not_changed_in_place():
    torch.manual_seed(0)
    model, x = Shifted(), torch.randn(512, 32)
    plan = recomputing(tidemark.capture(model, (x,), mean_square))

    def gradients_with(change, context):
        model.zero_grad()
        model.shift.data = torch.ones(32)
        with context:
            loss = mean_square(model(x))
            change()
            loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    def replace():
        model.shift.data = torch.zeros(32)

    assert same(gradients_with(replace, tidemark.session(plan)), gradients_with(replace, contextlib.nullcontext()))
    with pytest.raises(tidemark.TidemarkError, match="was changed in place between forward and backward"):
        gradients_with(lambda: model.shift.data.mul_(2), tidemark.session(plan))


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_an_output_that_autograd_did_not_save_may_be_changed_for_metrics(plan_of):
    model, x, plan = gated(plan_of)

    def run(context):
        model.zero_grad()
        with context:
            logits, out = model(x)
            loss = out.square().mean()
            with torch.no_grad():
                logits.zero_()
            loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    assert same(run(tidemark.session(plan, model)), run(contextlib.nullcontext()))


def test_an_output_may_be_changed_when_backward_is_through():
    """What was recomputed from it is over, and the record of its operation gone."""
    torch.manual_seed(0)
    model, x = nn.Linear(64, 1024), torch.randn(128, 64)
    loss_fn = lambda out: torch.log_softmax(out, -1).exp().square().mean()  # noqa: E731
    graph = tidemark.capture(model, (x,), loss_fn, measured=True)
    plan = tidemark.plan(graph, least(graph))
    assert len(plan.schedule) > len(graph.ops)
    with tidemark.session(plan, model):
        for _ in range(2):
            out = model(x)
            loss_fn(out).backward()
            with torch.no_grad():
                out.clamp_(-1, 1)
            model.zero_grad()


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_a_forward_on_another_device_is_none_of_the_plans(plan_of):
    torch.manual_seed(0)
    model, inputs, loss_fn = transformer()
    plan = plan_of(tidemark.capture(model, inputs, loss_fn))
    with tidemark.session(plan, model) as session:
        loss_fn(model(*inputs)).backward()
        there = {name: p.detach().to("meta") for name, p in model.named_parameters()}
        out = torch.func.functional_call(model, there, tuple(i.to("meta") for i in inputs))
        assert out.device.type == "meta"
        before = session.counters.off_plan
        loss_fn(model(*inputs)).backward()
        assert session.counters.off_plan == before


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_changed_while_another_micro_batch_runs(plan_of):
    model, x, plan = gated(plan_of)
    another = x + 1

    def run(context):
        model.zero_grad()
        with context:
            logits, out = model(x)
            _, other = model(another)
            with torch.no_grad():
                logits.zero_()
            other.square().mean().backward()
            out.square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    assert same(run(tidemark.session(plan, model)), run(contextlib.nullcontext()))


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_a_saved_output_that_is_changed_before_backward_is_refused(plan_of):
    model, x, plan = gated(plan_of)
    for context in (contextlib.nullcontext(), tidemark.session(plan, model)):
        with context:
            _, out = model(x)
            loss = out.square().mean()
            with torch.no_grad():
                out.zero_()
            with pytest.raises(RuntimeError, match="modified (in place|by an inplace)"):
                loss.backward()


def test_what_is_changed_out_of_sight_is_refused_and_not_rebuilt_from():
    """In a hook of backward the session does not look at kernels."""
    model, x, plan = gated(recomputing)
    kept = []

    def change(gradient):
        kept[0].detach().zero_()
        return gradient

    with tidemark.session(plan, model):
        logits, out = model(x)
        kept.append(logits)
        out.register_hook(change)
        with pytest.raises(tidemark.TidemarkError, match="rebuilds activations was changed in place"):
            out.square().mean().backward()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.ones(32))

    def forward(self, x):
        h = self.linear(x)
        return h, torch.tanh(torch.sin(h * self.scale))


def test_an_error_of_the_session_while_forward_runs_is_a_tidemark_error():
    """The change makes the session rebuild at once, from a parameter that was changed before."""
    torch.manual_seed(0)
    model, x = Scaled(), torch.randn(512, 32)
    plan = recomputing(tidemark.capture(model, (x,), lambda out: out[1].square().mean()))
    with tidemark.session(plan, model):
        h, out = model(x)
        out.square().mean()
        with torch.no_grad():
            model.scale.mul_(2)
            with pytest.raises(tidemark.TidemarkError, match="rebuilds activations was changed in place"):
                h.zero_()


def test_changes_that_autograd_does_not_count_are_no_reason_to_refuse():
    model, x, plan = gated(recomputing)

    def run(context):
        model.zero_grad()
        with context:
            _, out = model(x)
            loss = out.square().mean()
            out.data.mul_(2)
            loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    assert same(run(tidemark.session(plan, model)), run(contextlib.nullcontext()))


def test_noise_that_a_kernel_fills_without_saying_so():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.RReLU(), nn.Linear(32, 32), nn.Tanh())
    x = torch.randn(512, 32)
    plan = recomputing(tidemark.capture(model, (x,), mean_square))
    assert same(
        gradients(model, tidemark.session(plan, model), (x,)), gradients(model, contextlib.nullcontext(), (x,))
    )


@torch.library.custom_op("tidemark_test::jittered", mutates_args=())
def jittered(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


jittered.register_fake(torch.empty_like)
jittered.register_autograd(lambda context, gradient: gradient)


class Jittered(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return torch.tanh(jittered(torch.sin(self.linear(x)))).sin()


def test_an_operator_of_ones_own_that_draws_random_numbers():
    torch.manual_seed(0)
    model, x = Jittered(), torch.randn(512, 32)
    plan = recomputing(tidemark.capture(model, (x,), mean_square))
    assert same(
        gradients(model, tidemark.session(plan, model), (x,)), gradients(model, contextlib.nullcontext(), (x,))
    )


def test_a_gradient_within_forward():
    """A penalty on the input's gradient, taken inside the model."""

    class Penalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
            self.outer = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

        def forward(self, x):
            x = x.detach().requires_grad_()
            h = self.inner(x)
            (slope,) = torch.autograd.grad(h.sum(), x, create_graph=True)
            return self.outer(h + slope)

    torch.manual_seed(0)
    model, x = Penalised(), torch.randn(512, 32)
    for plan_of in PLANS.values():
        plan = plan_of(tidemark.capture(model, (x,), mean_square))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # forward goes the captured way
            planned = gradients(model, tidemark.session(plan, model), (x,))
        assert same(planned, gradients(model, contextlib.nullcontext(), (x,)))


def test_micro_batches_whose_backward_runs_in_two_threads_at_once():
    built = transformer(dropout=0.0)
    model, inputs, loss_fn = built
    plan = recomputing(tidemark.capture(*built))
    kept = gradients_in_flight(built, contextlib.nullcontext())

    for _ in range(10):
        model.zero_grad()
        with tidemark.session(plan, model):
            loss = loss_fn(model(*inputs))
            errors = []

            def backward(loss=loss, errors=errors):
                try:
                    loss.backward(retain_graph=True)
                except Exception as error:  # noqa: BLE001
                    errors.append(error)

            threads = [threading.Thread(target=backward) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not errors
        assert all(torch.allclose(p.grad, k, rtol=1e-4, atol=1e-7) for p, k in zip(model.parameters(), kept))
