"""A few training steps, and everything that must not change by a bit."""

import contextlib

import pytest
import torch

# There the backward of a capture has started PyTorch's threads of backward, which a fork does not have.
forks_after_capture = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11),
    reason="PyTorch refuses, from 2.11 on, backward in a process forked after one on fake tensors",
)


def train(build, context=None, steps=3, micro_batches=1, optimizer=torch.optim.AdamW, evaluate=False):
    """Losses and gradients of every step, from the same start."""
    model, inputs, loss_fn = build()
    context = contextlib.nullcontext() if context is None else context(model)
    torch.manual_seed(1)
    stepper = optimizer(model.parameters(), lr=1e-2)
    seen = []
    with context:
        for _ in range(steps):
            stepper.zero_grad()
            for _ in range(micro_batches):
                loss = loss_fn(model(*inputs))
                loss.backward()
                seen.append(loss.detach().clone())
            seen += [p.grad.clone() for p in model.parameters() if p.grad is not None]
            if evaluate:
                model.eval()
                with torch.no_grad():
                    seen.append(loss_fn(model(*inputs)))
                model.train()
            stepper.step()
    return seen


def gradients_in_flight(build, context):
    """Of three micro-batches at once: all forwards, then all backwards in the opposite order."""
    model, inputs, loss_fn = build
    torch.manual_seed(2)
    model.zero_grad()
    with context:
        losses = [loss_fn(model(*inputs)) for _ in range(3)]
        for loss in reversed(losses):
            loss.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
