"""What a training loop does in one micro-batch around its model, learnt from its own code: what it calls the model with,
and what it makes of the output until it begins backward.

`step(model)` is that code, forward and backward of one micro-batch: a trainer's method with its arguments, say. It runs
twice with a stand-in for the model, to the model's call and from there to backward, and never further.
"""

import inspect

import torch

from .errors import CaptureError
from .wrappers import replaced


class _Reached(BaseException):
    """No Exception, which a loop may catch for reasons of its own."""

    def __init__(self, value):
        super().__init__()
        self.value = value


class _StandIn:
    """The model to all who look, but for its call."""

    def __init__(self, model, answer):
        self._model, self._answer = model, answer

    def __call__(self, *args, **kwargs):
        return self._answer(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._model, name)

    @property
    def __class__(self):
        return type(self._model)


def batch_of(step, model):
    """What the loop calls the model with: a tuple, or a dict where it gives names."""

    def answer(*args, **kwargs):
        raise _Reached((args, kwargs))

    args, kwargs = _reach(step, _StandIn(model, answer), "calls the model, so there is nothing to capture")
    if args and kwargs:
        names = inspect.signature(model.forward).parameters
        return dict(zip(names, args, strict=False)) | kwargs
    return kwargs or args


def loss_of(step, model, output):
    """The tensor that the loop would begin backward at, where the model gives `output`."""

    def backward(tensors, *_, **__):
        raise _Reached(tensors)

    with replaced(torch.autograd, "backward", backward):
        found = _reach(step, _StandIn(model, lambda *_, **__: output), "begins backward, so it has no loss to capture")
    return found if isinstance(found, torch.Tensor) else found[0]


def begin_scaler(scaler, device):
    """A GradScaler makes its tensors at its first use, which must not be that of a capture; None: there is none."""
    if scaler is not None:
        scaler.scale(torch.zeros((), device=device))


def _reach(step, model, what):
    try:
        step(model)
    except _Reached as reached:
        return reached.value
    raise CaptureError(f"the training step never {what}")
