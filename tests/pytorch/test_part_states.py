"""What runs in parts and is recomputed in backward draws the numbers of forward, and runs in its types."""

import contextlib

import dropless
import pytest
import tidemark
import torch
from test_loads import quick_plan
from tidemark.chunking import _parts, _places
from torch import nn

CHUNKS, TOKENS, WIDTH, EXPERTS = 3, 24, 4, 3


class NoisyGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        torch.rand(3)
        return grad


class DrawsInBackward(nn.Module):
    def forward(self, x):
        return NoisyGradient.apply(x)


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.seen = []  # types that it has run in

    def forward(self, x):
        wide = self.wide(x)
        self.seen.append(wide.dtype)
        return self.narrow(nn.functional.dropout(wide.tanh(), 0.5, self.training))


def layer_and_inputs(dtype=torch.double, chunks=CHUNKS):
    torch.manual_seed(2)
    layer = tidemark.DroplessExperts([Expert() for _ in range(EXPERTS)], agree=lambda _: chunks).to(dtype)
    tokens = torch.randn(TOKENS, WIDTH, dtype=dtype, requires_grad=True)
    weights = torch.rand(TOKENS, 2, dtype=dtype, requires_grad=True)
    chosen = torch.stack([torch.randperm(EXPERTS)[:2] for _ in range(TOKENS)])
    return layer, tokens, chosen, weights


def kept(layer, tokens, chosen, weights):
    """The same parts in the same order, and autograd keeps all that it needs of them."""
    order = chosen.reshape(-1).argsort(stable=True)
    counts = torch.bincount(chosen.reshape(-1), minlength=EXPERTS).tolist()
    combined = torch.zeros_like(tokens)
    for number, first, last in _parts(counts, CHUNKS):
        where, at = _places(order, first, last, weights)
        share = weights.reshape(-1).index_select(0, where)[:, None]
        combined = combined.index_add(0, at, layer.experts[number](tokens.index_select(0, at)) * share)
    return combined


def gradients(run, layer, tokens, chosen, weights):
    """Of one forward and backward, and the random state before backward and after."""
    torch.manual_seed(7)
    loss = run(tokens, chosen, weights).square().sum()
    before = torch.get_rng_state()
    made = torch.autograd.grad(loss, [tokens, weights, *layer.parameters()])
    return [loss.detach(), *made], before, torch.get_rng_state()


def all_close(a, b, **tolerance):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, **tolerance)


def test_gradients_with_dropout_are_those_of_the_parts_that_autograd_keeps():
    layer, *inputs = layer_and_inputs()
    made, before, after = gradients(layer, layer, *inputs)
    expected, *states = gradients(lambda *given: kept(layer, *given), layer, *inputs)
    all_close(made, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(before, states[0]) and torch.equal(after, states[1])
    assert torch.equal(before, after)  # what comes next draws as if nothing had been recomputed


def test_gradients_with_dropout_are_finite_differences():
    layer, tokens, chosen, weights = layer_and_inputs()

    def run(tokens, weights):
        torch.manual_seed(7)
        return layer(tokens, chosen, weights)

    assert torch.autograd.gradcheck(run, (tokens, weights), fast_mode=True)


def test_what_backward_itself_draws_is_drawn_from_the_callers_generator():
    layer, *inputs = layer_and_inputs()
    layer.experts = nn.ModuleList(nn.Sequential(expert, DrawsInBackward()) for expert in layer.experts)
    _, before, after = gradients(layer, layer, *inputs)
    _, *states = gradients(lambda *given: kept(layer, *given), layer, *inputs)
    assert torch.equal(before, states[0]) and torch.equal(after, states[1])
    assert not torch.equal(before, after)


def test_backward_through_a_retained_graph_draws_the_same_once_more():
    layer, tokens, chosen, weights = layer_and_inputs()
    loss = layer(tokens, chosen, weights).square().sum()
    wanted = [tokens, weights, *layer.parameters()]
    first = torch.autograd.grad(loss, wanted, retain_graph=True)
    torch.rand(100)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(loss, wanted), strict=True))


def autocast(is_on):
    return torch.autocast("cpu", torch.bfloat16) if is_on else contextlib.nullcontext()


