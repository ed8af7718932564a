"""What a recorder saw of a training step: calls of kernels, storages and what autograd saved, in order.

Thread rule: that of the recorder.
"""

import dataclasses

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .geometry import storage_of
from .tensor_parts import parts_of


@dataclasses.dataclass
class SeenStorage:
    name: str
    bytes: int
    role: str
    module: str
    born: int  # call that wrote it first, -1: there before
    died: int | None = None  # last call before it was gone
    ref: StorageWeakRef | None = None
    was_resized: bool = False  # outside of kernels: its content is gone, saved or not
    released_after: list = dataclasses.field(default_factory=list)  # calls: the last parts to hold it


@dataclasses.dataclass
class SeenCall:
    func: object
    site: object
    reads: list
    writes: list
    outputs: tuple
    phase: str
    module: str
    cost: int
    micro_batch: int
    node: object = None  # of autograd's graph, in backward
    in_place: bool = False
    description: tuple | None = None  # for measuring
    transient_bytes: int = 0
    would_be_in_place: bool = False  # see in_place.py
    requests: list | None = None  # measure.KernelRequest, where it was measured
    is_opaque: bool = False  # see kernels.is_opaque()
    to_host: bool = False  # see kernels.copies_to_host()
    is_aside: bool = False  # on another stream than the step's


@dataclasses.dataclass
class SeenSave:
    site: object
    storage: int
    bytes: int
    after: int  # calls so far
    is_leaf: bool  # which autograd has whether it is saved or not: a session does not hear of its being asked for
    is_part: bool = False  # of a tensor that is made of others
    uses: list = dataclasses.field(default_factory=list)  # calls so far at each unpacking


class StepLog:
    """Storage numbers are in order of first sight."""

    def __init__(self):
        self.calls = []
        self.storages = []
        self.saves = []
        self._ids = {}
        self._live = []
        self._stand_ins = []
        self._found = {}  # storage: the call that read it first

    def know(self, tensor, name, role):
        """What is there before the step."""
        for part in parts_of(tensor):
            storage = storage_of(part)
            if storage._cdata not in self._ids:
                self._add(storage, SeenStorage(name, storage.nbytes(), role, "", -1))

    def id_of(self, tensor):
        storage = storage_of(tensor)
        found = self._ids.get(storage._cdata)
        if found is None:  # made outside: a constant
            found = self._add(storage, SeenStorage(f"constant.{len(self.storages)}", storage.nbytes(), "input", "", -1))
        return found

    def find_since(self, count):
        """Of the storages behind the first `count`: the next call, of backward or of the optimizer, is the first to read
        them, and no call made them. What is gone when the step is over was made within it, as a communication library
        makes buffers of its own."""
        for number in range(count, len(self.storages)):
            self._found[number] = len(self.calls)
            self._live.append(number)

    def end(self):
        """The step is over: what is there now outlives it."""
        self.bury()
        for number, first in self._found.items():
            seen, call = self.storages[number], self.calls[first]
            if seen.died is not None:
                seen.born, seen.role = first, "temporary"
                call.reads = [s for s in call.reads if s != number]
                call.writes = [*call.writes, number]

    def knows(self, tensor):
        return storage_of(tensor)._cdata in self._ids

    def add_made(self, tensor, seen):
        """The storage that the next call has made. Returns its number."""
        number = self._add(storage_of(tensor), seen)
        if seen.born >= 0:
            self._live.append(number)
        return number

    def stand_in(self, tensor, number):
        """`tensor` stands in for what storage `number` holds."""
        storage = tensor.untyped_storage()
        self._ids[storage._cdata] = number
        self._stand_ins.append(StorageWeakRef(storage))

    def stand_in_for(self, tensor, other):
        """`tensor` for `other`, part by part."""
        for part, real in zip(parts_of(tensor), parts_of(other), strict=True):
            self.stand_in(part, self.id_of(real))

    def resize(self, storage, frames, phase, is_aside=False):
        """Behind a change of a storage's size outside of kernels: what it was is gone, and it is another, which a call
        of its own makes."""
        number = self._ids.pop(storage._cdata, None)
        if number is not None:
            self.storages[number].died = len(self.calls) - 1
            self.storages[number].was_resized = True
            self._live = [s for s in self._live if s != number]
        if storage.nbytes() == 0:
            return
        made = len(self.calls)
        seen = SeenStorage(f"resized.{len(self.storages)}", storage.nbytes(), "temporary", frames.top.path, made)
        self._live.append(self._add(storage, seen))
        outputs = (len(self.storages) - 1,)
        # In forward it would have a place among the kernels, which a session counts and no resizing is one of.
        phase = "backward" if phase == "forward" else phase
        call = SeenCall(torch.ops.aten.empty.memory_format, None, [], list(outputs), outputs, phase, "", 1, 0)
        call.is_aside = is_aside
        self.calls.append(call)

    def bury(self):
        """Notes which storages have gone since the last call."""
        alive = []
        for s in self._live:
            seen = self.storages[s]
            if seen.ref.expired():
                seen.died = len(self.calls) - 1
            else:
                alive.append(s)
        self._live = alive

    def add_unseen(self, name, bytes_):
        """A storage that the next call makes for later ones, and that no tensor shows. Returns its number."""
        self.storages.append(SeenStorage(name, bytes_, "temporary", "", len(self.calls)))
        self.storages[-1].ref = StorageWeakRef(torch.UntypedStorage(0))
        return len(self.storages) - 1

    def note_release(self, number, call):
        """The call is the last part to hold the storage."""
        seen = self.storages[number]
        seen.released_after.append(call)
        if seen.ref.expired() and (number in self._live or seen.died is None):
            seen.died = call
            self._live = [s for s in self._live if s != number]

    def mark_role(self, tensor, role, name):
        for part in parts_of(tensor):
            seen = self.storages[self.id_of(part)]
            if seen.role in ("activation", "temporary"):
                seen.role = role
                seen.name = name

    def _add(self, storage, seen):
        seen.ref = StorageWeakRef(storage)  # also keeps the number from being used again
        self._ids[storage._cdata] = len(self.storages)
        self.storages.append(seen)
        return len(self.storages) - 1
