"""Sees a step on fake tensors: nothing is computed, and no memory taken.

Thread rule: that of StepRecorder.
"""

import torch

from . import kernels, measure
from .cost import cost_ns
from .errors import CaptureError
from .geometry import Geometry, replace_tensors
from .step_recorder import StepRecorder
from .torch_internals import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, finished_work
from .tensor_parts import is_wrapper_type


class FakeRecorder(StepRecorder):
    """`data`: bounds.DataDependent; `rates`: costs are modelled from them; `describes`: for measuring every call."""

    def __init__(self, fake_mode, fakes, frames, data, rates, describes):
        super().__init__(frames)
        self.fake_mode = fake_mode
        self.fakes = fakes
        self.data = data
        self.rates = rates
        self.describes = describes

    def is_apart(self, types):
        return any(is_wrapper_type(t) for t in types)

    def is_without_memory(self, args, kwargs):
        return False

    def taken(self, value):
        """A loss function may close over real targets."""
        if all(isinstance(t, FakeTensor) for t in kernels.tensors(value)):
            return value
        return replace_tensors(value, lambda t: t if isinstance(t, FakeTensor) else self.fakes.of(t))

    def number(self, func, args):
        top = self.frames.top
        return self.data.number(args[0], self.is_in_forward(), (self.frames.micro_batch, top.path, top.call))

    def run(self, call, func, args, kwargs):
        # Of a collective others would have to take part.
        if self.describes and not call.is_opaque and not kernels.is_collective(func):
            call.description = measure.describe(func, args, kwargs)
        out = self.data.answer(func, args, kwargs, call.module)
        if out is None:
            out = _called(func, args, kwargs, call.module)
        call.cost = cost_ns(func, args, kwargs, out, self.rates)
        return out

    def content_of(self, tensor, save):
        return Geometry.of(tensor), tensor.device

    def tensor_of(self, save, content):
        geometry, device = content
        with self.fake_mode, torch.no_grad():
            base = torch.empty(save.bytes, dtype=torch.uint8, device=device)
            self.log.stand_in(base, save.storage)
            return geometry.over(base)


def _called(func, args, kwargs, module):
    if kernels.is_process_group_call(func):
        return _as_if_communicated(func, args)
    try:
        return func(*args, **kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise CaptureError(
            f"module {module!r} calls {func}, whose result's size depends on data; that cannot be captured on fake "
            f"tensors: capture with recorded=True"
        ) from error


def _as_if_communicated(func, args):
    """What a call of a process group returns, its first argument and a handle, without the others' taking part."""
    handle = finished_work(kernels.tensors(args[0]))
    return handle if len(func._schema.returns) == 1 else (args[0], handle)
