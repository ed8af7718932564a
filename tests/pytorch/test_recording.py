"""tidemark.record: a step of the caller's own loop."""

import pytest
import tidemark
import torch
from models import transformer
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
