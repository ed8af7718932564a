"""The mode that stands for the session's engine among PyTorch's dispatch modes.

Kernels called under it go straight to the engine (csrc/kernel_watch.h). PyTorch's own code in Python, though, takes the
modes off their stack to print a tensor or to compile, and puts them back: what it handles is this object.
"""

from .tensor_parts import is_wrapper_type
from .torch_internals import TorchDispatchMode, unseen_by_modes


class WatchMode(TorchDispatchMode):
    sees_regions = True

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(is_wrapper_type(t) for t in types):
            return NotImplemented  # its own kernels are seen
        return func(*args, **(kwargs or {}))

    # RealRecorder's: backward, which sessions do not look at

    def begin_emptying(self, func, args):
        return None

    def run_emptying(self, _, run):
        with unseen_by_modes():
            return run()
