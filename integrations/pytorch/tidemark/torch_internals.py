"""What the package takes of PyTorch beyond its public interface: what a new version may have moved or renamed is to be put
right here, and in csrc/interpreter_versions.h.

Where versions differ, what there is is chosen when this is imported; all below is the same from 2.6 to 2.15.
"""

import contextlib
import functools
import sys
import threading

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices as foreach_devices
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode,
    _pop_mode_temporarily,
    _push_mode,
    is_traceable_wrapper_subclass,
)
from torch.utils._pytree import tree_map

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "backward_engine_replaced",
    "below_autograd",
    "below_modes_of_compilers",
    "compiled_calls",
    "finished_work",
    "foreach_devices",
    "has_composite_kernel",
    "in_backward",
    "is_faked",
    "is_compiled_wrapper",
    "is_compiling",
    "is_traceable_wrapper_subclass",
    "node_of_backward",
    "operator_of",
    "pop_saved_tensors_hooks",
    "push_saved_tensors_hooks",
    "runs_compiled_under_modes",
    "set_conjugated",
    "set_negated",
    "take_off",
    "top_mode",
    "tree_map",
    "uncompiled",
    "unseen_by_modes",
    "without_mode",
]

push_saved_tensors_hooks = torch._C._autograd._push_saved_tensors_default_hooks
pop_saved_tensors_hooks = torch._C._autograd._pop_saved_tensors_default_hooks
set_conjugated = torch._C._set_conj
set_negated = torch._C._set_neg
below_autograd = torch._C._AutoDispatchBelowAutograd
top_mode = _get_current_dispatch_mode  # of the calling thread, or None
unseen_by_modes = torch._C._DisableTorchDispatch
without_mode = _pop_mode_temporarily  # the one on top

# Whether the guards of compiled code, and the compiler, look past modes that say `ignore_compile_internals`. Before, what
# was met under a mode was not compiled again.
runs_compiled_under_modes = hasattr(torch._C._dynamo.guards, "set_is_in_mode_without_ignore_compile_internals")


def in_backward():
    """Whether the calling thread runs autograd's graph."""
    return torch._C._current_graph_task_id() != -1


_BACKWARD_ENGINE = torch.autograd.Variable._execution_engine


def forget_failed_backward():
    """What a backward that raised has not run stands in a queue of the calling thread until another one ends there: memory
    until then or, where none comes, released with the thread when Python has gone."""
    if in_backward():
        return
    with unseen_by_modes(), torch.enable_grad(), contextlib.suppress(torch.OutOfMemoryError):
        one = torch.ones(())
        root = one.detach().requires_grad_().clone()
        _BACKWARD_ENGINE.run_backward((root,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)


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
    """What torch.compile made runs as it was written, as when PyTorch's own switch of its compiler is off. Where the
    compiler was never loaded nothing is compiled.

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


def is_compiling():
    """Whether the calling thread is in the compiler: kernels that it calls are none of the program's."""
    return torch._guards.TracingContext.try_get() is not None


@contextlib.contextmanager
def below_modes_of_compilers():
    """Modes that PyTorch's compiler puts on top, as where compiled code runs for the first time, are off."""
    off = []
    while (mode := top_mode()) is not None and type(mode).__module__.startswith("torch._functorch."):
        off.append(_pop_mode())
    try:
        yield
    finally:
        while off:
            _push_mode(off.pop())


_FLAGS = (  # of PyTorch's modes: what was so before each was entered
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)


def take_off(mode, put_instead=lambda: None):
    """Takes a mode that was entered from among the calling thread's, wherever it is; `put_instead()` is called where it
    stood, or with all modes on the stack where it is none of them."""
    above = []
    while (top := top_mode()) is not None and top is not mode:
        above.append(_pop_mode())
    if top is None:
        while above:
            _push_mode(above.pop())
        put_instead()
        return
    if above:
        _pop_mode()
        for name in _FLAGS:  # the one above goes back to what was before both
            ours, theirs = getattr(mode, name, None), getattr(above[-1], name, None)
            if ours and theirs:
                theirs[-1] = ours.pop()
    else:
        TorchDispatchMode.__exit__(mode, None, None, None)
    put_instead()
    while above:
        _push_mode(above.pop())


def is_compiled_wrapper(module):
    """Whether it is what torch.compile(module) returns; `_orig_mod` is the module."""
    return type(module).__name__ == "OptimizedModule"


@contextlib.contextmanager
def compiled_calls(seen):
    """Where compiled code is called, `seen.begin()` is asked before whether it may run: else what was compiled runs as it
    was written. `seen.end()` hears of its end, once for several that are nested, and perhaps without a begin.
    `seen.compiling()` is a context around the compiler. `seen.region(graph, call, inputs)` makes the calls of graphs that
    inductor has compiled, as call(graph, inputs) does.

    Thread rule: of the process; in other threads than the calling one what was compiled runs as it was written."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        yield
        return
    from torch._dynamo.convert_frame import CatchErrorsWrapper

    _skip_our_code()
    thread, graphs = threading.get_ident(), _CompiledGraphs(seen)
    set_frame, compile_frame = dynamo._maybe_set_eval_frame, CatchErrorsWrapper.__call__

    def set_eval_frame(callback):
        if callback is not None and (threading.get_ident() != thread or not seen.begin()):
            return callback
        if callback is None and threading.get_ident() == thread:
            seen.end()
        return set_frame(callback)

    def compile_in_peace(self, *args):
        with seen.compiling():
            made = compile_frame(self, *args)
        graphs.watch()  # inductor is loaded by the first that it compiles
        return made

    dynamo._maybe_set_eval_frame, CatchErrorsWrapper.__call__ = set_eval_frame, compile_in_peace
    graphs.watch()
    try:
        yield
    finally:
        dynamo._maybe_set_eval_frame, CatchErrorsWrapper.__call__ = set_frame, compile_frame
        graphs.leave()


@functools.cache
def _skip_our_code():
    """Where compiled code has a break, the compiler looks at every frame of Python below: hooks and recorders of ours too."""
    from torch._dynamo import trace_rules

    trace_rules.add(__package__)


class _CompiledGraphs:
    def __init__(self, seen):
        self._seen = seen
        self._kind = self._call = None

    def watch(self):
        inductor = sys.modules.get("torch._inductor.output_code")
        if self._kind is not None or inductor is None:
            return
        seen, self._kind, self._call = self._seen, inductor.CompiledFxGraph, inductor.CompiledFxGraph.__call__
        call = self._call
        self._kind.__call__ = lambda graph, inputs: seen.region(graph, call, inputs)

    def leave(self):
        if self._kind is not None:
            self._kind.__call__ = self._call
