"""Modules of Megatron-Core and MindSpeed models by the names that Tidemark's own model descriptions and plan files use.

    names = tidemark.layer_names(model, "megatron")
    names.place("decoder.layers.3.self_attention.linear_proj")  # Place(11, "self_attention", ("attention_out",))
    names.paths(11, "self_attention.attention_out")

A process of a pipeline holds some layers and counts them from zero; places have the number in the whole model, which
these stacks keep in `layer_number` of every layer, counted from one. Thin: tables and a look-up.

The names are those of the public module trees: Megatron-Core, megatron/core/transformer/{transformer_layer, attention,
multi_latent_attention, mlp}.py and moe/{moe_layer, experts, shared_experts}.py; MindSpeed-LLM,
mindspeed_llm/tasks/models/transformer/multi_head_latent_attention.py, whose layers are Megatron-Core's otherwise.
"""

import dataclasses
import re

import torch

from .errors import TidemarkError

# Path within a layer -> module and storages that it makes.
_LAYER = {
    "input_layernorm": ("input_norm", ("y1",)),
    "self_attention.linear_qkv": ("self_attention", ("qkv", "q", "k", "v")),
    "self_attention.core_attention": ("self_attention", ("attention_out_core", "softmax_stats")),
    "self_attention.linear_proj": ("self_attention", ("attention_out",)),
    "pre_mlp_layernorm": ("mlp_norm", ("y2",)),
    "mlp.linear_fc1": ("mlp", ("fc1_out",)),
    "mlp.linear_fc2": ("mlp", ("mlp_out",)),
    "mlp.router": ("mlp.experts", ("router",)),
    "mlp.experts.linear_fc1": ("mlp.experts", ("fc1_out",)),
    "mlp.experts.linear_fc2": ("mlp.experts", ("fc2_out",)),
    "mlp.shared_experts.linear_fc1": ("mlp.shared_experts", ("shared_fc1_out",)),
    "mlp.shared_experts.linear_fc2": ("mlp.shared_experts", ("shared_out",)),
}

_LATENT = {
    "megatron": {
        "self_attention.linear_q_down_proj": ("self_attention", ("latent",)),
        "self_attention.linear_kv_down_proj": ("self_attention", ("latent",)),
        "self_attention.q_layernorm": ("self_attention", ("latent_q_norm",)),
        "self_attention.kv_layernorm": ("self_attention", ("latent_kv_norm",)),
        "self_attention.linear_q_proj": ("self_attention", ("q",)),
        "self_attention.linear_q_up_proj": ("self_attention", ("q",)),
        "self_attention.linear_kv_up_proj": ("self_attention", ("kv", "k", "v")),
    },
    "mindspeed": {
        "self_attention.linear_qkv": ("self_attention", ("latent",)),
        "self_attention.q_layernorm": ("self_attention", ("latent_q_norm",)),
        "self_attention.k_layernorm": ("self_attention", ("latent_kv_norm",)),
        "self_attention.linear_qb": ("self_attention", ("q",)),
        "self_attention.linear_qk_nope": ("self_attention", ("q",)),
        "self_attention.linear_qk_rope": ("self_attention", ("q",)),
        "self_attention.linear_kvb": ("self_attention", ("kv", "k", "v")),
        "self_attention.linear_kv_nope": ("self_attention", ("kv", "k")),
        "self_attention.linear_v": ("self_attention", ("kv", "v")),
    },
}

# A layer has latent attention where one of these is.
_IS_LATENT = {
    "megatron": ("linear_kv_down_proj",),
    "mindspeed": ("linear_kvb", "linear_kv_nope"),
}


@dataclasses.dataclass(frozen=True)
class Place:
    layer: int  # in the whole model, from zero
    module: str
    storages: tuple[str, ...]  # that the module makes, as the plan names them; which of them depends on the kernels


class LayerNames:
    def __init__(self, model, stack):
        if stack not in _LATENT:
            raise TidemarkError(f"the names of {stack!r} are not known; right would be 'megatron' or 'mindspeed'")
        if not isinstance(model, torch.nn.Module):
            raise TidemarkError(f"a {type(model).__name__} is no model; give a torch.nn.Module")
        self._places = {}
        modules = dict(model.named_modules())
        for path, module in modules.items():
            if not re.search(r"(^|\.)decoder\.layers\.\d+$", path):
                continue
            if not isinstance(getattr(module, "layer_number", None), int):
                raise TidemarkError(f"{path!r} has no layer_number, which says where in the whole model the layer is")
            attention = modules.get(f"{path}.self_attention")
            latent = any(hasattr(attention, name) for name in _IS_LATENT[stack])
            table = {**_LAYER, **_LATENT[stack]} if latent else _LAYER
            self._add_layer(modules, path, module.layer_number - 1, table)

    def _add_layer(self, modules, layer_path, layer, table):
        for path in modules:
            if path.startswith(layer_path + "."):
                inner = re.sub(r"\.local_experts\.\d+\.", ".", path[len(layer_path) + 1 :])
                if inner in table:
                    self._places[path] = Place(layer, *table[inner])

    def place(self, path):
        """Of a module path, or of one within that module; None where the plan has no name for it."""
        while path:
            if path in self._places:
                return self._places[path]
            path = path.rpartition(".")[0]
        return None

    def paths(self, layer, storage):
        """Modules of this process that make a storage, given as plan files do, such as "self_attention.q"."""
        module, _, name = storage.rpartition(".")
        return [
            path
            for path, place in self._places.items()
            if place.layer == layer and place.module == module and name in place.storages
        ]

    def saved_bytes(self, graph):
        """Of a captured step: what autograd saves, by (layer, module) of the plan. Bytes of storages, each counted once
        where it was made."""
        found = {}
        for storage in {save.storage for save in graph.saves}:
            place = self.place(graph.storages[storage].module)
            if place is not None:
                key = (place.layer, place.module)
                found[key] = found.get(key, 0) + graph.storages[storage].bytes
        return found


def layer_names(model, stack):
    """`stack`: "megatron" or "mindspeed". Raises TidemarkError where a layer does not say which one it is."""
    return LayerNames(model, stack)
