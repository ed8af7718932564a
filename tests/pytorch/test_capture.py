"""A captured graph says what really happens."""

import functools
import gc
import json

import model as example
import pytest
import tidemark
import torch
from torch import nn

from models import MODELS, transformer


def really_saved(model, inputs, loss_fn):
    """(number of the storage in order of first sight, its bytes) of every tensor autograd saves."""
    numbers, saved, alive = {}, [], []

    def pack(tensor):
        storage = tensor.untyped_storage()
        alive.append(storage)
        saved.append((numbers.setdefault(storage._cdata, len(numbers)), storage.nbytes()))
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss_fn(model(*inputs))
    return saved


def captured_saves(graph):
    numbers = {}
    return [(numbers.setdefault(s.storage, len(numbers)), s.bytes) for s in graph.saves]


@pytest.mark.parametrize("name", MODELS)
def test_saves_what_autograd_saves_storage_by_storage(name):
    model, inputs, loss_fn = MODELS[name]()
    graph = tidemark.capture(model, inputs, loss_fn)
    real = really_saved(model, inputs, loss_fn)
    assert len(real) > 10
    assert captured_saves(graph) == real


def test_the_example_saves_what_was_captured_as_far_as_data_can_be_known():
    """Which expert gets how many rows is up to the data: where the router happens to deal them out evenly, every
    storage has the captured size; with any routing the storages are the same, and together as large."""
    config = example.Config(layers=2)
    torch.manual_seed(0)
    model = example.Decoder(config)
    tokens = torch.randint(0, config.vocabulary, (4, 32))
    loss_fn = lambda out: example.loss_of(out, tokens)  # noqa: E731
    graph = tidemark.capture(model, (tokens,), loss_fn, bounds=example.routed_rows(config, 4, 32))
    captured = captured_saves(graph)

    anyhow = really_saved(model, (tokens,), loss_fn)
    assert [storage for storage, _ in anyhow] == [storage for storage, _ in captured]
    by_experts = ["experts." in save.site.path for save in graph.saves]
    assert sum(by_experts) > 50 and not all(by_experts)
    assert anyhow != captured
    assert [r for r, e in zip(anyhow, by_experts) if not e] == [c for c, e in zip(captured, by_experts) if not e]
    assert sum(b for _, b in dict(anyhow).items()) == sum(b for _, b in dict(captured).items())

    evenly = torch.arange(config.experts).repeat(4 * 32 * config.top_k // config.experts).view(-1, config.top_k)
    scores = torch.zeros(4 * 32, config.experts).scatter(1, evenly, 1.0)

    def deal(_module, _inputs, out):
        out.data.copy_(scores)

    for path, module in model.named_modules():
        if path.endswith("router"):
            module.register_forward_hook(deal)
    assert really_saved(model, (tokens,), loss_fn) == captured


@pytest.mark.parametrize("name", MODELS)
def test_leaves_the_model_as_it_was(name):
    model, inputs, loss_fn = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    objects = {k: id(v) for k, v in model.named_parameters()}
    state = torch.random.get_rng_state()
    tidemark.capture(model, inputs, loss_fn, optimizer=torch.optim.AdamW(model.parameters()))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert {k: id(v) for k, v in model.named_parameters()} == objects
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)


class Keeping(nn.Module):
    """At its first call the program makes memory to work in, a table and a cache, and keeps them outside the model."""

    kept = {}
    table = None

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    @staticmethod
    @functools.lru_cache
    def angles(length):
        return torch.arange(length).cos()

    def forward(self, x):
        if "buffer" not in self.kept:
            self.kept["buffer"] = torch.empty(x.shape[0], 16)
        if Keeping.table is None:
            Keeping.table = (torch.arange(16).sin(), 16)
        x = torch.addmm(self.kept["buffer"], x, self.linear.weight, beta=0.0)
        return x * self.angles(16) + Keeping.table[0]


def test_what_the_program_keeps_of_the_first_call_is_there_in_the_step():
    gc.freeze()  # as programs do before they fork; the class that keeps it is among what is frozen
    model, inputs = Keeping(), (torch.randn(8, 16),)
    graph = tidemark.capture(model, inputs, lambda out: out.square().mean())
    assert type(Keeping.kept["buffer"]) is torch.Tensor and Keeping.table is None
    assert Keeping.angles.cache_info().currsize == 0
    model(*inputs)
    again = tidemark.capture(model, inputs, lambda out: out.square().mean())
    assert [op.name for op in graph.ops] == [op.name for op in again.ops]
    assert graph.keep_all_peak_bytes() == again.keep_all_peak_bytes()
    assert type(Keeping.table[0]) is type(Keeping.angles(16)) is torch.Tensor


class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        out = self.linear(x)
        torch.distributed.all_reduce(out)
        return out.square()


def test_collectives_are_not_called_to_measure_them():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        graph = tidemark.capture(Summed(), (torch.randn(8, 16),), torch.sum, measured=True)
    finally:
        torch.distributed.destroy_process_group()
    assert any("allreduce" in op.name for op in graph.ops)


def test_captures_a_model_larger_than_the_machine():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(1 << 20, 1 << 20), nn.GELU(), nn.Linear(1 << 20, 8))
    graph = tidemark.capture(model, (torch.empty(1 << 18, 1 << 20, device="meta"),), lambda out: out.sum())
    assert graph.keep_all_peak_bytes() > 1 << 42


