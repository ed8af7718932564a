"""What others do to a model so that its training takes less memory of the device.

Each is a function of a Way (pytorch_rivals.py), whose model is built and whose optimizer is not; it returns what makes the
context of forward, and may set the way's optimizer, backward and call.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import typing

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default)


def keep_all(_way):
    return contextlib.nullcontext


def _checkpointed(way, every=1, **options):
    for layer in way.model.layers[::every]:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False, **options)
    return contextlib.nullcontext


def _keep_products(_context, func, *_args, **_kwargs):
    return CheckpointPolicy.MUST_SAVE if func in _PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def _selective():
    return create_selective_checkpoint_contexts(_keep_products)


def _compiled(way, share):
    torch._dynamo.reset()
    torch._functorch.config.activation_memory_budget = share  # read when it compiles, at the first step
    way.model.forward = torch.compile(way.model.forward, backend="aot_eager_decomp_partition")
    return contextlib.nullcontext


def _on_cpu(way):
    return functools.partial(torch.autograd.graph.save_on_cpu, pin_memory=way.device.is_gpu)


def _torchtune(_way):
    from torchtune.training import OffloadActivations

    return OffloadActivations


def _fsdp_offload(way):
    """One process: parameters, gradients and optimizer are in host memory, a layer's parameters on the device while it runs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    _one_process()
    mesh, policy = init_device_mesh(way.device.kind, (1,)), CPUOffloadPolicy(pin_memory=way.device.is_gpu)
    for layer in way.model.layers:
        fully_shard(layer, mesh=mesh, offload_policy=policy)
    fully_shard(way.model, mesh=mesh, offload_policy=policy)
    return contextlib.nullcontext


def _one_process():
    import torch.distributed as dist

    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def _deepcompile(way):
    import deepspeed

    _one_process()
    config = {
        "train_micro_batch_size_per_gpu": len(way.tokens),
        "zero_optimization": {"stage": 3},
        "compile": {"deepcompile": True, "offload_activation": True},
    }
    optimizer = torch.optim.AdamW(way.model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=way.model, optimizer=optimizer, config=config)
    engine.compile()
    way.call, way.backward, way.optimizer = engine, engine.backward, _StepsOf(engine)
    return contextlib.nullcontext


class _StepsOf:
    """An engine that clears gradients where it steps."""

    def __init__(self, engine):
        self.step = engine.step

    def zero_grad(self):
        pass


@dataclasses.dataclass(frozen=True)
class Rival:
    change: typing.Callable
    same_bits: bool = True  # as with everything kept: not where kernels are others, or the optimizer steps elsewhere
    needs: str = ""  # a package
    needs_gpu: bool = False

    def missing(self, device):
        """Why it cannot take part, or nothing."""
        if self.needs and importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed"
        return "needs a GPU" if self.needs_gpu and not device.is_gpu else ""


RIVALS = {
    "checkpoint": Rival(_checkpointed),
    "checkpoint_every_other": Rival(functools.partial(_checkpointed, every=2)),
    "selective": Rival(functools.partial(_checkpointed, context_fn=_selective)),
    "save_on_cpu": Rival(_on_cpu),
    "budget_1": Rival(functools.partial(_compiled, share=1.0), same_bits=False),
    "budget_0.5": Rival(functools.partial(_compiled, share=0.5), same_bits=False),
    "budget_0.2": Rival(functools.partial(_compiled, share=0.2), same_bits=False),
    "torchtune": Rival(_torchtune, needs="torchtune", needs_gpu=True),
    "deepcompile": Rival(_deepcompile, same_bits=False, needs="deepspeed", needs_gpu=True),
    "fsdp_offload": Rival(_fsdp_offload, same_bits=False),
}
