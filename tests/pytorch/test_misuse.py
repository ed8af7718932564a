"""What a loop does around a session that is not as the plan expects: it works as without a session, or is refused in
one sentence, and either way nothing stays behind."""

import contextlib
import gc
import os
import threading
import weakref

import pytest
import tidemark
import torch
from random_plans import random_plan, swapped
from tidemark import engine, loop_phases, plan_follower
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from training import forks_after_capture, same

from models import transformer


def mean_square(out):
    return out.square().mean()


def recomputing(graph):
    return random_plan(graph, 0, share=1.0)


def swapping(graph):
    return swapped(graph, 0)


PLANS = {"recompute": recomputing, "swap": swapping}


def planned_transformer(plan_of=recomputing):
    model, inputs, loss_fn = transformer()
    return model, inputs, loss_fn, plan_of(tidemark.capture(model, inputs, loss_fn))


def gradients(model, context, inputs, loss_fn=mean_square):
    model.zero_grad()
    torch.manual_seed(6)
    with context:
        loss_fn(model(*inputs)).backward()
    return [p.grad.clone() for p in model.parameters()]


def works(model, inputs, loss_fn, plan):
    """A session as ever, after whatever went before."""
    return same(
        gradients(model, tidemark.session(plan, model), inputs, loss_fn),
        gradients(model, contextlib.nullcontext(), inputs, loss_fn),
    )


class Scaled(nn.Module):
    """Autograd saves the scale as it is: a leaf that no kernel made."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.full((32,), 2.0))

    def forward(self, x):
        return self.linear(torch.tanh(torch.sin(x + 1))).mul(1) * self.scale


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_a_saved_parameter_that_is_changed_before_backward_is_refused(plan_of):
    torch.manual_seed(0)
    model, x = Scaled(), torch.randn(512, 32)
    plan = plan_of(tidemark.capture(model, (x,), mean_square))
    assert not plan.keeps_all
    with tidemark.session(plan, model):
        loss = mean_square(model(x))
        with torch.no_grad():
            model.scale.mul_(5)
        with pytest.raises(RuntimeError, match="modified in place"):
            loss.backward()
    assert works(model, (x,), mean_square, plan)


class Adding(nn.Module):
    """The same kernels whatever `other` is."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.other = torch.eye(256)

    def forward(self, x):
        return torch.sin(torch.tanh(torch.mm(self.other, self.linear(x))))


class Multiplied(nn.Module):
    """`other` times itself is sparse where `other` is, and saved for the gradient of the scale."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.ones(()))
        self.other = torch.eye(256)

    def forward(self, x):
        product = torch.mul(self.other, self.other)
        return torch.tanh(torch.mm(product, self.linear(x))) * self.scale


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("build", [Adding, Multiplied])
def test_sparse_tensors_where_dense_ones_were_captured(build, plan_of):
    torch.manual_seed(0)
    model, x = build(), torch.randn(256, 32)
    plan = plan_of(tidemark.capture(model, (x,), mean_square))
    assert not plan.keeps_all
    model.other = model.other.to_sparse()
    assert works(model, (x,), mean_square, plan)


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_tensors_with_kernels_in_python(plan_of):
    """A subclass's kernels are called as without a session, and what autograd saves of it is it."""
    model, (x,), loss_fn, plan = planned_transformer(plan_of)
    pair = (TwoTensor(x, x.clone()),)

    def both(context):
        model.zero_grad()
        torch.manual_seed(6)
        with context:
            loss_fn(model(*pair)).backward()
        return [half for p in model.parameters() for half in (p.grad.a.clone(), p.grad.b.clone())]

    assert same(both(tidemark.session(plan, model)), both(contextlib.nullcontext()))


class MakesSparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return torch.sparse.mm(torch.eye(8).to_sparse(), self.linear(x))


class HoldsSparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.other = torch.eye(256).to_sparse()

    def forward(self, x):
        return torch.sparse.mm(self.other, self.linear(x))


@pytest.mark.parametrize("build", [MakesSparse, HoldsSparse])
def test_a_sparse_tensor_is_not_captured(build):
    with pytest.raises(tidemark.CaptureError, match="sparse"):
        tidemark.capture(build(), (torch.randn(8, 32),), mean_square)


