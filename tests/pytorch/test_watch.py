"""The engine's dispatch mode among PyTorch's own: what takes modes off the stack, calls back into Python or outlives it."""

import pytest
import tidemark
import torch
from random_plans import random_plan
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from training import same, train

from models import transformer


class Between(nn.Module):
    """Calls a function with the output of every layer."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner = inner
        self.call = call

    def forward(self, x):
        for layer in self.inner:
            x = self.call(layer(x))
        return x


def build_between(call):
    def build():
        model, inputs, loss_fn = transformer(dropout=0.0)
        return Between(model, call), inputs, loss_fn

    return build


def same_with_plan(call):
    """Against no session; the session has rerun something in every step."""
    graph = tidemark.capture(*build_between(lambda x: x)())
    plan = random_plan(graph, 1, share=0.9)
    held = []

    def context(model):
        held.append(tidemark.session(plan, model))
        return held[0]

    with_plan = train(build_between(call), context)
    assert _get_current_dispatch_mode_stack() == []
    return held[0].counters.recomputed, same(with_plan, train(build_between(call)))


def printed(x):
    assert "grad_fn" in repr(x) or not x.requires_grad
    return x


def test_tensors_may_be_printed():
    recomputed, equal = same_with_plan(printed)
    assert equal and recomputed > 0


def detached_sparse(x):
    eye = torch.eye(x.shape[-1]).to_sparse()
    assert torch.equal(eye.detach().to_dense(), eye.to_dense()) and eye.detach().is_sparse
    return x


def test_sparse_tensors_may_be_detached():
    _, equal = same_with_plan(detached_sparse)
    assert equal


@torch.library.custom_op("tidemark_test::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


halved.register_fake(torch.empty_like)
halved.register_autograd(lambda context, gradient: gradient / 2)


def test_operators_in_python_are_called():
    _, equal = same_with_plan(halved)
    assert equal


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_modes_above_and_beneath_see_kernels():
    model, inputs, loss_fn = transformer(dropout=0.0)
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 1, share=0.9)
    with Counting() as beneath, tidemark.session(plan, model), Counting() as above:
        loss_fn(model(*inputs)).backward()
    assert beneath.calls > 0 and above.calls > 0


def test_a_mode_that_outlives_the_session_leaves_nothing_behind():
    model, inputs, loss_fn = transformer(dropout=0.0)
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 1, share=0.9)
    mode = Counting()
    with tidemark.session(plan, model):
        mode.__enter__()
        loss_fn(model(*inputs)).backward()
    assert _get_current_dispatch_mode_stack() == [mode]
    loss_fn(model(*inputs)).backward()
    mode.__exit__(None, None, None)
    assert _get_current_dispatch_mode_stack() == []
    with tidemark.session(plan, model) as session:
        loss_fn(model(*inputs)).backward()
    assert session.counters.recomputed > 0


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.outer = nn.Linear(32, 32)

    def forward(self, x):
        return self.outer(self.inner(x).sin()).cos()


def test_a_compiled_module_runs_uncompiled_and_is_compiled_again_afterwards():
    compiled = []

    def backend(graph, _inputs):
        compiled.append(1)
        return graph.forward

    x, loss_fn = torch.randn(512, 32), lambda out: out.square().mean()
    for compile_of in (lambda m: torch.compile(m, backend=backend), lambda m: m.compile(backend=backend) or m):
        compiled.clear()
        torch._dynamo.reset()  # what was compiled for one serves the other
        model = nn.Sequential(nn.Tanh(), compile_of(Wave()))
        graph = tidemark.capture(model, (x,), loss_fn)
        with tidemark.session(random_plan(graph, 0, share=1.0), model) as session:
            loss_fn(model(x)).backward()
        assert not compiled and session.counters.recomputed > 0 and session.counters.off_plan == 0
        loss_fn(model(x)).backward()
        assert compiled


def test_torchscript_is_not_captured_and_left_as_it_was():
    model = nn.Sequential(nn.Linear(32, 32), torch.jit.script(nn.Linear(32, 32)))
    x = torch.randn(8, 32)
    with pytest.raises(tidemark.CaptureError, match="module '1' is TorchScript"):
        tidemark.capture(model, (x,), lambda out: out.square().mean())
    model(x).sum().backward()
