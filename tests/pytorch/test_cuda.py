"""Sessions on a GPU, on Tidemark's allocator: bit for bit the training without one, at planned addresses, within the
budget, with copies on streams of their own. Skipped where there is no GPU."""

import contextlib

import captured_layers
import model as example  # of examples/mla_moe
import on_gpu
import pytest
import tidemark
import torch
from random_plans import random_plan, swapped
from torch import nn
from training import gradients_in_flight, same, train

from models import MODELS

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

on_gpu.kind_or_skip()


@pytest.fixture(scope="module", autouse=True)
def on_the_gpu():
    yield from on_gpu.reproducibly("cuda")


def wide():
    """Kernels of some 100 us, so that copies have something to run beside."""
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(512, 8, 2048, 0.1, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers), (torch.randn(16, 256, 512),), lambda out: out.square().mean()


def peak_of(context, steps=3, counts=None):
    """Bytes that are allocated at most, above what was there before the model."""
    before = tidemark.memory_allocated()
    model, inputs, loss_fn = wide()
    stepper = torch.optim.AdamW(model.parameters())
    with context(model) as session:
        for step in range(steps):
            if step == 1:  # the first makes the optimizer's state
                tidemark.reset_peak_memory_stats()
            loss_fn(model(*inputs)).backward()
            stepper.step()
            stepper.zero_grad()
            if counts is not None:
                counts.append(session.counters.copies)
        torch.cuda.synchronize()
    return tidemark.max_memory_allocated() - before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_plans_change_nothing(name, seed):
    build, sessions = MODELS[name], []
    plan = swapped(tidemark.capture(*build(), measured=seed % 2 == 1), seed)

    def context(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    for ways in ({}, {"micro_batches": 2}, {"evaluate": True}):
        assert same(train(build, **ways), train(build, **ways)), "kernels are not the same every time"
        assert same(train(build, context, **ways), train(build, **ways))
    assert sessions[0].counters.off_plan == 0
    assert sessions[0].counters.swapped >= len(plan.swaps) > 0 or name == "tied"
    built = build()
    got = gradients_in_flight(built, tidemark.session(plan, built[0]))
    built = build()
    assert same(got, gradients_in_flight(built, contextlib.nullcontext()))


@pytest.mark.parametrize("share", [1.0, 0.7, 0.5])
def test_a_measured_step_stands_where_it_is_planned_and_within_its_budget(share):
    everything = peak_of(lambda _: contextlib.nullcontext())  # what libraries keep from their first use on is no part
    everything = peak_of(lambda _: contextlib.nullcontext())
    model, inputs, loss_fn = wide()
    graph = tidemark.capture(
        model, inputs, loss_fn, optimizer=torch.optim.AdamW(model.parameters()), measured=True, holds_output=False
    )
    assert graph.host_link.out_bytes_per_s > 1e9 and graph.host_link.in_bytes_per_s > 1e9
    assert 0.99 * everything <= graph.keep_all_peak_bytes() <= 1.03 * everything
    plan = tidemark.plan(graph, int(share * graph.keep_all_peak_bytes()) + (32 << 20))
    del model, inputs
    sessions = []

    def context(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    counts = []
    peak = peak_of(context, counts=counts)
    served, elsewhere = (counts[-1][k] - counts[0][k] for k in ("requests_planned", "requests_unplanned"))
    print(f"share {share}: measured {peak} of {plan.peak_bytes} planned; {sessions[0].report()}")
    assert peak <= plan.budget_bytes
    assert 0.97 * plan.peak_bytes <= peak <= 1.01 * plan.peak_bytes
    assert served >= 0.99 * (served + elsewhere)
    assert same(train(wide, context), train(wide))


def test_attention_may_run_again():
    """Its generator's state lies in host memory."""
    graph = tidemark.capture(*wide())
    graph.host_link = None
    plan, sessions = random_plan(graph, 0, share=1.0), []
    again = {graph.ops[i].name for i in plan.schedule if plan.schedule.count(i) > 1}
    assert any("attention" in name for name in again), again

    def context(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    assert same(train(wide, context), train(wide))
    assert sessions[0].counters.off_plan == 0


def test_counts_that_a_router_reads_are_no_departure():
    """They are copied to host memory, which capture does not see."""
    torch.manual_seed(0)
    config = example.Config(hidden=256, layers=2, heads=8, kv_rank=96, query_rank=128, dense_hidden=512)
    tokens = torch.randint(0, config.vocabulary, (4, 64))

    def build():
        torch.manual_seed(0)
        return example.Decoder(config), (tokens,), lambda out: example.loss_of(out, tokens)

    bounds, sessions = example.routed_rows(config, 4, 64), []
    plan = swapped(tidemark.capture(*build(), bounds=bounds), 0)

    def context(model):
        sessions.append(tidemark.session(plan, model))
        return sessions[-1]

    assert same(train(build, context), train(build))
    assert sessions[0].counters.off_plan == 0
    assert sessions[0].counters.swapped > 0


def test_measuring_leaves_random_generators_as_they_were():
    build = MODELS["transformer"]
    model, inputs, loss_fn = build()
    torch.manual_seed(5)
    tidemark.capture(model, inputs, loss_fn, measured=True)
    drawn = torch.rand(4), torch.rand(4, device="cpu")
    torch.manual_seed(5)
    assert torch.equal(drawn[0], torch.rand(4)) and torch.equal(drawn[1], torch.rand(4, device="cpu"))


def test_chunks_of_a_layer_draw_in_backward_what_they_drew_in_forward():
    torch.manual_seed(2)
    experts = [nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64)) for _ in range(4)]
    layer = tidemark.DroplessExperts(experts, agree=lambda _: 3).double()
    tokens = torch.randn(256, 64, dtype=torch.double, requires_grad=True)
    chosen, weights = torch.arange(256)[:, None] % 4, torch.ones(256, 1, dtype=torch.double)

    def loss_of(tokens):
        torch.manual_seed(5)
        return layer(tokens, chosen, weights).square().sum()

    loss = loss_of(tokens)
    of_gpu, of_cpu = torch.cuda.get_rng_state(), torch.get_rng_state()
    (gradient,) = torch.autograd.grad(loss, [tokens])
    assert torch.equal(torch.cuda.get_rng_state(), of_gpu) and torch.equal(torch.get_rng_state(), of_cpu)
    with torch.no_grad():  # a finite difference along the gradient
        change = loss_of(tokens + 1e-6 * gradient) - loss_of(tokens - 1e-6 * gradient)
    torch.testing.assert_close(change / 2e-6, gradient.square().sum(), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("spare", [0, "16MiB"])
def test_captured_graphs_follow_the_memory_behind_their_addresses(spare):
    tensors, pieces = captured_layers.layer_tensors(), captured_layers.PIECES
    wanted, norms = captured_layers.train_plainly(3)
    with pytest.raises(tidemark.InfeasibleError) as refused:
        tidemark.CapturedPieces(tensors, pieces, device="cuda", budget=1, spare=spare)
    captured = tidemark.CapturedPieces(tensors, pieces, "cuda", refused.value.smallest_bytes, spare)
    kernels = captured_layers.capture_layers({name: captured[name] for name in tensors})
    captured_layers.fill(captured)
    for piece in captured.step():  # warms up: libraries take their workspaces
        captured_layers.replay(kernels[piece])
    graphs = [torch.cuda.CUDAGraph() for _ in kernels]
    for graph, piece in zip(graphs, kernels, strict=True):
        with torch.cuda.graph(graph):
            captured_layers.replay(piece)
            with pytest.raises(tidemark.SessionError, match="while the current stream is captured"):
                captured.before(0)
    captured_layers.fill(captured)
    assert captured_layers.train(captured, [graph.replay for graph in graphs], 3) == norms
    for name, tensor in wanted.items():
        assert torch.equal(captured.content(name).cpu(), tensor), name
    assert captured.figures().moved_granules > 0
