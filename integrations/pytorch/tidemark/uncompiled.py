"""What torch.compile made runs as it was written while a step is captured or a session is active: both look at single
kernels, and PyTorch would not compile again what it met once under the modes they use.

Thread rule: of the process; other threads run uncompiled meanwhile.
"""

import contextlib
import sys


@contextlib.contextmanager
def uncompiled():
    """As when PyTorch's own switch of its compiler is off. Where the compiler was never loaded nothing is compiled."""
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
