"""Compiled regions as kernels: what inductor made of many kernels is called through an operator of ours, so that capture
and session see one call with what it reads, writes and asks of the allocator.

A region may be recomputed, by calling it again on the same bytes with the generator as it was. Not where it changes what
it is given, holds collectives, adds up in any order, or takes what is no tensor and no whole number.

Thread rule: any thread; what a call hands to its operator is of the thread.
"""

import functools
import itertools
import re
import threading
import weakref

import torch

from . import kernels
from .errors import TidemarkError
from .torch_internals import below_autograd, below_modes_of_compilers, in_backward, top_mode, unseen_by_modes

# In the code that inductor writes: its own sums in any order, and kernels of others that are not recomputed.
_NOT_AGAIN = re.compile(f"atomic_add|{kernels.once_in_code()}")

_library = torch.library.Library("tidemark", "FRAGMENT")
_regions = {}  # by id of the graph
_by_number = weakref.WeakValueDictionary()
_numbers = itertools.count()


class _Handed(threading.local):
    """From who calls an operator to what it runs: lists that compiled code empties as it goes, and its own answer. Another
    region may be recomputed before the operator runs."""

    inputs = None
    outputs = None

    def take(self, tensors):
        """The inputs where they are of a call with these tensors, which may empty them, or None."""
        handed = None if self.inputs is None else [t for t in self.inputs if isinstance(t, torch.Tensor)]
        if handed is None or len(handed) != len(tensors) or {*map(id, handed)} != {*map(id, tensors)}:
            return None
        inputs, self.inputs = self.inputs, None
        return inputs


_handed = _Handed()


def call(graph, run, inputs):
    """Makes run(graph, inputs), and lets the mode on top see it as one kernel. `graph`: of torch._inductor."""
    with below_modes_of_compilers():
        return _called(graph, run, inputs)


def _called(graph, run, inputs):
    mode = top_mode()
    if not getattr(mode, "sees_regions", False):
        return run(graph, inputs)
    device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), None)
    if device is None or _is_replayed(graph):
        with unseen_by_modes():
            return run(graph, inputs)
    region = _region_of(graph, run)
    if in_backward():
        return region.run_emptying(mode, inputs, device)
    return region(inputs, device)


def _is_replayed(graph):
    """Whether it runs as a captured graph of the device, whose memory is its own."""
    return bool(graph.fx_kwargs.get("cudagraphs"))


def _region_of(graph, run):
    region = _regions.get(id(graph))
    if region is None:
        region = _regions[id(graph)] = _Region(graph, run)
        weakref.finalize(graph, _regions.pop, id(graph), None)
    return region


class _Region:
    """What is known of one compiled graph."""

    def __init__(self, graph, run):
        self._graph = weakref.ref(graph)
        self._run = run
        self._number = next(_numbers)
        self._changed = frozenset(graph.mutated_input_idxs)
        self._has_gradients = not (graph.fx_kwargs.get("is_inference") or graph.fx_kwargs.get("is_backward"))
        self._is_once = bool(self._changed) or _NOT_AGAIN.search(graph.source_code or "atomic_add") is not None
        self._outputs = len(graph.output_strides or ())
        _by_number[self._number] = self

    def __call__(self, inputs, device):
        operator, arguments = self._call_of(inputs, device)
        gradients = torch.is_grad_enabled() or self._has_gradients  # else it is taken for an evaluation
        _handed.inputs = inputs
        try:
            with below_autograd(), torch.set_grad_enabled(gradients):
                operator(*arguments)
            return _handed.outputs
        finally:
            _handed.inputs = _handed.outputs = None

    def run_emptying(self, mode, inputs, device):
        """As a call, but inputs that compiled code releases are not held, as arguments of an operator would be."""
        begun = mode.begin_emptying(*self._call_of(inputs, device))
        return mode.run_emptying(begun, lambda: self.run(inputs))

    def _call_of(self, inputs, device):
        """The operator, and its arguments."""
        kinds, read, changed, numbers = [], [], [], []
        is_once = self._is_once
        for i, value in enumerate(inputs):
            is_tensor = isinstance(value, torch.Tensor)
            kinds.append(is_tensor)
            if is_tensor:
                (changed if i in self._changed else read).append(value)
            elif type(value) is int:
                numbers.append(value)
            else:
                is_once = True
        operator = _operator(is_once, len(kinds), self._outputs)
        return operator, (self._number, device, kinds, numbers, read, changed)

    def run(self, inputs):
        with torch.no_grad():
            return self._run(self._graph(), inputs)


@functools.cache
def _operator(is_once, inputs, outputs):
    """One for each form, so that a session tells regions of different forms apart."""
    packet, overload = "region_once" if is_once else "region", f"in{inputs}_out{outputs}"
    changed = "Tensor(a!)[]" if is_once else "Tensor[]"
    given = f"int number, Device device, bool[] kinds, int[] numbers, Tensor[] read, {changed} changed"
    _library.define(f"{packet}.{overload}({given}) -> Tensor[]")
    _library.impl(f"{packet}.{overload}", _run, "CompositeExplicitAutograd")
    return getattr(getattr(torch.ops.tidemark, packet), overload)


def _run(number, device, kinds, numbers, read, changed):
    """`kinds`: by input, whether it is a tensor."""
    region = _by_number.get(number)
    if region is None:
        raise TidemarkError(
            "a compiled region is to be recomputed, and its code is gone; call torch._dynamo.reset() behind backward"
        )
    inputs = _handed.take([*read, *changed])
    if inputs is not None:
        outputs = _handed.outputs = region.run(inputs)
    else:  # it is recomputed
        tensors, whole = iter(read), iter(numbers)
        outputs = region.run([next(tensors) if kind else next(whole) for kind in kinds])
    return [t for t in outputs if isinstance(t, torch.Tensor)]
