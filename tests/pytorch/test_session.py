"""Whatever a plan gives up and whenever: losses and gradients do not change by a bit."""

import contextlib
import gc
import os
import warnings

import pytest
import tidemark
import torch
from random_plans import random_plan, swapped
from torch import nn
from torch.utils.checkpoint import checkpoint
from training import gradients_in_flight, same, train

from models import MODELS, transformer


def session_of(plan):
    return lambda model: tidemark.session(plan, model)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", MODELS)
def test_random_plans_change_nothing(name, seed):
    build = MODELS[name]
    graph = tidemark.capture(*build())
    plan = random_plan(graph, seed)
    held = []

    def context(model):
        held.append(tidemark.session(plan, model))
        return held[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(train(build, context), train(build))
    assert held[0].counters.off_plan == 0
    repeated = len(plan.schedule) - len(graph.ops)
    assert held[0].counters.recomputed <= 3 * repeated and (held[0].counters.recomputed > 0) == (repeated > 0)


class LooksTwice(torch.autograd.Function):
    """Each look at ctx.saved_tensors unpacks all of them."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x) * w

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0]
        into_x = gradient * ctx.saved_tensors[1] * (1 - torch.tanh(x) ** 2)
        return into_x, (gradient * torch.tanh(ctx.saved_tensors[0])).sum(0)


class TwiceLooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.Parameter(torch.randn(64))
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return LooksTwice.apply(self.linear(x) * 2.0, self.scales)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("plan_of", [random_plan, swapped])
def test_backward_may_look_more_than_once(plan_of, seed):
    def build():
        torch.manual_seed(0)
        model = nn.Sequential(*(TwiceLooked() for _ in range(4)))
        return model, (torch.randn(256, 64),), lambda out: out.square().mean()

    graph = tidemark.capture(*build())
    plan = plan_of(graph, seed)
    assert same(train(build, session_of(plan)), train(build))


@pytest.mark.parametrize("seed", range(3))
def test_several_micro_batches_and_evaluation_between_steps(seed):
    graph = tidemark.capture(*transformer(), micro_batches=2)
    plan = random_plan(graph, seed, share=0.9)
    with_plan = train(transformer, session_of(plan), micro_batches=2, evaluate=True)
    assert same(with_plan, train(transformer, micro_batches=2, evaluate=True))


def test_micro_batches_in_flight():
    built = transformer()
    graph = tidemark.capture(*built)
    plan = random_plan(graph, 0, share=1.0)
    assert len(plan.schedule) > len(graph.ops)
    plain = gradients_in_flight(built, contextlib.nullcontext())
    assert same(gradients_in_flight(built, tidemark.session(plan)), plain)


class Normed(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = nn.functional.gelu(torch.sin(self.up(self.norm(x + 1))))
        return x + nn.functional.dropout(torch.tanh(self.down(h) * self.scale), 0.1)


def normed():
    """Its plans recompute the norms, which have three outputs each, once more for two of these alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Tanh(), *[Normed() for _ in range(4)], nn.Linear(32, 8))
    return model, (torch.randn(128, 32),), lambda out: out.square().mean()


@pytest.mark.parametrize(("build", "seed"), [(lambda: transformer(dropout=0.0), 3), (normed, 0), (normed, 1)])
def test_backward_twice_through_one_graph(build, seed):
    model, inputs, loss_fn = build()
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), seed, share=1.0)

    def gradients(times, context):
        model.zero_grad()
        torch.manual_seed(5)
        with context:
            loss = loss_fn(model(*inputs))
            for i in range(times):
                loss.backward(retain_graph=i + 1 < times)
        return [p.grad.clone() for p in model.parameters()]

    assert same(gradients(2, tidemark.session(plan)), gradients(2, contextlib.nullcontext()))


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("at", [0, 1])
def test_a_forward_without_backward_is_none_of_the_steps(at, kept):
    """Of a validation with gradients, or a loss that is thrown away; `kept`: the loop holds it over."""
    built = transformer(dropout=0.0)
    plan = random_plan(tidemark.capture(*built, micro_batches=2), 0, share=1.0)

    def gradients(context):
        model, inputs, loss_fn = built
        model.zero_grad()
        numbers = []
        with context as session:
            for _ in range(3):
                for i in range(2):
                    if i == at:
                        thrown_away = loss_fn(model(*inputs))
                        if not kept:
                            del thrown_away
                    loss = loss_fn(model(*inputs))
                    if session is not None:
                        numbers.append(session._follower.frames.micro_batch)
                    loss.backward()
        return [p.grad.clone() for p in model.parameters()], numbers

    planned, numbers = gradients(tidemark.session(plan))
    assert same(planned, gradients(contextlib.nullcontext())[0])
    assert numbers == [0, 1] * 3