def test_dropout_noise_is_one_operation_that_can_run_again():
    model, inputs, loss_fn = transformer(dropout=0.5)
    graph = tidemark.capture(model, inputs, loss_fn)
    random = [op for op in graph.ops if op.recompute == "random"]
    assert len(random) == 12
    assert all(op.phase == "forward" and len(op.writes) == 1 for op in random)


def test_what_is_changed_in_place_is_not_rebuilt():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            a = self.linear(x)
            b = a * 2  # reads a version of `a` that is gone afterwards
            a.add_(1)
            return torch.tanh(a) + b

    graph = tidemark.capture(Model(), (torch.randn(4, 8),), lambda out: out.sum())
    by_name = {op.name: op for op in graph.ops if op.phase == "forward"}
    assert by_name["aten.mul"].recompute == "never"
    assert by_name["aten.add_"].recompute == "never"
    assert by_name["aten.tanh"].recompute == "pure"


def test_numbers_read_off_tensors_need_bounds():
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            counts = torch.bincount(x[:, 0].abs().long() % 3, minlength=3).tolist()
            return torch.cat([e(part) for e, part in zip(self.experts, x.split(counts))])

    x = torch.randn(10, 8)
    with pytest.raises(tidemark.CaptureError, match="reads a number off a tensor.*Routed"):
        tidemark.capture(Router(), (x,), lambda out: out.sum())
    graph = tidemark.capture(Router(), (x,), lambda out: out.sum(), bounds={"": tidemark.Routed(total=10, parts=3)})
    parts = [graph.storages[op.writes[0]].bytes for op in graph.ops if op.name == "aten.addmm"]
    assert parts == [3 * 32, 3 * 32, 4 * 32]


def test_json_has_the_fields_of_the_format():
    model, inputs, loss_fn = transformer()
    graph = tidemark.capture(model, inputs, loss_fn, optimizer=torch.optim.AdamW(model.parameters()))
    value = json.loads(graph.to_json())
    assert value["tidemark_graph"] == 1 and value["cost_unit"] == "ns"
    for op in value["ops"]:
        assert all(0 <= s < len(value["storages"]) for s in (*op["reads"], *op["writes"]))
        assert op["cost"] > 0 and op["phase"] in ("forward", "backward", "optimizer")
    assert {s["role"] for s in value["storages"]} >= {"parameter", "input", "activation", "gradient", "optimizer_state"}
    assert all(s["bytes"] % 512 == 0 for s in value["storages"])


def test_gradient_accumulation_is_several_micro_batches():
    model, inputs, loss_fn = transformer(layers=1)
    one = tidemark.capture(model, inputs, loss_fn)
    two = tidemark.capture(model, inputs, loss_fn, micro_batches=2)
    assert len(two.saves) == 2 * len(one.saves)
    assert {op.micro_batch for op in two.ops} == {0, 1}


class ByRule(nn.Module):
    """`rule` says which expert takes a row."""

    def __init__(self, experts=4, wide=64):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, wide) for _ in range(experts))
        self.rule = lambda x: torch.arange(len(x)) % experts

    def forward(self, x):
        chosen = self.rule(x)
        counts = torch.bincount(chosen, minlength=len(self.experts)).tolist()
        rows = x.index_select(0, chosen.argsort(stable=True))
        return torch.cat([torch.tanh(e(part)) for e, part in zip(self.experts, rows.split(counts), strict=True)])


@pytest.mark.parametrize("most", [16, 20, 40, 64])
def test_what_routing_may_need_at_most_is_planned_for(most):
    x, loss_fn = torch.randn(64, 8), lambda out: out.square().sum()
    bounds = {"": tidemark.Routed(total=64, parts=4, most=most)}
    graph = tidemark.capture(ByRule(), (x,), loss_fn, bounds=bounds)
    outputs = [graph.storages[op.writes[0]] for op in graph.ops if op.name == "aten.addmm"]
    assert [s.bytes for s in outputs] == [16 * 256] * 4
    assert [s.bound_bytes or s.bytes for s in outputs] == [most * 256] * 4
    entries = [s for s in json.loads(graph.to_json())["storages"] if "bound_bytes" in s]
    assert (len(entries) > 0) == (most > 16) and all(e["bound_bytes"] > e["bytes"] for e in entries)
    plain = tidemark.capture(ByRule(), (x,), loss_fn, bounds={"": tidemark.Routed(total=64, parts=4)})
    assert (graph.keep_all_peak_bytes() > plain.keep_all_peak_bytes()) == (most > 16)
    planned = tidemark.planning.solve(graph.to_json(), 1 << 30)[0]["captured"]
    assert planned["keep_all_peak_bytes"] == graph.keep_all_peak_bytes()
    assert captured_saves(graph) == captured_saves(plain)


def test_rows_that_a_mask_may_select_at_most():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x.index_select(0, (x[:, 0] > 0).nonzero()[:, 0]))

    bounds = {"": tidemark.Rows(expected=16, most=48)}
    graph = tidemark.capture(Masked(), (torch.randn(64, 8),), lambda out: out.sum(), bounds=bounds)
    (out,) = [graph.storages[op.writes[0]] for op in graph.ops if op.name == "aten.addmm"]
    assert (out.bytes, out.bound_bytes) == (16 * 32, 48 * 32)


@pytest.mark.parametrize("make", [lambda: tidemark.Routed(64, 4, 15), lambda: tidemark.Routed(64, 4, 65)])
def test_a_most_that_cannot_be_is_refused(make):
    with pytest.raises(tidemark.CaptureError, match="has at least 16 and at most 64"):
        make()
    with pytest.raises(tidemark.CaptureError, match="at most 3 rows, and 4 are expected"):
        tidemark.Rows(4, 3)
