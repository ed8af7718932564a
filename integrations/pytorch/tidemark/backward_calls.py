"""Where a loop runs backward: torch.autograd.backward(), torch.autograd.grad(), and autograd's engine itself, which loops
call that have given up the memory of an output they have sent on, as Megatron-Core's do.

Thread rule: of the process.
"""

import contextlib
import functools
import threading

import torch

from .frames import OUTSIDE
from .torch_internals import backward_engine_replaced
from .wrappers import replaced


@contextlib.contextmanager
def around_backward(wrap):
    """Inside, each of these functions is what `wrap(function)` gives. The engine's is so where it is called by the loop, and as
    it was where torch.autograd calls it."""
    calls = threading.local()
    with contextlib.ExitStack() as undo:
        for name in ("backward", "grad"):
            function = wrap(getattr(torch.autograd, name))
            undo.enter_context(replaced(torch.autograd, name, _counted(function, calls)))
        undo.enter_context(backward_engine_replaced(lambda engine: _Engine(engine, wrap, calls)))
        yield


def is_within_forward(frames, kwargs):
    """Whether what comes behind such a call, which has these arguments, is of forward yet: it is made in the model's, or
    what it makes is differentiated again. `frames`: ModuleFrames."""
    return frames.top.path != OUTSIDE or bool(kwargs.get("create_graph"))


def _counted(function, calls):
    @functools.wraps(function)
    def counted(*args, **kwargs):
        calls.open = getattr(calls, "open", 0) + 1
        try:
            return function(*args, **kwargs)
        finally:
            calls.open -= 1

    return counted


class _Engine:
    """Autograd's to all who ask, but for backward that the loop itself has it run."""

    def __init__(self, engine, wrap, calls):
        self._engine, self._calls = engine, calls
        self._wrapped = wrap(engine.run_backward)

    def run_backward(self, *args, **kwargs):
        is_of_torch = getattr(self._calls, "open", 0) > 0
        return (self._engine.run_backward if is_of_torch else self._wrapped)(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._engine, name)
