"""Compiled regions under capture and session: they stay compiled, and what they save is swapped or made again.

Compilers are slow, so the models are small and few, and what one test compiled the others find.
"""

import contextlib
import shutil

import pytest
import tidemark
import torch
from random_plans import random_plan
from tidemark import regions, torch_internals
from tidemark.graph import HostLink
from torch import nn
from torch.utils.checkpoint import checkpoint
from training import same

pytestmark = [
    pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no compiler for inductor"),
    pytest.mark.skipif(not torch_internals.runs_compiled_under_modes, reason="this PyTorch runs uncompiled under modes"),
]

LINK = HostLink(1e15, 1e15, 0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.wide = nn.Linear(32, 128)
        self.narrow = nn.Linear(128, 32)

    def forward(self, x):
        return x + self.narrow(nn.functional.dropout(nn.functional.gelu(self.wide(self.norm(x))), 0.1))


class Model(nn.Module):
    """Two compiled layers among others."""

    def __init__(self, compiled=True):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.layers = nn.ModuleList([Block(), Block()])
        self.last = nn.Linear(32, 8)
        if compiled:
            for layer in self.layers:
                layer.compile()

    def forward(self, x):
        x = self.first(x).sin()
        for layer in self.layers:
            x = layer(x)
        return self.last(x.tanh())


def loss_of(out):
    return out.square().mean()


@pytest.fixture(scope="module")
def x():
    return torch.randn(2048, 32, generator=torch.Generator().manual_seed(0))


def built(make):
    torch.manual_seed(1)
    return make()


def trained(model, x, context=None, steps=2, loss=loss_of, sizes=None):
    """Losses, gradients and outputs of evaluations."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(2)
    seen = []
    with context or contextlib.nullcontext():
        for rows in sizes or [len(x)] * steps:
            with torch.no_grad():
                seen.append(loss(model(x[:rows])))
            of_step = loss(model(x[:rows]))
            of_step.backward()
            seen += [of_step.detach().clone(), *(p.grad.clone() for p in model.parameters())]
            optimizer.step()
            optimizer.zero_grad()
    return seen


def compilations():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"], torch._dynamo.utils.counters["frames"]["total"]


def regions_of(graph):
    return [op for op in graph.ops if op.name.startswith("tidemark.region")]


def captured(model, x, link=None, loss=loss_of):
    return tidemark.capture(model, (x,), loss, recorded=True, host_link=link)


@pytest.mark.parametrize("link", [None, LINK], ids=["made again", "swapped"])
def test_what_layers_save_is_planned_and_nothing_is_compiled_anew(x, link):
    plain = trained(built(Model), x)
    model = built(Model)
    graph = captured(model, x, link)
    assert graph.compiled == ["layers.0", "layers.1"]
    phases = [op.phase for op in regions_of(graph)]
    assert phases[:2] == ["forward"] * 2 and set(phases[2:]) == {"backward"}
    before = compilations()
    with_plan = tidemark.session(random_plan(graph, 0, share=1.0, link=link), model)
    assert same(trained(model, x, with_plan), plain)
    assert compilations() == before
    counters = with_plan.counters
    assert (counters.swapped if link else counters.recomputed) > 0 and counters.off_plan == 0


def test_the_peak_is_within_the_budget(x):
    before = tidemark.allocator.statistics().allocated_bytes - x.nbytes  # of other tests, in caches of the compiler
    model = built(Model)
    graph = captured(model, x, LINK)
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        tidemark.plan(graph, 1 << 20)
    plan = tidemark.plan(graph, refusal.value.smallest_bytes)
    session = tidemark.session(plan, model)
    trained(model, x, session, steps=3)
    report = session.report()
    assert session.counters.swapped > 0 and report.measured_peak_bytes < plan.keep_all_peak_bytes
    assert 0.97 <= (report.measured_peak_bytes - before) / plan.peak_bytes <= 1.03
    assert report.measured_reserved_bytes <= report.budget_bytes


def test_what_a_session_meets_first_is_compiled_in_it(x):
    plain = trained(built(Model), x)
    model = built(Model)
    plan = random_plan(captured(model, x, LINK), 0, share=0.5, link=LINK)
    torch._dynamo.reset()
    session = tidemark.session(plan, model)
    assert same(trained(model, x, session), plain)
    assert session.counters.swapped > 0 and session.counters.off_plan == 0
    before = compilations()
    assert same(trained(built(Model), x), plain) and compilations() == before


class Shapes(nn.Module):
    """One region for all sizes, which is run again in backward."""

    def __init__(self):
        super().__init__()
        self.block = Block()
        self.block.compile(dynamic=True)

    def forward(self, x):
        return self.block(checkpoint(self.block, x.sin(), use_reentrant=False)).cos()


def test_other_sizes_and_checkpoints_around_regions(x):
    sizes = [len(x), len(x) // 2, len(x) // 2]
    plain = trained(built(Shapes), x, sizes=sizes)
    model = built(Shapes)
    session = tidemark.session(random_plan(captured(model, x, LINK), 0, share=0.5, link=LINK), model)
    assert same(trained(model, x, session, sizes=sizes), plain)
    assert session.counters.swapped > 0 and session.counters.off_plan == 0


def test_a_plan_that_keeps_everything_leaves_code_compiled(x):
    plain = trained(built(Model), x)
    model = built(Model)
    plan = tidemark.plan(captured(model, x), "1GiB")
    before, session = compilations(), tidemark.session(plan, model)
    assert plan.keeps_all and same(trained(model, x, session), plain)
    assert compilations() == before and session.counters.off_plan == 0


def test_what_was_captured_on_fakes_runs_uncompiled(x):
    model = built(Model)
    graph = tidemark.capture(model, (x,), loss_of)
    assert graph.compiled == [] and not regions_of(graph)
    session = tidemark.session(random_plan(graph, 0, share=1.0), model)
    assert same(trained(model, x, session), trained(built(lambda: Model(compiled=False)), x))
    assert session.counters.recomputed > 0 and session.counters.off_plan == 0


def test_a_step_of_a_loop_is_recorded_compiled(x):
    model = built(Model)
    with tidemark.record(model) as recording:
        loss_of(model(x)).backward()
    graph = recording.graph()
    assert graph.compiled == ["layers.0", "layers.1"] and len(regions_of(graph)) > 4


def scaled(out):
    return (out * 0.5 + out.sin()).square().mean()


class Wave(nn.Module):
    """What is compiled for the first time where it is captured; calls a module that is not looked into."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.normed = nn.BatchNorm1d(32)

    def forward(self, x):
        return self.normed(self.inner(x).sin())


@pytest.mark.parametrize("around", ["module", "fit"])
def test_a_whole_model_is_compiled_where_it_is_captured(x, around):
    """Running statistics change within the region, so that it is not called again."""
    torch._dynamo.reset()
    model = torch.compile(built(Wave))
    loss = torch.compile(scaled)
    if around == "fit":
        session = tidemark.fit(model, (x,), loss, budget="100%", host_link=LINK)
    else:
        graph = captured(model, x, LINK, loss)
        session = tidemark.session(random_plan(graph, 0, share=0.5, link=LINK), model)
    graph = session.plan.graph
    assert graph.compiled == ["" if around == "fit" else "_orig_mod", "()"]
    assert [op.name for op in regions_of(graph)][:2] == ["tidemark.region_once", "tidemark.region"]
    seen = trained(model, x, session, loss=loss)
    assert session.counters.off_plan == 0
    before = compilations()
    other = torch.compile(built(Wave))
    assert same(seen, trained(other, x, loss=loss)) and compilations() == before
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))


