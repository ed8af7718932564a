"""tidemark.record: a step of the caller's own loop."""

import contextlib

import pytest
import tidemark
import torch
from models import transformer
from random_plans import random_plan
from torch import nn
from training import same


def loop(model, optimizer, inputs, loss_fn):
    loss = loss_fn(model(*inputs))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def test_is_the_step_that_capture_shows():
    model, inputs, loss_fn = transformer()
    optimizer = adamw(model)
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=optimizer, recorded=True)
    loop(model, optimizer, inputs, loss_fn)
    with tidemark.record(model) as recording:
        loop(model, optimizer, inputs, loss_fn)
    recorded = recording.graph()

    def forward(graph):
        return [(call.site, call.func) for op in graph.ops for call in op.calls if op.phase == "forward"]

    assert forward(recorded) == forward(graph)
    assert [(s.site, s.bytes) for s in recorded.saves] == [(s.site, s.bytes) for s in graph.saves]
    states = [s.bytes for s in recorded.storages if s.role == "optimizer_state"]
    assert sorted(states) == sorted(s.bytes for s in graph.storages if s.role == "optimizer_state")
    assert any("foreach_norm" in op.name for op in recorded.ops)  # what the loop does between backward and step


def test_the_step_that_makes_the_optimizers_state_is_not_like_others():
    model, inputs, loss_fn = transformer()
    optimizer = adamw(model)
    with pytest.raises(tidemark.CaptureError, match="made its state in the step.*record the second"):
        with tidemark.record(model):
            loop(model, optimizer, inputs, loss_fn)


def test_a_block_without_a_step_is_no_recording():
    model, inputs, loss_fn = transformer()
    with pytest.raises(tidemark.CaptureError, match="no forward and backward of Sequential"):
        with tidemark.record(model):
            pass
    recording = tidemark.record(model)
    with pytest.raises(tidemark.CaptureError, match="there is no recording yet"):
        recording.graph()


def test_an_exception_in_the_step_leaves_nothing_behind():
    model, inputs, loss_fn = transformer()
    backward = torch.autograd.backward
    with pytest.raises(ZeroDivisionError):
        with tidemark.record(model):
            model(*inputs)
            raise ZeroDivisionError
    assert torch.autograd.backward is backward
    plain = loss_fn(model(*inputs))
    plain.backward()


class Conjugated(nn.Module):
    """Saves views whose values are conjugates and negatives of what their storages hold."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        a, b = torch.fft.rfft(self.a(x)), torch.fft.rfft(self.b(x))
        negated = a.conj().imag
        return torch.fft.irfft(a * b.conj()).square().mean() + (negated * negated * b.real).mean()


def test_conjugated_and_negated_views_train_bit_for_bit():
    torch.manual_seed(0)
    model, x = Conjugated(), torch.randn(64, 32)

    def gradients():
        model.zero_grad()
        model(x).backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = gradients()
    with tidemark.record(model):
        recorded = gradients()
    assert same(recorded, plain)


class Forces(nn.Module):
    """Differentiates within forward, as models of molecules do."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        x = x.detach().requires_grad_()
        (forces,) = torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)
        return self.head(x + forces)


def penalised(out):
    """Differentiates once more where the loss is made."""
    loss = out.square().mean()
    (slope,) = torch.autograd.grad(loss, out, create_graph=True)
    return loss + slope.square().sum()


def test_what_is_differentiated_in_forward_leaves_the_rest_of_it_forward():
    torch.manual_seed(0)
    model, x = Forces(), torch.randn(64, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    graph = tidemark.capture(model, (x,), penalised, optimizer=optimizer, recorded=True)
    with tidemark.record(model) as recording:
        penalised(model(x)).backward()
        optimizer.step()
        optimizer.zero_grad()

    def phases(graph):
        return [(op.phase, call.site, call.func) for op in graph.ops for call in op.calls if op.phase != "optimizer"]

    assert phases(recording.graph()) == phases(graph)
    assert sum(op.phase == "forward" for op in graph.ops) > 12


class Looked(nn.Module):
    """Its gradient is sparse."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 16, sparse=True)
        self.out = nn.Linear(16, 16)

    def forward(self, tokens):
        return self.out(self.table(tokens)).square().mean()


def test_a_sparse_gradient_is_one_error_and_the_step_trains():
    tokens = torch.randint(0, 64, (32,))

    def train(steps, context):
        torch.manual_seed(0)
        model = Looked()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
        for _ in range(steps):
            with context(model):
                model(tokens).backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
        return model, [p.detach().clone() for p in model.parameters()]

    one_line = r"^the step cannot be recorded: a tensor of shape \(64, 16\) is torch.sparse_coo, .*dense tensors$"

    @contextlib.contextmanager
    def refused(model):
        with pytest.raises(tidemark.CaptureError, match=one_line), tidemark.record(model):
            yield

    _, plain = train(2, contextlib.nullcontext)
    model, recorded = train(2, refused)
    assert same(recorded, plain)
    with pytest.raises(tidemark.CaptureError, match=r"^a tensor .* is torch.sparse_coo.*dense tensors$"):
        tidemark.capture(model, (tokens,), recorded=True)


def test_a_step_that_failed_in_part_is_one_error():
    model, inputs, loss_fn = transformer()

    def fail(_):
        raise ZeroDivisionError

    with pytest.raises(tidemark.CaptureError, match="^the step of Sequential failed in part; record .* whole$"):
        with tidemark.record(model):
            loss = loss_fn(model(*inputs))
            loss.register_hook(fail)
            with pytest.raises(ZeroDivisionError):
                loss.backward()
            loss_fn(model(*inputs)).backward()


def test_a_forward_behind_the_optimizers_step_is_refused():
    """As of a GAN, whose loop steps two in turn."""
    model, inputs, loss_fn = transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with pytest.raises(tidemark.CaptureError, match="forward of Sequential came behind an optimizer's step.*one of several groups"):
        with tidemark.record(model):
            for _ in range(2):
                loop(model, optimizer, inputs, loss_fn)


def test_what_forward_makes_behind_a_gradient_of_its_own_is_reported_as_forwards():
    torch.manual_seed(0)
    model, x = Forces(), torch.randn(4096, 16)
    loss_of = lambda out: out.square().mean()  # noqa: E731
    plan = random_plan(tidemark.capture(model, (x,), loss_of, recorded=True), 0, share=0.5)
    assert not plan.keeps_all
    plan.budget_bytes = 2 * plan.graph.keep_all_peak_bytes() + 16 * 2**20
    with tidemark.session(plan, model) as session:
        for _ in range(2):
            loss_of(model(x)).backward()
            model.zero_grad()
    report = session.report()
    assert report.off_plan == 0
    assert report.measured_by_phase["forward"] >= 0.9 * report.predicted_by_phase["forward"] > 0
    assert report.measured_by_phase["standing"] <= 1.1 * report.predicted_by_phase["standing"]
