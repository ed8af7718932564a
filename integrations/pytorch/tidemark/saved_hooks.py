"""The hooks for saved tensors that a session pushes while its plan recomputes or swaps."""

from . import library
from .tensor_parts import WrapperHooks, is_wrapper
from .torch_internals import pop_saved_tensors_hooks, push_saved_tensors_hooks


def pop_if_on_top(pack):
    """Pops the hooks that pack by this object, unless others are on top of them. Whether it did."""
    if library.engine().top_pack_hook() is not pack:
        return False
    pop_saved_tensors_hooks()
    return True


class SavedHooks:
    """Of one session over `model`, begun at `place`."""

    def __init__(self, model, place):
        self._model, self._place = model, place
        self._hooks = None
        self._left = []  # packs of recordings that are over, beneath hooks of the loop's

    @property
    def are_pushed(self):
        return self._hooks is not None

    def push(self, engine, graph):
        """`graph`: of the step that the plan is of."""
        hooks = engine
        if any(save.is_part for save in graph.saves) or any(is_wrapper(p) for p in self._model.parameters()):
            hooks = WrapperHooks(engine.pack, engine.unpack)
        self._hooks = hooks.pack, hooks.unpack
        push_saved_tensors_hooks(*self._hooks)

    def pop(self):
        if self._hooks and self._place.is_this_thread():  # a child may have been forked in another
            pop_saved_tensors_hooks()
        self._hooks = None
        self._pop_left()

    def leave(self, pack):
        """A recording's, if not None: to be popped when the loop's own on top of them have gone."""
        if pack is not None:
            self._left.append(pack)

    def _pop_left(self):
        while self._left and pop_if_on_top(self._left[-1]):
            self._left.pop()

    def spare(self, plan):
        """Pops those that a plan which keeps everything needs not, if none were pushed on top of them."""
        if self.are_pushed and plan.keeps_all and self.are_on_top():
            self.pop()

    def are_on_top(self):
        """Whether no others are on top of the session's, which would be popped in their place."""
        self._pop_left()
        top = library.engine().top_pack_hook()
        return top is None if self._hooks is None else top is self._hooks[0]
