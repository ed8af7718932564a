"""One micro-batch on its way through forward and backward: what of it is in device memory, in host memory, or to be
rebuilt. Lives as long as autograd's graph of the micro-batch, whose saved tensors refer to it.

Correct whatever the plan says: a storage that cannot be rebuilt is given up only when nothing can ask for it any more.
"""

import torch

from .rebuild import Geometry, run_again, sources
from .schedule import BACK, BEGIN, RUN, WAIT


class SavedHandle:
    """What autograd keeps in the place of a tensor."""

    __slots__ = ("state", "storage", "geometry", "planned", "version")

    def __init__(self, state, storage, geometry, planned):
        self.state = state
        self.storage = storage
        self.geometry = geometry
        self.planned = planned
        self.version = state.versions.get(storage, 0)


class KeptTensor:
    """A tensor that stays, and the version it had. Without its history: autograd's graph must not hold itself. Where
    the plan knows it, asking for it says how far backward is."""

    __slots__ = ("tensor", "version", "state", "use")

    def __init__(self, tensor, state=None, use=None):
        self.tensor = tensor.detach()
        self.version = tensor._version
        self.state = state
        self.use = use

    def get(self):
        check_version(tuple(self.tensor.shape), self.tensor._version, self.version)
        return self.tensor


def check_version(shape, version, expected):
    """As autograd does for what it saves without hooks."""
    if version != expected:
        raise RuntimeError(
            f"a tensor of shape {shape} needed for gradient computation has been modified in place: it is at version "
            f"{version}, expected version {expected}"
        )


class StepState:
    def __init__(self, batch, host, counters):
        self.batch = batch
        self.host = host
        self.counters = counters
        self.table = {}  # storage -> tensor over it
        self.versions = {}  # storage -> changes in place since it was made
        self.spared = set()  # storages that can no longer be rebuilt
        self.by_address = {}
        self.in_host = {}  # storage -> copy, on its way or there
        self.coming = {}  # storage -> on its way back
        self.makers = {}  # storage -> operation that made it
        self.recorded = {}  # operation -> calls
        self.outstanding = {}  # storage -> saved tensors not asked for yet
        self.cursor = 0  # in batch.steps
        self.sharing = {}  # (storage, operation): saved tensors that the node before it will ask for

    # Forward

    def storage_of(self, tensor):
        return self.by_address.get(tensor.untyped_storage()._cdata)

    def take(self, storage, tensor):
        """Looks after a storage from now on."""
        self.table[storage] = tensor.detach()
        self.by_address[tensor.untyped_storage()._cdata] = storage

    def before_change(self, tensor, planned):
        """A kernel is about to change `tensor` in place. Where the plan does not know, what would be rebuilt from the
        old bytes is rebuilt now and stays."""
        storage = self.storage_of(tensor)
        if storage is None:
            return
        self.versions[storage] = self.versions.get(storage, 0) + 1
        self.in_host.pop(storage, None)
        if planned:
            return
        self.spared.add(storage)
        for calls in self.recorded.values():
            if any(storage in sources(call.args) or storage in sources(call.kwargs) for call in calls):
                for s in {o for call in calls for o in call.outputs if o is not None}:
                    self.get(s)
                    self.spared.add(s)

    def save(self, tensor, planned):
        storage, key = planned.storage, (planned.storage, planned.use)
        self.outstanding[storage] = self.outstanding.get(storage, 0) + 1
        self.sharing[key] = self.sharing.get(key, 0) + 1
        return SavedHandle(self, storage, Geometry.of(tensor), planned)

    # Progress

    def advance_to(self, op):
        """Carries out every instruction that is due before the original operation `op`."""
        steps = self.batch.steps
        while self.cursor < len(steps) and steps[self.cursor].before <= op:
            step = steps[self.cursor]
            self.cursor += 1
            if step.kind == RUN:
                self._run(step.target, step.kept)
            elif step.kind == WAIT:
                if step.target in self.in_host:
                    self.host.wait(self.in_host[step.target])
            elif step.kind in (BEGIN, BACK):
                if step.target in self.in_host and step.target not in self.table:
                    self._begin(step.target)
                    if step.kind == BACK:
                        self._from_host(step.target)
            else:
                self._drop(step)

    def _run(self, op, kept):
        calls = self.recorded.get(op)
        if calls is None:
            return
        wanted = [s for s in kept if s not in self.table]
        if not wanted:
            return
        made = run_again(calls, self.get)
        self.counters.recomputed += 1
        for s in wanted:
            if s in made:
                self.take(s, made[s])

    def _drop(self, step):
        s = step.target
        if step.last and s not in self.table and self.outstanding.get(s, 0) == 0:
            self.in_host.pop(s, None)
            self.coming.pop(s, None)
        if s not in self.table:
            return
        if step.to_host:
            if s not in self.in_host:
                self.in_host[s] = self.host.copy_out(self.table[s])
            self.counters.swapped += 1
        elif step.last:
            if self.outstanding.get(s, 0) > 0:
                return  # off the plan: somebody still asks for it
            self.in_host.pop(s, None)
        elif self.makers.get(s) not in self.recorded or s in self.spared:
            return
        self._forget(s)

    def _forget(self, storage):
        tensor = self.table.pop(storage)
        self.by_address.pop(tensor.untyped_storage()._cdata, None)

    def _begin(self, storage):
        if storage not in self.coming:
            self.coming[storage] = self.host.copy_in(self.in_host[storage])

    def _from_host(self, storage):
        self._begin(storage)
        self.take(storage, self.coming.pop(storage).wait())
        if storage not in self.batch.copied_once:
            del self.in_host[storage]

    # Backward

    def get(self, storage):
        """A tensor over the storage, rebuilt where it is not there."""
        tensor = self.table.get(storage)
        if tensor is not None:
            return tensor
        if storage in self.in_host:
            self._from_host(storage)
        else:
            self.counters.off_plan += 1
            op = self.makers[storage]
            made = run_again(self.recorded[op], self.get)
            self.counters.recomputed += 1
            self.take(storage, made[storage])
        return self.table[storage]

    def unpack(self, handle):
        keep_graph = torch._C._autograd._get_current_graph_task_keep_graph()
        storage, planned = handle.storage, handle.planned
        if not keep_graph:
            self.outstanding[storage] -= 1
            self.sharing[storage, planned.use] -= 1
        if planned.use is not None:
            self.advance_to(planned.use)
        check_version(handle.geometry.size, self.versions.get(storage, 0), handle.version)
        out = handle.geometry.over(self.get(storage))
        if planned.leaves and not keep_graph and self.sharing[storage, planned.use] == 0:
            self._leave(storage, planned.last)
        return out

    def _leave(self, storage, last):
        """The running node holds it, and nobody will after that."""
        if (
            self.outstanding[storage] > 0
            if last
            else self.makers.get(storage) not in self.recorded or storage in self.spared
        ):
            return
        self._forget(storage)
