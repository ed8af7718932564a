"""Live bytes over a step, operation by operation, by what they are: of a plan, and with everything kept. Predicted, all
of it."""

import dataclasses
import re

WORKSPACE = "workspace"
OTHERS = "other modules"
_MODULES = 5  # told apart


@dataclasses.dataclass
class MemoryCurve:
    """Bytes at every position of a schedule. `layers`: name of a group -> bytes at each position, workspaces last."""

    graph: object
    schedule: list[int]
    layers: dict
    intervals: list  # (storage, first, last position), both included
    again: list[bool]  # by position: the operation has run before in this step

    @classmethod
    def of_plan(cls, plan, by="role"):
        return _curve(plan.graph, plan.schedule, plan.swaps, by)

    @classmethod
    def of_keeping_all(cls, graph, by="role"):
        return _curve(graph, list(range(len(graph.ops))), [], by)

    def total(self):
        """Live bytes, workspaces included, at every position."""
        return [sum(at) for at in zip(*self.layers.values(), strict=True)]

    def largest(self, positions, count):
        """(position, its largest storages) for each of `positions`, which ascend."""
        begins = sorted(self.intervals, key=lambda interval: interval[1])
        live, next_ = [], 0
        for position in positions:
            while next_ < len(begins) and begins[next_][1] <= position:
                live.append(begins[next_])
                next_ += 1
            live = [interval for interval in live if interval[2] >= position]
            largest = sorted(live, key=lambda interval: -self.graph.block_bytes(interval[0]))[:count]
            yield position, [storage for storage, _, _ in largest]


def _curve(graph, schedule, swaps, by):
    again = _reoccurring(schedule)
    intervals = _without_swaps(list(_residencies(graph, schedule, again)), swaps)
    group_of = _roles(graph) if by == "role" else _modules(graph, intervals)
    changes = {}
    for s, first, last in intervals:
        change = changes.setdefault(group_of[s], [0] * (len(schedule) + 1))
        change[first] += graph.block_bytes(s)
        change[last + 1] -= graph.block_bytes(s)
    layers = {name: _summed(change) for name, change in changes.items()}
    layers[WORKSPACE] = [graph.rounded(graph.ops[i].transient_bytes) for i in schedule]
    return MemoryCurve(graph, schedule, layers, intervals, again)


def _summed(changes):
    out, level = [], 0
    for change in changes[:-1]:
        level += change
        out.append(level)
    return out


def _reoccurring(schedule):
    seen = set()
    return [i in seen or seen.add(i) is not None for i in schedule]


def _residencies(graph, schedule, again):
    """A storage is there from a write to the last touch before it is written anew, or for as long as the framework holds
    it; what stands from step to step always."""
    found = _touched(graph, schedule, again)
    place = {i: position for position, i in enumerate(schedule) if not again[position]}
    for s, storage in enumerate(graph.storages):
        spans = found.get(s, [])
        if storage.resident:
            spans = [[0, len(schedule) - 1]]
        elif spans and storage.until_end:
            spans[-1][1] = len(schedule) - 1
        if spans and storage.pinned_until is not None:
            held = place[storage.pinned_until]
            spans = [spans[0], *(span for span in spans[1:] if span[0] > held)]
            spans[0][1] = max(spans[0][1], held)
        for first, last in spans:
            yield s, first, last


def _touched(graph, schedule, again):
    spans = {}
    for position, i in enumerate(schedule):
        op = graph.ops[i]
        for s in (*op.reads, *(() if again[position] else op.holds)):
            spans.setdefault(s, [[0, 0]])[-1][1] = position
        for s in op.writes:
            if s not in spans or again[position]:
                spans.setdefault(s, []).append([position, position])
            else:
                spans[s][-1][1] = position
    return spans


def _without_swaps(intervals, swaps):
    """A storage that is in host memory between two positions is not on the device there."""
    for s, after, before in swaps:
        here = next(i for i, (t, first, last) in enumerate(intervals) if t == s and first <= after and before <= last)
        _, first, last = intervals[here]
        intervals[here : here + 1] = [(s, first, after), (s, before, last)]
    return intervals


def _roles(graph):
    return [storage.role for storage in graph.storages]


def _modules(graph, intervals):
    """The modules that hold the most, as the sum over the step, and one group of all others."""
    paths = [_module_of(storage) for storage in graph.storages]
    held = {}
    for s, first, last in intervals:
        held[paths[s]] = held.get(paths[s], 0) + graph.block_bytes(s) * (last - first + 1)
    most = sorted(held, key=held.get, reverse=True)[:_MODULES]
    return [path if path in most else OTHERS for path in paths]


def _module_of(storage):
    """The path as far as the first number in it, which counts layers: "transformer.h.3" of all that is in there. Of a
    parameter the path is in its name; the optimizer's state and inputs are of no module."""
    if storage.role in ("optimizer_state", "input"):
        return {"input": "inputs"}.get(storage.role, "optimizer state")
    path = storage.module or storage.name.rpartition(".")[0]
    numbered = re.match(r"(.*?(?:^|\.)\d+)(?:\.|$)", path)
    return numbered[1] if numbered else path.partition(".")[0] or "the model"
