"""What torch.compile made, while a step is captured or a session runs: which of it runs compiled, and where in the model
that is.

A compiled module is a frame of its own, and what it calls is within that frame, as the compiler sees through the calls of
modules. Hooks are off meanwhile, so that nothing is compiled anew, or other than without a session. Optimizers are stepped by
code as it was written, because their hooks would be compiled along.

Thread rule: of the process, for the thread that enters it; in others what was compiled runs as it was written.
"""

import contextlib
import functools

from . import regions
from .torch_internals import compiled_calls, in_backward, runs_compiled_under_modes, top_mode, uncompiled, without_mode

_FUNCTION = "()"  # of any function that is no module's, where forward runs, its loss is made, or forward is recomputed


class CompiledCode:
    """`frames`: ModuleFrames of `model`. `known`: of what captured code ran compiled, as `met` has it; all else runs as it
    was written. None: all that is compiled runs so."""

    def __init__(self, model, frames, known=None):
        self._model = model
        self._frames = frames
        self._known = known
        self._met = {}
        self._is_within = False
        self._undo = contextlib.ExitStack()

    @property
    def met(self):
        """Module paths of what ran compiled, and "()" where functions did."""
        return list(self._met)

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            if not runs_compiled_under_modes or self._known == []:
                undo.enter_context(uncompiled())
            else:
                self._wrap_calls(undo)
                undo.enter_context(compiled_calls(self))
                undo.callback(self.end)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self._undo.close()

    def _wrap_calls(self, undo):
        """Of modules that module.compile() was called of: they have no hooks of their own while they run compiled."""
        for module in self._model.modules():
            call = module.__dict__.get("_compiled_call_impl")
            if call is not None:
                ours = module._compiled_call_impl = functools.partial(self._frames.call_compiled, module, call)
                undo.callback(_put_back, module, ours, call)

    # What compiled_calls() tells

    def begin(self):
        module = self._frames.take_expected()
        if not self._is_within:
            name = self._name_of(module)
            if name is None or (self._known is not None and name not in self._known):
                return False
            self._met[name] = None
            self._is_within = True
        if module is not None:
            self._frames.enter_compiled(module)
        self._frames.hide()
        return True

    def _name_of(self, module):
        if module is not None:
            return self._frames.name_of(module)
        return _FUNCTION if self._frames.is_open or in_backward() else None

    def end(self):
        self._is_within = False
        self._frames.show()

    @staticmethod
    def compiling():
        if getattr(top_mode(), "sees_regions", False):
            return without_mode()
        return contextlib.nullcontext()

    region = staticmethod(regions.call)


def _put_back(module, ours, call):
    if module._compiled_call_impl is ours:  # else it was compiled anew meanwhile
        module._compiled_call_impl = call