def test_an_exception_in_the_middle_leaves_nothing_behind():
    model, inputs, loss_fn = transformer()
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 0, share=1.0)

    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    with tidemark.session(plan):
        handle = model[1].register_forward_hook(interrupt)
        with pytest.raises(Interrupt):
            model(*inputs)
        handle.remove()
        broken = model[0].linear1.weight.register_hook(interrupt)
        with pytest.raises(Interrupt):
            loss_fn(model(*inputs)).backward()
        broken.remove()
        model.zero_grad()
        torch.manual_seed(3)
        loss_fn(model(*inputs)).backward()
        planned = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.manual_seed(3)
    loss_fn(model(*inputs)).backward()
    assert same(planned, [p.grad for p in model.parameters()])


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers = transformer()[0]
        self.reentrant = reentrant

    def forward(self, x):
        x = self.layers[0](x)
        x = checkpoint(self.layers[1], x, use_reentrant=self.reentrant)
        return self.layers[2](x)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_inside_the_model(reentrant, seed):
    def checkpointed():
        torch.manual_seed(0)
        return Checkpointed(reentrant), (torch.randn(4, 16, 32),), lambda out: out.square().mean()

    plan = random_plan(tidemark.capture(*checkpointed()), seed, share=0.9)
    assert same(train(checkpointed, session_of(plan)), train(checkpointed))


def test_an_optimizer_that_steps_during_backward():
    """Each parameter is stepped as soon as its gradient is there, and plans go on being followed."""
    model, inputs, loss_fn = transformer()
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 0, share=1.0)

    def run(context):
        model, inputs, loss_fn = transformer()
        torch.manual_seed(4)
        losses = []
        steppers = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

        def step(p):
            steppers[p].step()
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        with context(model) as session:
            for _ in range(3):
                loss = loss_fn(model(*inputs))
                loss.backward()
                losses.append(loss.detach())
        return losses, session

    planned, session = run(session_of(plan))
    assert same(planned, run(lambda _: contextlib.nullcontext())[0])
    assert session.counters.recomputed == 3 * (len(plan.schedule) - len(plan.graph.ops))


def autocast_transformer():
    model, inputs, loss_fn = transformer()

    class Autocast(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.model(x).float()

    return Autocast(), inputs, loss_fn


@pytest.mark.parametrize("seed", range(3))
def test_autocast(seed):
    plan = random_plan(tidemark.capture(*autocast_transformer()), seed, share=0.9)
    assert same(train(autocast_transformer, session_of(plan)), train(autocast_transformer))


class Wandering(nn.Module):
    """Now and then another way through the model."""

    def __init__(self):
        super().__init__()
        self.layers = transformer()[0]
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        x = self.layers[0](x)
        if self.steps % 2 == 0:
            x = torch.sin(x) * 2
            x = self.layers[1](x)
        return self.layers[2](torch.tanh(x))


def wandering():
    torch.manual_seed(0)
    return Wandering(), (torch.randn(4, 16, 32),), lambda out: out.square().mean()


@pytest.mark.parametrize("seed", range(4))
def test_departures_are_safe_and_said_once(seed):
    plan = random_plan(tidemark.capture(*wandering()), seed, share=1.0)
    with pytest.warns(UserWarning, match="tidemark: in module") as warned:
        planned = train(wandering, session_of(plan), steps=5)
    assert len(warned) == 1
    assert same(planned, train(wandering, steps=5))


def test_other_shapes_than_captured():
    graph = tidemark.capture(*transformer())
    plan = random_plan(graph, 0, share=1.0)

    def longer():
        model, _, loss_fn = transformer()
        return model, (torch.randn(3, 23, 32, generator=torch.Generator().manual_seed(5)),), loss_fn

    assert same(train(longer, session_of(plan)), train(longer))


def test_a_plan_that_keeps_everything_touches_nothing():
    model, inputs, loss_fn = transformer()
    graph = tidemark.capture(model, inputs, loss_fn)
    plan = random_plan(graph, 0, share=0.0)
    with tidemark.session(plan):
        assert torch._C._len_torch_dispatch_stack() == 0
        assert not torch.nn.modules.module._global_forward_hooks
        loss = loss_fn(model(*inputs))
        assert loss.grad_fn.next_functions[0][0]._saved_self is not None  # by autograd itself: there are no hooks


def test_wrong_use_is_said_in_one_sentence():
    model, inputs, loss_fn = transformer()
    plan = random_plan(tidemark.capture(model, inputs, loss_fn), 0, share=1.0)
    with pytest.raises(tidemark.SessionError, match="the plan is for Sequential"):
        tidemark.session(plan, nn.Linear(2, 2))
    with torch.device("meta"):
        elsewhere = transformer()[0]
    with pytest.raises(tidemark.SessionError, match="the plan is for 'cpu' and the model is on 'meta'"):
        tidemark.session(plan, elsewhere)
    with tidemark.session(plan), pytest.raises(tidemark.SessionError, match="active already"):
        tidemark.session(plan).__enter__()
    with tidemark.session(plan):
        child = os.fork()
        if child == 0:
            try:
                model(*inputs)
            except tidemark.SessionError as error:
                os._exit(0 if "another process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    del model
    gc.collect()
    with pytest.raises(tidemark.SessionError, match="is gone"):
        tidemark.session(plan)
