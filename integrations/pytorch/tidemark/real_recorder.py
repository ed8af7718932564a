"""Sees a step that runs: kernels, sizes, branches and workspaces as they come.

What autograd saves goes to host memory and comes back when backward asks for it, so that the step needs no more of the
device than what stands anyway, gradients, and what one module's kernels need at once. On a CPU the host memory is beside
the allocator's, and its limit.

Thread rule: that of StepRecorder.
"""

import dataclasses
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import allocator, kernels, measure
from .call_parts import parts_of_call
from .cost import cost_ns
from .geometry import Geometry, storage_of
from .host_copy import HostCopy
from .kernel_requests import requests_of
from .step_log import SeenCall
from .step_recorder import StepRecorder, made_by
from .tensor_parts import is_wrapper_type
from .torch_internals import FakeTensor, is_faked, take_off, unseen_by_modes


class RealRecorder(StepRecorder):
    """`rates`: costs are modelled from them; None: measured, as the fastest of equal calls. `on_change(tensor)`
    hears of what is there before the step and is about to be changed. `is_forgiving`: what it cannot see ends the recording
    (`failure`), and the step goes on."""

    sees_regions = True

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __init__(self, frames, device, rates, on_change=None, is_forgiving=False):
        super().__init__(frames)
        self._device = device
        self._kind = torch.device(device).type
        self._clock = measure.Clock(device)
        self._rates = rates
        self._on_change = on_change
        self._is_forgiving = is_forgiving
        self.failure = None  # the exception that ended it
        self._made = None  # Made, while a kernel runs
        self._changes = {}  # of each storage so far
        self._copies = weakref.WeakValueDictionary()  # (storage, changes): HostCopy
        self._back = {}  # storage: StorageWeakRef of what came back
        self._fastest = {}
        self._keys = {}  # by number of the call
        self._stream = self._current_stream()

    def __enter__(self):
        self._resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = lambda storage, size: self._resized(storage, size)
        allocator.watch_others(self._kind)
        return super().__enter__()

    def __exit__(self, *error):
        self._leave_others()
        return super().__exit__(*error)

    def leave(self, put_instead):
        """In the place of __exit__(), whatever modes were entered meanwhile: see take_off()."""
        self._leave_others()
        take_off(self, put_instead)
        self.is_over = True

    def _leave_others(self):
        torch.UntypedStorage.resize_ = self._resize
        allocator.watch_others(self._kind, False)

    def give_up(self, error):
        """No more is seen; what autograd saves from here on it holds itself."""
        self.failure = self.failure or error.with_traceback(None)  # which holds tensors
        self.is_over = True

    def _resized(self, storage, size):
        """As FSDP gives up and takes the memory of gathered parameters, by no kernel."""
        before = storage.nbytes()
        self._resize(storage, size)
        if not self.is_paused and not self.is_over and before != storage.nbytes():
            self.log.resize(storage, self.frames, self.phase, self._is_aside())
        return storage

    def _current_stream(self):
        return None if self._kind == "cpu" else getattr(torch, self._kind).current_stream()

    def _is_aside(self):
        return self._current_stream() != self._stream

    def is_apart(self, types):
        return any(is_wrapper_type(t) for t in types)

    def is_without_memory(self, args, kwargs):
        return is_faked() or kernels.is_on_meta(args, kwargs)

    def taken(self, value):
        return value

    def number(self, func, args):
        return func(*args)

    def _record(self, func, args, kwargs):
        made = self._made = Made()
        try:
            return super()._record(func, args, kwargs)
        except Exception as error:
            if not self._is_forgiving or made.has_failed:
                raise
            self.give_up(error)
        finally:
            self._made = None  # no longer than its caller has it
        return made.out if made.is_there else func(*args, **kwargs)

    def run(self, call, func, args, kwargs):
        self._tell_of_changes(func, args, kwargs)
        key = repr(measure.describe(func, args, kwargs))
        with allocator.log(self._device) as events:
            self._clock.begin()
            out = self._made.by(lambda: func(*args, **kwargs))
            took = self._clock.end()
        outputs = [_address(part) for part in made_by(out)]
        call.requests, call.transient_bytes = requests_of(events, outputs, self._kind)
        # Of threads of a communication library, which ask when they get to it: there is to be room, at no set place.
        call.transient_bytes += allocator.take_others_peak(self._kind)
        call.is_aside = self._is_aside()
        cost = took if self._rates is None else cost_ns(func, args, kwargs, out, self._rates)
        self._note_cost(call, len(self.log.calls), key, cost)
        return out

    def _note_cost(self, call, number, key, cost):
        call.cost = cost
        self._keys[number] = key
        self._fastest[key] = min(cost, self._fastest.get(key, cost))

    def settle_costs(self):
        """When the step is over: equal calls cost what the fastest of them took."""
        for number, key in self._keys.items():
            self.log.calls[number].cost = max(self._fastest[key], 1)

    # A call in backward that releases its arguments as it goes

    def begin_emptying(self, func, args):
        """What run_emptying() is to be given; it holds no tensor. None: the call is not seen."""
        if self.is_paused or self.is_over or self.is_without_memory(args, {}):
            return None
        try:
            return self._begun_emptying(func, args)
        except Exception as error:
            if not self._is_forgiving:
                raise
            self.give_up(error)
            return None

    def _begun_emptying(self, func, args):
        self.changed_views.settle()
        self.log.bury()
        self._tell_of_changes(func, args, {})
        call = self._begun(func, args, {})
        call.writes = list(dict.fromkeys(self.log.id_of(t) for t in kernels.mutated(func, args, {})))
        call.in_place = bool(call.writes)
        call.is_aside = self._is_aside()
        held = {_address(t): self.log.id_of(t) for t in kernels.tensors(args)}
        return Emptying(call, repr(measure.describe(func, args, {})), held)

    def run_emptying(self, begun, run):
        """Makes the call, which is seen as several: one for each time that it releases some and asks for memory again."""
        if begun is None:
            with unseen_by_modes():
                return run()
        made = self._made = Made()
        try:
            self._see_emptying(begun, run)
        except Exception as error:
            if not self._is_forgiving or made.has_failed:
                raise
            self.give_up(error)
        finally:
            self._made = None
        return made.out if made.is_there else self.run_emptying(None, run)

    def _see_emptying(self, begun, run):
        with allocator.log(self._device) as events, unseen_by_modes():
            self._clock.begin()
            out = self._made.by(run)
            took = self._clock.end()
        made = made_by(out)
        parts = parts_of_call(events, [_address(t) for t in made], begun.held, self._kind)
        parts[-1].room += allocator.take_others_peak(self._kind)
        self._add_parts(begun, parts, made, took)

    def _add_parts(self, begun, parts, made, took):
        first = len(self.log.calls)
        kept_until = {number: part for part, one in enumerate(parts) for number in one.releases}
        requested = {i for part in parts for i in part.returned}
        for n, part in enumerate(parts):
            call = dataclasses.replace(begun.call, reads=[s for s in begun.call.reads if kept_until.get(s, n) >= n])
            returned = list(part.returned)
            if n == len(parts) - 1:
                returned += [i for i in range(len(made)) if i not in requested]
            outputs = self._outputs(call, [made[i] for i in returned])
            name = f"{call.func._overloadpacket.__name__}.{first + n}"
            crossing = [self.log.add_unseen(name, bytes_) for bytes_, _ in part.crossing]
            call.outputs = (*outputs, *crossing)
            writes = call.writes if n == 0 else []
            call.writes = [*writes, *(o for o in call.outputs if o is not None)]
            call.requests, call.transient_bytes = part.requests, part.room
            self._note_cost(call, first + n, (begun.key, n), took // len(parts))
            self.log.calls.append(call)
            for number, (_, last) in zip(crossing, part.crossing, strict=True):
                self.log.storages[number].died = first + last
        for number, part in kept_until.items():
            self.log.note_release(number, first + part)

    def _tell_of_changes(self, func, args, kwargs):
        changed = kernels.mutated(func, args, kwargs) + kernels.changed_statistics(func, args)
        for tensor in changed:
            number = self.log.id_of(tensor)
            if self._on_change is not None and self.log.storages[number].born < 0:
                self._on_change(tensor)
            self._changes[number] = self._changes.get(number, 0) + 1

    # What autograd saves

    def _pack(self, tensor, is_part=False):
        if not self.is_over:
            try:
                return super()._pack(tensor, is_part)
            except Exception as error:
                if not self._is_forgiving:
                    raise
                self.give_up(error)
        return None, Kept.of(tensor)

    def _unpack(self, packed):
        save, content = packed
        return content.tensor if save is None else super()._unpack(packed)

    def content_of(self, tensor, save):
        if self.log.storages[save.storage].born < 0:  # there anyway
            return Kept.of(tensor)
        key = save.storage, self._changes.get(save.storage, 0)
        copy = self._copies.get(key)
        if copy is None:
            copy = self._copies[key] = HostCopy(tensor)
        return Moved(copy, StorageWeakRef(tensor.untyped_storage()), Geometry.of(tensor), key[1])

    def tensor_of(self, save, content):
        if isinstance(content, Kept):
            return content.tensor
        with torch.no_grad():
            storage = self._storage(save, content)
            return content.geometry.over_storage(storage, storage.device)

    def _storage(self, save, content):
        """What is there yet, as the framework holds it or backward has asked for it before; else it comes back."""
        if self._changes.get(save.storage, 0) == content.changes:
            for ref in (content.original, self._back.get(save.storage)):
                storage = None if ref is None or ref.expired() else torch.UntypedStorage._new_with_weak_ptr(ref.cdata)
                if storage is not None:
                    return storage
        base = content.copy.restored()
        self.log.stand_in(base, save.storage)
        storage = base.untyped_storage()
        self._back[save.storage] = StorageWeakRef(storage)
        return storage


def _address(tensor):
    return None if isinstance(tensor, FakeTensor) else storage_of(tensor).data_ptr()


class Made:
    """What a kernel has made of a call: its own exceptions are the loop's."""

    def __init__(self):
        self.out = None
        self.is_there = self.has_failed = False

    def by(self, call):
        try:
            self.out = call()
        except BaseException:
            self.has_failed = True
            raise
        self.is_there = True
        return self.out


@dataclasses.dataclass(frozen=True)
class Emptying:
    call: SeenCall  # as a whole
    key: str  # of its cost
    held: dict  # address: number of a storage that it is given


class Kept:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor

    @staticmethod
    def of(tensor):
        """A leaf as it is: it is known by itself."""
        return Kept(tensor if tensor.is_leaf and tensor.requires_grad else tensor.detach())


class Moved:
    """A tensor in host memory. `changes`: of its storage, before it was saved."""

    __slots__ = ("copy", "original", "geometry", "changes")

    def __init__(self, copy, original, geometry, changes):
        self.copy = copy
        self.original = original
        self.geometry = geometry
        self.changes = changes
