"""Loops of Accelerate within a budget: the same losses and gradients, with its autocast, accumulation and scaling."""

import contextlib

import pytest
import tidemark.accelerate
import torch
from test_fit import batch, layers, mean_square, same, what_was_learnt

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")


def prepared(scaler=None, **arguments):
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, **arguments)
    accelerator.scaler = scaler
    model = layers()
    return accelerator, *accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))


def learnt(accelerator, model, optimizer, session):
    seen = []
    with session:
        for _ in range(4):
            with accelerator.accumulate(model):
                loss = mean_square(model(batch()))
                accelerator.backward(loss)
                seen += what_was_learnt(model, loss)
                optimizer.step()
                optimizer.zero_grad()
    return seen


def a_scaler():
    return torch.amp.GradScaler("cpu", init_scale=2.0**8)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"mixed_precision": "bf16"}, {"gradient_accumulation_steps": 2}, {"scaler": a_scaler}],
    ids=["plain", "autocast", "accumulation", "scaled"],
)
def test_loops_learn_the_same(arguments):
    def started():
        return prepared(**{name: value() if callable(value) else value for name, value in arguments.items()})

    expected = learnt(*started(), contextlib.nullcontext())
    accelerator, model, optimizer = started()
    session = tidemark.accelerate.fit(accelerator, model, batch(), mean_square, optimizer, "85%")
    assert same(learnt(accelerator, model, optimizer, session), expected)
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0
    report = session.report()
    assert report.measured_reserved_bytes <= report.budget_bytes


def test_the_loss_may_be_the_models():
    accelerator, _, _ = prepared()
    model = accelerator.prepare(torch.nn.Sequential(layers(), torch.nn.Linear(256, 1), torch.nn.Flatten(0)))
    session = tidemark.accelerate.fit(accelerator, model, batch(1), budget="100%")
    assert session.plan.graph.name == "Sequential"
