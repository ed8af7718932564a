"""The part of capture that sees a step: every kernel below autograd, and what autograd saves.

While a step runs under a recorder, autograd holds nothing of what it saves: packing a tensor notes its storage, and
unpacking makes one of the same geometry. When a storage dies in such a run is therefore when the framework itself, local
variables included, releases it; from then on it is the plan's.

Thread rule: runs in the thread that captures, and in those of backward.
"""

import contextlib
import functools

from torch import Tensor

from . import kernels
from .changed_views import ChangedViews
from .geometry import storage_of
from .in_place import NodeEnds, changes_own, fills_zeros
from .step_log import SeenCall, SeenSave, SeenStorage, StepLog
from .torch_internals import TorchDispatchMode, in_backward, is_compiling, node_of_backward
from .tensor_parts import WrapperHooks, parts_of

_ROLES = {"forward": "activation", "backward": "temporary", "optimizer": "temporary"}


class StepRecorder(TorchDispatchMode):
    """FakeRecorder and RealRecorder say what a call is made on, and how."""

    def __init__(self, frames):
        super().__init__()
        self.frames = frames
        self.log = StepLog()
        self.phase = "forward"
        self.node_ends = NodeEnds()
        self.changed_views = ChangedViews()
        self.is_paused = False
        self.is_over = False  # for good
        hooks = WrapperHooks(self._pack, self._unpack, functools.partial(self._pack, is_part=True))
        self.pack, self.unpack = hooks.pack, hooks.unpack  # of what autograd saves

    @contextlib.contextmanager
    def paused(self):
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.is_apart(types):
            return NotImplemented  # its own kernels are seen
        args, kwargs = self.taken(args), self.taken(kwargs or {})
        if kernels.is_read(func):
            return self.number(func, args)
        if self.is_paused or self.is_over or is_compiling():
            return func(*args, **kwargs)
        if kernels.makes_nothing(func) or self.is_without_memory(args, kwargs):
            return func(*args, **kwargs)
        return self._record(func, args, kwargs)

    # What the step runs on

    def is_apart(self, types):
        """Whether a kernel of such tensors is made of kernels of others."""
        raise NotImplementedError

    def is_without_memory(self, args, kwargs):
        """Whether the call asks for shapes alone, as DTensor does before it makes one."""
        raise NotImplementedError

    def taken(self, value):
        """Arguments as the kernel is to have them."""
        raise NotImplementedError

    def number(self, func, args):
        """What reading a number off a tensor gives."""
        raise NotImplementedError

    def run(self, call, func, args, kwargs):
        """Makes the call; what is measured goes into `call`, a SeenCall."""
        raise NotImplementedError

    def content_of(self, tensor, save):
        """What is packed of a tensor that is saved."""
        raise NotImplementedError

    def tensor_of(self, save, content):
        """What is unpacked: a tensor whose storage is that of the save."""
        raise NotImplementedError

    # Kernels

    def _record(self, func, args, kwargs):
        self.changed_views.settle()
        self.log.bury()
        call = self._begun(func, args, kwargs)
        out = self.run(call, func, args, kwargs)
        mutated = kernels.mutated(func, args, kwargs)
        if call.phase == "forward":
            self.changed_views.note(mutated)
        writes = list(dict.fromkeys(self.log.id_of(t) for t in mutated))
        call.in_place = bool(writes)
        call.outputs = self._outputs(call, out)
        call.writes = writes + [o for o in call.outputs if o is not None]
        self.log.calls.append(call)
        return out

    def _begun(self, func, args, kwargs):
        backward = in_backward()
        phase = "backward" if backward else self.phase
        site = self.frames.next_call() if phase == "forward" else None
        module = self.frames.top.path if phase == "forward" else ""
        node = node_of_backward() if backward else None
        would_be_in_place = backward and self._would_be_in_place(func, args, node)
        known = len(self.log.storages)
        shown = kernels.without_side_effects(func, args)
        reads = list(dict.fromkeys(self.log.id_of(t) for t in (*kernels.tensors(shown), *kernels.tensors(kwargs))))
        if phase != "forward":
            self.log.find_since(known)
        return SeenCall(
            func,
            site,
            reads,
            [],
            (),
            phase,
            module,
            0,
            self.frames.micro_batch,
            node,
            would_be_in_place=would_be_in_place,
            is_opaque=kernels.is_opaque(func),
            to_host=kernels.copies_to_host(func, args, kwargs),
        )

    def _outputs(self, call, out):
        outputs, on_host = [], kernels.host_outputs(call.func)
        for tensor in made_by(out):
            if self.log.knows(tensor):
                outputs.append(None)
                continue
            name = f"{call.module or call.phase}.{call.func._overloadpacket.__name__}.{len(self.log.storages)}"
            bytes_ = storage_of(tensor).nbytes()
            seen = SeenStorage(name, bytes_, _ROLES[call.phase], call.module, len(self.log.calls))
            if len(outputs) in on_host:  # no memory of the device, and there for whoever asks
                seen.bytes, seen.role, seen.born = 0, "input", -1
                self.log.add_made(tensor, seen)
                outputs.append(None)
                continue
            outputs.append(self.log.add_made(tensor, seen))
        return tuple(outputs)

    def is_in_forward(self):
        return self.phase == "forward" and not in_backward()

    def _would_be_in_place(self, func, args, node):
        if self.node_ends.adds_up(func, args) or changes_own(func, args, node):
            return True
        return bool(args) and isinstance(args[0], Tensor) and fills_zeros(func, self.log.id_of(args[0]), self.log, node)

    # What autograd saves

    def _pack(self, tensor, is_part=False):
        """Keeps nothing of the tensor but its geometry, and what content_of() does."""
        with self.paused():
            tensor = self.taken(tensor)
            is_leaf = tensor.is_leaf and tensor.requires_grad
            part = parts_of(tensor)[0]  # of a leaf; others come part by part
            bytes_ = storage_of(part).nbytes()
            save = SeenSave(self.frames.next_save(), self.log.id_of(part), bytes_, len(self.log.calls), is_leaf, is_part)
            self.log.saves.append(save)
            return save, self.content_of(tensor, save)

    def _unpack(self, packed):
        save, content = packed
        if not save.is_leaf:
            save.uses.append(len(self.log.calls))
        with self.paused():
            return self.tensor_of(save, content)


def made_by(out):
    """The tensors with storages that a call returned, in order."""
    return [part for tensor in kernels.tensors(out) for part in parts_of(tensor)]
