"""A step that is captured by running it once."""

import collections

import pytest
import tidemark
import torch
from data_models import DATA_MODELS
from models import MODELS, transformer
from random_plans import random_plan
from tidemark.graph import HostLink
from torch import nn
from training import same, train


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def kernels_of(graph):
    return [(op.phase, op.module, call.func) for op in graph.ops for call in op.calls]


def made(graph):
    """Bytes and role of storages by where they were made."""
    return collections.Counter((s.role, s.module, s.bytes) for s in graph.storages)


@pytest.mark.parametrize("name", MODELS)
def test_is_the_step_that_fake_tensors_show(name):
    captured = []
    for arguments in ({"measured": True}, {"recorded": True}):
        model, inputs, loss_fn = MODELS[name]()
        captured.append(tidemark.capture(model, inputs, loss_fn, optimizer=adamw(model), **arguments))
    fake, real = captured
    assert kernels_of(real) == kernels_of(fake)
    assert made(real) == made(fake)
    assert [(s.site, s.bytes) for s in real.saves] == [(s.site, s.bytes) for s in fake.saves]
    assert real.keep_all_peak_bytes() == fake.keep_all_peak_bytes()
    assert real.knows_requests and fake.knows_requests


@pytest.mark.parametrize("name", [*MODELS, *DATA_MODELS])
def test_leaves_all_as_it_was(name):
    model, inputs, loss_fn = (MODELS | DATA_MODELS)[name]()
    loss_fn(model(*inputs)).backward()
    optimizer = adamw(model)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    gradients = [p.grad for p in model.parameters()]
    values = [None if g is None else g.clone() for g in gradients]
    attributes = [set(module.__dict__) for module in model.modules()]
    random = torch.get_rng_state()
    tidemark.capture(model, inputs, loss_fn, optimizer=optimizer, recorded=True)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
    assert all(g is None or torch.equal(g, v) for g, v in zip(gradients, values, strict=True))
    assert [set(module.__dict__) for module in model.modules()] == attributes
    assert torch.equal(torch.get_rng_state(), random)
    assert not optimizer.state


@pytest.mark.parametrize("name", DATA_MODELS)
@pytest.mark.parametrize("link", [None, HostLink(1e12, 1e12, 0)])
def test_steps_that_depend_on_data_train_bit_for_bit(name, link):
    build = DATA_MODELS[name]
    model, inputs, loss_fn = build()
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=adamw(model), recorded=True)
    for seed in range(3):
        plan = random_plan(graph, seed, share=0.9, link=link)
        sessions = []

        def context(model, plan=plan, sessions=sessions):
            sessions.append(tidemark.session(plan, model))
            return sessions[0]

        assert same(train(build, context, steps=1), train(build, steps=1))
        counters = sessions[0].counters
        assert counters.recomputed + counters.swapped > 0
        assert counters.off_plan == 0


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


@pytest.mark.parametrize("layers", [4, 16])
def test_needs_no_more_than_a_few_layers_of_memory(layers):
    """Saved activations wait on the host, so that what capture takes does not grow with the depth."""
    rows, width = 2048, 32
    model = nn.Sequential(*[Layer(width) for _ in range(layers)])
    x = torch.randn(rows, width)
    standing = tidemark.allocator.statistics().allocated_bytes
    tidemark.allocator.reset_peaks()
    graph = tidemark.capture(model, (x,), lambda out: out.square().mean(), recorded=True)
    peak = tidemark.allocator.statistics().allocated_peak_bytes - standing
    gradients = sum(p.numel() * 4 for p in model.parameters())
    layer = rows * width * 4 * (1 + 4 + 4 + 1)  # what a layer makes
    assert peak < gradients + 2 * layer + 2**20
    assert graph.keep_all_peak_bytes() > layers * layer / 2


def test_a_limit_that_training_would_break_is_enough_to_capture():
    model, inputs, loss_fn = transformer(layers=8)
    keep = tidemark.capture(model, inputs, loss_fn).keep_all_peak_bytes()
    held = tidemark.allocator.statistics().allocated_bytes
    with tidemark.allocator.budget(held + keep // 2):
        graph = tidemark.capture(model, inputs, loss_fn, recorded=True)
    assert graph.keep_all_peak_bytes() >= keep


def test_what_a_kernel_asks_for_beside_its_results_is_seen():
    """The workspaces of an LSTM cannot be measured on made-up values."""
    model, inputs, loss_fn = DATA_MODELS["recurrent"]()
    graph = tidemark.capture(model, inputs, loss_fn, recorded=True)
    opaque = [op for op in graph.ops if "mkldnn_rnn_layer" in op.name]
    assert opaque and graph.knows_requests
    assert any(op.transient_bytes > 0 for op in opaque)


def test_a_step_without_contents_cannot_be_recorded():
    model, inputs, loss_fn = transformer()
    with pytest.raises(tidemark.CaptureError, match="meta device.*without recorded=True"):
        tidemark.capture(model.to("meta"), inputs, loss_fn, recorded=True)
    model, inputs, loss_fn = transformer()
    with pytest.raises(tidemark.CaptureError, match="give bounds to a capture without recorded=True"):
        tidemark.capture(model, inputs, loss_fn, recorded=True, bounds={"*": tidemark.Rows(4)})
