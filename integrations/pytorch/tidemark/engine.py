"""A compiled plan as the session's engine wants it: storages and operations that run again numbered from zero within a
micro-batch. See csrc/planned_batch.h."""

from . import kernels, library
from .schedule import BACK, BEGIN, DROP, RUN, WAIT

_ACTIONS = {kind: number for number, kind in enumerate((RUN, DROP, WAIT, BEGIN, BACK))}
_NONE = -1


class _Numbers(dict):
    """Of what is asked for, in order."""

    def __missing__(self, key):
        if key is None:
            return _NONE
        self[key] = len(self)
        return self[key]


def make_engine(batches, host, on_departure, counters):
    """`batches`: what compile_plan() returned. `host`: a HostMemory, None where nothing is swapped."""
    handed_over = [_hand_over(batch) for batch in batches]
    return library.engine().SessionEngine(handed_over, host, kernels.traits, on_departure, counters)


def _hand_over(batch):
    out, storages, rebuilds, shared = library.engine().PlannedBatch(), _Numbers(), _Numbers(), _Numbers()
    for place, calls in batch.calls.items():
        out.add_calls(place, [call and _call(call, storages, rebuilds) for call in calls])
    for place, saves in batch.saves.items():
        out.add_saves(place, [save and _save(save, storages, shared) for save in saves])
    for step in batch.steps:
        target = rebuilds[step.target] if step.kind == RUN else storages[step.target]
        kept = [storages[s] for s in step.kept]
        out.add_instruction(step.before, _ACTIONS[step.kind], target, step.last, step.to_host, kept)
    out.copied_once = [s in batch.copied_once for s in storages]
    out.rebuilds, out.shared = len(rebuilds), len(shared)
    return out


def _call(call, storages, rebuilds):
    outputs = [] if all(o is None for o in call.outputs) else [storages[o] for o in call.outputs]
    rebuild = rebuilds[call.op] if call.recorded else _NONE
    return call.func, call.op, rebuild, call.first, call.due, outputs


def _save(save, storages, shared):
    use = _NONE if save.use is None else save.use
    counter = shared[save.storage, save.use] if save.storage is not None else _NONE
    return storages[save.storage], use, counter, save.leaves, save.last
