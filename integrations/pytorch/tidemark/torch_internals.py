"""What the package takes of PyTorch beyond its public interface, and nowhere else: what a new version may have moved or
renamed is to be put right here, and in csrc/interpreter_versions.h.

Where versions differ, what there is is chosen when this is imported; all below is the same from 2.6 to 2.15.
"""

import contextlib
import sys

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices as foreach_devices
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "backward_engine_replaced",
    "finished_work",
    "foreach_devices",
    "has_composite_kernel",
    "in_backward",
    "is_faked",
    "is_traceable_wrapper_subclass",
    "node_of_backward",
    "operator_of",
    "pop_saved_tensors_hooks",
    "push_saved_tensors_hooks",
    "tree_map",
    "uncompiled",
]

push_saved_tensors_hooks = torch._C._autograd._push_saved_tensors_default_hooks
pop_saved_tensors_hooks = torch._C._autograd._pop_saved_tensors_default_hooks


def in_backward():
    """Whether the calling thread runs autograd's graph."""
    return torch._C._current_graph_task_id() != -1


def is_faked():
    """Whether what the calling thread runs makes tensors without memory, as DTensor and compilers do to learn shapes. Modes
    of Python's are asked before the one that does so."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def node_of_backward():
    """(name, number) of the node of autograd's graph that runs; None outside of backward."""
    node = torch._C._current_autograd_node()
    return None if node is None else (node.name(), node._sequence_nr())


def finished_work(tensors):
    """The handle of a collective that is over and has made `tensors`, as operators return it."""
    from torch._C._distributed_c10d import _create_work_from_future

    future = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future).boxed()


@contextlib.contextmanager
def backward_engine_replaced(make):
    """Inside, Python's backward runs by `make(engine)` in the place of autograd's engine."""
    before = torch.autograd.Variable._execution_engine
    torch.autograd.Variable._execution_engine = make(before)
    try:
        yield
    finally:
        torch.autograd.Variable._execution_engine = before


def operator_of(packet, overload):
    """The operator of a name's overload; None where there is none."""
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    func = getattr(packet, overload, None)
    return func if isinstance(func, torch._ops.OpOverload) else None


def has_composite_kernel(func):
    """Whether the operator is made of others above autograd."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


@contextlib.contextmanager
def uncompiled():
    """What torch.compile made runs as it was written, as when PyTorch's own switch of its compiler is off: capture and
    session look at single kernels, and PyTorch would not compile again what it met once under the modes they use. Where
    the compiler was never loaded nothing is compiled.

    Thread rule: of the process; other threads run uncompiled meanwhile."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        yield
        return
    before = dynamo._maybe_set_eval_frame
    dynamo._maybe_set_eval_frame = lambda callback: callback
    try:
        yield
    finally:
        dynamo._maybe_set_eval_frame = before
