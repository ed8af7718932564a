"""What frameworks put around models and optimizers, and what is inside. A session follows what is inside: its modules
are the ones that run, and its parameters the ones that are trained.

accelerate's autocast stands in the model's own `forward` and is captured as it is.
"""

import contextlib

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .errors import BadTypeError, CaptureError


def inner_model(model):
    """Of DistributedDataParallel and of what torch.compile made, as often as they are there."""
    while True:
        if isinstance(model, DataParallel):
            raise CaptureError(
                "DataParallel copies the model to several devices at every step, which no session follows; give "
                "tidemark its module, and train with DistributedDataParallel or on one device"
            )
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif isinstance(model, torch.nn.Module) and isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):
            model = model._orig_mod
        else:
            return model


def called_model(model):
    """What a loop calls that has `model`, without DistributedDataParallel around it: the inner model, or what torch.compile
    made of it."""
    while isinstance(model, DistributedDataParallel):
        model = model.module
    inner = inner_model(model)
    return model if getattr(model, "_orig_mod", None) is inner else inner


def inner_optimizer(optimizer):
    """Of an AcceleratedOptimizer and its like: the one that steps."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    return optimizer


@contextlib.contextmanager
def replaced(owner, name, value):
    """An attribute is another inside, and behind it what it was: the object's own, its class's, or none."""
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def forward_within(model, context):
    """A context manager: the model's forward runs within `context`, as within()."""
    if context is None:
        return contextlib.nullcontext()
    return replaced(model, "forward", within(context, model.forward))


def check_context(context):
    """Raises BadTypeError for what within() cannot take."""
    if context is not None and not hasattr(context, "__enter__") and not callable(context):
        raise BadTypeError(f"autocast is of type {type(context).__name__}; right would be what the loop has around forward")


def within(context, function):
    """The function, each call of it within `context`: a context manager that may be entered again, as torch.autocast, or
    a function that makes one; None: the function as it is."""
    if context is None or function is None:
        return function

    def called(*args, **kwargs):
        with context if hasattr(context, "__enter__") else context():
            return function(*args, **kwargs)

    return called