def test_something_else_is_not_called(x):
    with pytest.raises(tidemark.CaptureError, match="right would be what torch.compile"):
        tidemark.capture(built(Wave), (x,), loss_of, recorded=True, called=built(Wave))


def test_the_compilers_own_switch_is_obeyed(x):
    model = built(Model)
    with torch.compiler.set_stance("force_eager"):
        graph = captured(model, x)
        assert not regions_of(graph) and {op.module for op in graph.ops} >= {"layers.0.wide", "layers.1.narrow"}


@pytest.mark.parametrize(
    "code",
    (
        *("torch.ops.aten.index_put_.default(buf0, [arg1], buf2, True)", "torch.ops.aten.put_.default(buf0, arg1, buf2)"),
        *("torch.ops.aten._index_put_impl_.default(buf0)", "torch.ops.aten.scatter_reduce_.two(buf0, 0, arg1, buf2)"),
        *("torch.ops.aten._cudnn_rnn.default(buf0)", "torch.ops.aten.miopen_rnn.default(buf0)"),
        *("torch.ops.aten.batch_norm_gather_stats_with_counts.default(buf0)", "tl.atomic_add(out_ptr0, tmp0, None)"),
        *("torch.ops._c10d_functional.all_reduce_.default(buf0)", "aoti_torch_cpu__c10d_functional_all_reduce_(buf0)"),
    ),
)
def test_code_that_makes_other_bits_is_told_by_its_names(code):
    assert regions._NOT_AGAIN.search(code)


def test_a_region_that_is_recomputed_before_another_runs_has_its_own_inputs():
    """Of the same code, as of equal layers."""
    seen = []

    class Region:
        @staticmethod
        def run(inputs):
            seen.append([t.item() for t in inputs])
            return [inputs[0] + 1]

    region = regions._by_number[-1] = Region()
    earlier, now = torch.tensor(1.0), torch.tensor(2.0)
    regions._handed.inputs = [now]
    try:
        regions._run(-1, now.device, [True], [], [earlier], [])
        regions._run(-1, now.device, [True], [], [now], [])
        assert seen == [[1.0], [2.0]] and regions._handed.outputs[0].item() == 3.0
    finally:
        regions._handed.inputs = regions._handed.outputs = None
    del region


def test_other_code_is_called_again():
    header = "empty_strided_p2p = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p"
    assert not regions._NOT_AGAIN.search(f"{header}\ninput_1 = output_handles[0]\nextern_kernels.mm(input_1, buf0, out=buf1)")
