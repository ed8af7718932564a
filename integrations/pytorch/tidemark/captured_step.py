"""The step that is captured: what runs in it, and what is there before it.

Thread rule: that of capture.
"""

import contextlib
import dataclasses
import functools

import torch

from . import kernels
from .backward_calls import around_backward
from .errors import CaptureError
from .frames import ModuleFrames
from .one_step import call_model, run_pipeline, run_step


@dataclasses.dataclass(frozen=True)
class CapturedStep:
    model: object
    inputs: object
    loss_fn: object
    optimizer: object
    micro_batches: int
    chunks: int
    order: list | None
    device: str
    holds_output: bool
    called: object  # in the place of the model: itself, or what torch.compile made of it

    def frames(self):
        """For a recorder; the model may be called once in each micro-batch."""
        return OneCallFrames(self.model)

    def call_once(self, frames, inputs):
        """What the program makes at the first call of the model is there when the step begins."""
        for chunk in range(self.chunks):
            frames.forget()
            call_model(self.called, inputs if self.order is None else (*inputs, chunk))
        frames.forget()

    def run(self, recorder, inputs, optimizer):
        """`inputs`: those of each micro-batch."""
        with recorder.frames, recorder, gradients_are_backward(recorder):
            if self.order is None:
                run_step(recorder, self.called, inputs, self.loss_fn, optimizer, self.holds_output)
            else:
                run_pipeline(recorder, self.called, inputs[0], self.loss_fn, optimizer, self.chunks, self.order)


class OneCallFrames(ModuleFrames):
    def __init__(self, model):
        super().__init__(model, on_begin=self._begin)
        self._begun = set()

    def forget(self):
        self._begun.clear()

    def _begin(self):
        if self.micro_batch in self._begun:
            raise CaptureError(
                "the model is called a second time for one loss; capture a module around it whose forward makes all of "
                "the calls"
            )
        self._begun.add(self.micro_batch)


@contextlib.contextmanager
def gradients_are_backward(recorder):
    """What torch.autograd.grad() calls itself, within forward too, is no work of the model's: a session does not look
    at it either."""

    def as_backward(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            phase, recorder.phase = recorder.phase, "backward"
            recorder.frames.is_open = False
            try:
                return function(*args, **kwargs)
            finally:
                recorder.phase = phase

        return wrapped

    with around_backward(as_backward):
        yield


def know_residents(log, model, inputs, optimizer):
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        log.know(tensor, path, "parameter")
    for batch in inputs:
        for i, tensor in enumerate(kernels.tensors(batch)):
            log.know(tensor, f"input.{i}", "input")
    if optimizer is not None:
        for i, state in enumerate(optimizer.state.values()):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    log.know(value, f"{key}.{i}", "optimizer_state")
