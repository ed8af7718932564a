"""Stubs by which Megatron-Core trains on a CPU over gloo. Megatron-Core asks for CUDA by name; each stub answers such a
question with the CPU. Its schedule, layers, communication and optimizer are its own.
"""

import functools
import logging

import torch


def install():
    """To be called before models are built. Megatron-Core is imported by it."""
    _run_as_written()
    _put_tensors_on_the_cpu()
    _wait_for_nothing()
    _draw_from_the_cpu()
    _route_without_transformer_engine()


def _run_as_written():
    """Megatron-Core gives small functions to torch.compile as it is imported: that takes minutes on a CPU, and a session runs
    them uncompiled in any case."""
    torch.compile = lambda function: function


def _put_tensors_on_the_cpu():
    """`device=torch.cuda.current_device()` and `device="cuda"` of buffers, parameters and counts."""
    torch.cuda.current_device = lambda: "cpu"
    for name in ("tensor", "zeros"):
        setattr(torch, name, _on_cpu(getattr(torch, name)))


def _on_cpu(make):
    @functools.wraps(make)
    def made(*args, device=None, **kwargs):
        return make(*args, device="cpu" if device == "cuda" else device, **kwargs)

    return made


def _wait_for_nothing():
    """Behind sends and receives; over gloo they are over when their requests are. A stream for copies to the host, which on a
    CPU are none, is one that nothing is put on."""
    torch.cuda.synchronize = lambda device=None: None


def _draw_from_the_cpu():
    """Random numbers of regions that are parallel come from states of the device's generator, here the CPU's. Megatron-Core
    warns where the CPU's generator is used in their place, as it is here."""
    from megatron.core.tensor_parallel import random

    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *_, **__: torch.set_rng_state(state)
    torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
    torch.cuda.manual_seed = torch.manual_seed
    logging.getLogger(random.__name__).setLevel(logging.ERROR)


def _route_without_transformer_engine():
    """megatron-core 0.16.1 asks in its router whether TransformerEngine's product is None, where it is not even named."""
    from megatron.core.transformer.moe import moe_utils

    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None
