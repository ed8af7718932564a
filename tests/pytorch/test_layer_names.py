"""Layers of other stacks, as stand-ins with the same module tree, have the names of a plan."""

import pathlib
import re

import pytest
import tidemark
import torch
from torch import nn

MLA = {
    "megatron": {
        "linear_q_down_proj": "latent",
        "linear_kv_down_proj": "latent",
        "q_layernorm": "latent_q_norm",
        "kv_layernorm": "latent_kv_norm",
        "linear_q_up_proj": "q",
        "linear_kv_up_proj": "kv",
    },
    "mindspeed": {
        "linear_qkv": "latent",
        "q_layernorm": "latent_q_norm",
        "k_layernorm": "latent_kv_norm",
        "linear_qb": "q",
        "linear_kvb": "kv",
    },
}
WIDTH = 4


class Chain(nn.Module):
    """Modules by name, called in turn."""

    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        for module in self.children():
            x = module(x)
        return x


def linear():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


def linears(*names):
    return Chain(**{name: linear() for name in names})


def attention(stack, latent):
    inner = MLA[stack] if latent else ("linear_qkv",)
    return linears(*inner, "core_attention", "linear_proj")


def mixture(sequential):
    experts = linears("linear_fc1", "linear_fc2")
    if sequential:
        experts = Chain(local_experts=nn.Sequential(*[linears("linear_fc1", "linear_fc2") for _ in range(2)]))
    return Chain(router=linear(), experts=experts, shared_experts=linears("linear_fc1", "linear_fc2"))


def layer(number, self_attention, mlp):
    norms = [nn.LayerNorm(WIDTH) for _ in range(2)]
    made = Chain(input_layernorm=norms[0], self_attention=self_attention, pre_mlp_layernorm=norms[1], mlp=mlp)
    made.layer_number = number
    return made


def stage(stack, first=9, latent=True):
    """Three layers of a pipeline, numbered from one in the whole model."""
    mlps = [linears("linear_fc1", "linear_fc2"), mixture(sequential=False), mixture(sequential=True)]
    layers = [layer(first + i, attention(stack, latent), mlp) for i, mlp in enumerate(mlps)]
    return Chain(module=Chain(decoder=Chain(layers=nn.Sequential(*layers))))


@pytest.mark.parametrize("stack", MLA)
def test_latent_attention(stack):
    names = tidemark.layer_names(stage(stack), stack)
    for i in range(3):
        for module, storage in MLA[stack].items():
            path = f"module.decoder.layers.{i}.self_attention.{module}"
            place = names.place(path)
            assert (place.layer, place.module, place.storages[0]) == (8 + i, "self_attention", storage)
            assert path in names.paths(8 + i, f"self_attention.{storage}")
    dense = names.place("module.decoder.layers.0.mlp.linear_fc1")
    assert (dense.layer, dense.module, dense.storages) == (8, "mlp", ("fc1_out",))


@pytest.mark.parametrize("stack", MLA)
def test_joint_projection_and_experts(stack):
    names = tidemark.layer_names(stage(stack, first=1, latent=False), stack)
    assert names.place("module.decoder.layers.0.self_attention.linear_qkv").storages[0] == "qkv"
    assert names.paths(1, "mlp.experts.fc1_out") == ["module.decoder.layers.1.mlp.experts.linear_fc1"]
    assert len(names.paths(2, "mlp.experts.fc1_out")) == 2  # one for each local expert
    assert names.place("module.decoder.layers.2.mlp.shared_experts.linear_fc2").module == "mlp.shared_experts"
    assert names.place("module.decoder.layers.0") is None and names.paths(7, "mlp.fc1_out") == []


def test_every_name_is_one_that_plans_have():
    """As the planner's sources make them."""
    sources = (pathlib.Path(__file__).resolve().parents[2] / "planner" / "graph_build").glob("*.cc")
    text = "".join(path.read_text() for path in sources)
    modules = set(re.findall(r'module\("([a-z_.]+)"\)', text))
    storages = set(re.findall(r'"((?:shared_)?[a-z0-9_]+)"', text)) | {"fc1_out", "shared_fc1_out"}
    for stack in MLA:
        names = tidemark.layer_names(stage(stack), stack)
        assert len(names._places) > 20
        for place in names._places.values():
            assert place.module in modules and set(place.storages) <= storages, place


def test_a_captured_step_by_layer():
    model = stage("megatron", first=5)
    graph = tidemark.capture(model, (torch.randn(3, WIDTH),), lambda out: out.sum())
    saved = tidemark.layer_names(model, "megatron").saved_bytes(graph)
    assert {layer for layer, _ in saved} == {4, 5, 6}
    assert all(bytes_ > 0 for bytes_ in saved.values())
    assert {module for _, module in saved} >= {"input_norm", "self_attention", "mlp_norm", "mlp", "mlp.experts"}


def test_what_is_not_known_is_refused():
    with pytest.raises(tidemark.TidemarkError, match="right would be 'megatron' or 'mindspeed'"):
        tidemark.layer_names(nn.Linear(2, 2), "deepspeed")
    model = stage("megatron")
    del model.module.decoder.layers[1].layer_number
    with pytest.raises(tidemark.TidemarkError, match="'module.decoder.layers.1' has no layer_number"):
        tidemark.layer_names(model, "megatron")