@pytest.mark.parametrize("in_forward", [True, False])
@pytest.mark.parametrize("in_backward", [True, False])
def test_backward_runs_in_the_types_of_forward(in_forward, in_backward):
    """In an autocast region of its own, in another's, in none."""

    def run(chunks):
        layer, tokens, chosen, weights = layer_and_inputs(torch.float32, chunks)
        layer.eval()
        with autocast(in_forward):
            loss = layer(tokens, chosen, weights).square().sum()
        with autocast(in_backward):
            made = torch.autograd.grad(loss, [tokens, weights, *layer.parameters()])
        return made, {dtype for expert in layer.experts for dtype in expert.seen}, len(layer.experts[0].seen)

    made, types, calls = run(CHUNKS)
    assert types == {torch.bfloat16 if in_forward else torch.float32} and calls == 2 * CHUNKS
    all_close(made, run(1)[0], rtol=5e-2, atol=5e-2)


def test_a_region_around_all_loses_no_gradient():
    """The cache of autocast has what forward cast without a gradient: for backward, and for other calls of the layer."""

    def run(chunks):
        layer, *inputs = layer_and_inputs(torch.float32)
        layer.eval()
        layer.agree = lambda _: next(chunks)
        with autocast(True):
            loss = (layer(*inputs) + layer(*inputs)).square().sum()
            loss.backward()
        return [p.grad for p in layer.parameters()]

    expected = run(iter((1, 1)))
    for chunks in ((CHUNKS, 1), (1, CHUNKS), (CHUNKS, CHUNKS)):
        all_close(run(iter(chunks)), expected, rtol=5e-2, atol=5e-2)


def test_parts_between_which_nothing_is_drawn_share_their_state():
    states, drawn = tidemark.PartStates("cpu"), {}
    for part in ("first", "second", "third"):
        with states.saved(part):
            drawn[part] = torch.rand(2) if part == "second" else None
    assert states._random["first"][0] is states._random["second"][0]
    assert states._random["third"] != states._random["second"]
    with states.restored("second"):
        assert torch.equal(torch.rand(2), drawn["second"])


def test_dropout_in_a_session_whose_layers_run_in_chunks():
    asked = []

    def experts(agree):
        return lambda made: tidemark.DroplessExperts([nn.Sequential(e, nn.Dropout(0.2)) for e in made], agree)

    def train(agree, context):
        model = dropless.build(experts(agree))
        torch.manual_seed(3)
        session = context(model)
        return dropless.train(model, session), [p.detach() for p in model.parameters()], session

    plan = quick_plan(dropless.captured(experts(None)), 0.65)
    planned = train(lambda n: asked.append(n) or n, lambda model: tidemark.session(plan, model, replan=False))
    again = iter(asked)
    plain = train(lambda _: next(again), lambda _: contextlib.nullcontext())
    assert max(asked) > 1 and planned[2].rungs()["chunks"] > 0
    assert planned[0] == plain[0] and all(torch.equal(a, b) for a, b in zip(planned[1], plain[1], strict=True))
    assert planned[2].report().measured_reserved_bytes <= plan.budget_bytes


@pytest.mark.parametrize("chunks", [1, CHUNKS])
def test_tokens_may_be_of_another_type_than_what_experts_make(chunks):
    layer, tokens, chosen, weights = layer_and_inputs(torch.float, chunks)
    layer.eval()
    half = tokens.detach().bfloat16().requires_grad_()
    with autocast(True):
        out = layer(half, chosen, weights)
    assert out.dtype == half.dtype
    made = torch.autograd.grad(out.float().square().sum(), [half, weights, *layer.parameters()])
    assert [g.dtype for g in made] == [half.dtype, *[torch.float] * (len(made) - 1)]
    exact = layer(tokens, chosen, weights).square().sum()
    all_close([g.float() for g in made], torch.autograd.grad(exact, [tokens, weights, *layer.parameters()]), rtol=0.1, atol=0.1)


def test_chunks_say_that_they_cannot_be_differentiated_twice():
    layer, tokens, chosen, weights = layer_and_inputs()
    (first,) = torch.autograd.grad(layer(tokens, chosen, weights).square().sum(), [tokens], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
