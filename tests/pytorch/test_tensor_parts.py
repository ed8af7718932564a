"""Tensors that are made of others: what is seen, saved and planned are their parts."""

import contextlib

import pytest
import tidemark
import torch
from random_plans import random_plan
from tidemark.tensor_parts import Wrapped, parts_of
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor


def two(rows=64, width=32):
    torch.manual_seed(2)
    return TwoTensor(torch.randn(rows, width), torch.randn(rows, width))


def test_parts_are_joined_as_they_were():
    tensor = two()
    assert [part is held for part, held in zip(parts_of(tensor), (tensor.a, tensor.b), strict=True)] == [True, True]
    again = Wrapped(tensor, lambda part: part.clone()).joined(lambda part: part)
    assert type(again) is TwoTensor and torch.equal(again.a, tensor.a) and torch.equal(again.b, tensor.b)
    plain = torch.ones(3)
    assert parts_of(plain) == [plain]


class Twice(nn.Module):
    """Its parameter and all that it makes are made of two tensors."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(TwoTensor(torch.ones(32), torch.full((32,), 2.0)))

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(x * self.scale) * torch.sigmoid(x)
        return x.sum()


@pytest.mark.parametrize("how", ["recorded", "measured"])
def test_a_step_on_parts_trains_bit_for_bit(how):
    def train(plan=None):
        model, x, seen = Twice(), two(512), []
        session = None if plan is None else tidemark.session(plan, model)
        with session or contextlib.nullcontext():
            for _ in range(3):
                loss = model(x)
                loss.backward()
                seen += [*parts_of(loss.detach()), *(part.clone() for part in parts_of(model.scale.grad))]
        return seen, session

    graph = tidemark.capture(Twice(), (two(512),), **{how: True})
    made = [call.func for op in graph.ops for call in op.calls]
    assert made.count("aten.tanh.default") == 8  # of four calls on two parts
    plain, _ = train()
    planned, session = train(random_plan(graph, 1, share=0.8))
    assert all(torch.equal(a, b) for a, b in zip(planned, plain, strict=True))
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0