def test_what_the_model_keeps_of_a_forward_does_not_keep_the_model():
    class Remembering(nn.Sequential):
        def forward(self, x):
            out = super().forward(x)
            self.auxiliary = out.square().mean()
            return out

    inner, inputs, loss_fn = transformer()
    model = Remembering(*inner)
    plan = recomputing(tidemark.capture(model, inputs, loss_fn))
    with tidemark.session(plan, model):
        (loss_fn(model(*inputs)) + model.auxiliary).backward()
        model(*inputs)
    gone = weakref.ref(model)
    del model, plan
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "part, broken",
    [
        *((plan_follower, broken) for broken in ("make_steps", "make_engine", "ModuleFrames")),
        (loop_phases, "register_optimizer_step_post_hook"),
    ],
)
def test_a_session_that_cannot_begin_leaves_nothing_behind(part, broken, monkeypatch):
    model, inputs, loss_fn, plan = planned_transformer()
    limit, backward = tidemark.allocator.statistics().limit_bytes, torch.autograd.backward

    def fail(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(part, broken, fail)
        plan.budget_bytes = 2**34
        with pytest.raises(ZeroDivisionError), tidemark.session(plan, model):
            pass
    assert tidemark.allocator.statistics().limit_bytes == limit
    assert torch.autograd.backward is backward
    assert torch._C._len_torch_dispatch_stack() == 0
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert works(model, inputs, loss_fn, plan)


def test_what_fails_on_the_way_out_does_not_keep_the_rest(monkeypatch):
    model, inputs, loss_fn, plan = planned_transformer()

    def fail(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError), tidemark.session(plan, model):
        loss_fn(model(*inputs)).backward()
        patch.setattr(tidemark.allocator, "set_limit", fail)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert works(model, inputs, loss_fn, plan)


def test_a_session_is_left_in_the_thread_that_began_it():
    model, inputs, loss_fn, plan = planned_transformer()
    session, said = tidemark.session(plan, model), []

    def leave():
        try:
            session.__exit__(None, None, None)
        except tidemark.SessionError as error:
            said.append(str(error))

    with session:
        other = threading.Thread(target=leave)
        other.start()
        other.join()
        assert "another thread" in said[0]
        loss_fn(model(*inputs)).backward()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert works(model, inputs, loss_fn, plan)


@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_backward_behind_the_session(plan_of):
    model, inputs, loss_fn, plan = planned_transformer(plan_of)
    assert not plan.keeps_all

    def backward(context):
        model.zero_grad()
        torch.manual_seed(6)
        with context:
            loss = loss_fn(model(*inputs))
        loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    assert same(backward(tidemark.session(plan, model)), backward(contextlib.nullcontext()))


def in_a_child(check):
    """What `check` says in a fork of this process, as its exit status."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forks_after_capture
@pytest.mark.parametrize("plan_of", PLANS.values(), ids=PLANS)
def test_a_forked_process_begins_its_own_session(plan_of):
    model, inputs, loss_fn, plan = planned_transformer(plan_of)
    with tidemark.session(plan, model) as session:
        loss_fn(model(*inputs)).backward()
        assert in_a_child(lambda: works(model, inputs, loss_fn, plan)) == 0

        def leaves_the_parents():
            session.__exit__(None, None, None)
            return torch._C._len_torch_dispatch_stack() == 0 and works(model, inputs, loss_fn, plan)

        assert in_a_child(leaves_the_parents) == 0
        before = session.counters.micro_batches
        loss_fn(model(*inputs)).backward()
        assert session.counters.micro_batches == before + 1


def test_another_device_than_the_current_one_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    engine.check_device(torch.device("cuda", 0))
    engine.check_device(torch.device("cuda"))
    with pytest.raises(tidemark.SessionError, match=r"on cuda:1, .* is cuda:0; torch.cuda.set_device\(1\)"):
        engine.check_device(torch.device("cuda", 1))
    with pytest.raises(tidemark.SessionError, match="on 'mps'"):
        engine.check_device(torch.device("mps"))


def test_what_is_no_plan_and_no_model_is_refused():
    model, inputs, loss_fn, plan = planned_transformer()
    with pytest.raises(tidemark.SessionError, match="NoneType is no plan"):
        tidemark.session(None, model)
    with pytest.raises(tidemark.SessionError, match="int is no model"):
        tidemark.session(plan, 3)
    with pytest.raises(tidemark.TidemarkError, match="NoneType is no captured step"):
        tidemark.plan(None, "1GiB")
    for size in (2**70, 2**63, "8388607 TiB", 10**5000):
        with pytest.raises(tidemark.TidemarkError, match="is not a size of 2\\^60 bytes at most"):
            tidemark.plan(plan.graph, size)
    with pytest.raises(tidemark.CaptureError, match="function is no model"):
        tidemark.capture(lambda v: v, inputs, loss_fn)
    with pytest.raises(tidemark.CaptureError, match="the loss of Sequential has no gradient"):
        tidemark.capture(model, inputs, lambda out: loss_fn(out).detach())
    for number in (0, -1, 1.5, "two"):
        with pytest.raises(tidemark.CaptureError, match="micro_batches is"):
            tidemark.capture(model, inputs, loss_fn, micro_batches=number)


def test_what_is_no_micro_batch_is_refused():
    for index in (-1, "a", None, 0.5):
        with pytest.raises(tidemark.SessionError, match="is no number of a micro-batch"):
            tidemark.micro_batch(index)
    with pytest.raises(tidemark.SessionError, match="is no number of a chunk"):
        tidemark.micro_batch(0, "b")
    with tidemark.micro_batch(torch.tensor(1)):
        pass


def test_rates_that_are_none_are_refused():
    for link in ((float("inf"), 1e9), (1e9, float("nan")), ("quick", 1e9)):
        with pytest.raises(tidemark.CaptureError, match="rates are bytes a second"):
            tidemark.HostLink(*link)
    model, _, _, plan = planned_transformer()
    for rate in ("x", -1, float("nan"), True):
        with pytest.raises(tidemark.SessionError, match="copy_bytes_per_s is .*; right would be bytes a second"):
            tidemark.session(plan, model, copy_bytes_per_s=rate)


def test_what_has_no_context_and_no_measures_is_refused():
    model, inputs, loss_fn, plan = planned_transformer()
    with pytest.raises(TypeError, match="autocast is of type int"):
        tidemark.fit(model, inputs, loss_fn, budget="80%", autocast=3)
    with pytest.raises(ValueError, match="measured is of type int"):
        tidemark.picture(plan, measured=3)
