"""How far a load may be above what was planned for before the local rungs, free memory and spilling, no longer serve: by
the plan's own bytes, a prediction. Spilling makes pieces whole again; where nothing may be spilled, what is free may lie in
pieces, and only what was planned for is said to be served."""

import dataclasses
import fnmatch

from .allocator_share import allocator_share


@dataclasses.dataclass(frozen=True)
class LoadLimit:
    """`rows` of one part of the load fit; None: capture was not told of a `most`, so that what grows is not known."""

    load: object  # graph.Load
    rows: int | None

    @property
    def served(self):
        return self.load.planned if self.rows is None else self.rows

    def __str__(self):
        of = self.load
        times = self.served / max(of.expected, 1)
        if self.rows is None:
            return f"{of.pattern}: {self.served} rows of one part as expected; with most= it is known how many more fit"
        return f"{of.pattern}: {self.served} rows of one part ({times:.2f} times an equal share) of at most {of.worst}"


def load_limits(plan, spills):
    """A LoadLimit for each load of the captured step. `spills`: what autograd saves may go to host memory."""
    walk = _Walk(plan) if spills else None
    return [LoadLimit(load, walk.rows(load) if spills else load.planned) for load in plan.graph.loads]


def find(limits, path):
    return next((limit for limit in limits if fnmatch.fnmatchcase(path, limit.load.pattern)), None)


class _Walk:
    """Bytes at every position of the schedule: live, and of those what could be spilled."""

    def __init__(self, plan):
        self._plan, self._graph = plan, plan.graph
        taken_bytes = plan.reserve_bytes + self._graph.beside_plan_bytes + self._graph.gaps_bytes
        step_bytes = plan.budget_bytes - taken_bytes
        self._room = step_bytes - allocator_share(step_bytes)
        swappable = self._graph.swappable()
        count = len(plan.schedule)
        self.live, self._spillable = ([0] * (count + 1) for _ in range(2))
        self._residencies = [[] for _ in self._graph.storages]
        touched = _touches(plan)
        for number, storage in enumerate(self._graph.storages):
            bytes_ = self._graph.block_bytes(number)
            self._residencies[number] = _residencies(plan, number, touched[number])
            for first, last in self._residencies[number]:
                _add(self.live, first, last, bytes_)
                if number in swappable:
                    _add(self._spillable, first, last, bytes_)
                    for p in touched[number]:
                        if first <= p <= last:
                            _add(self._spillable, p, p, -bytes_)
        for counts in (self.live, self._spillable):
            for p in range(count):
                counts[p + 1] += counts[p]
        for p, i in enumerate(plan.schedule):
            self.live[p] += self._graph.rounded(self._graph.ops[i].transient_bytes)

    def _spare(self, p):
        return self._room - self.live[p] + self._spillable[p]

    def rows(self, load):
        above = load.planned - load.expected
        if above <= 0:
            return None if load.worst > load.planned else load.worst
        slopes = {}  # variant -> bytes a row, by position
        for number, storage in enumerate(self._graph.storages):
            if storage.bound_variant is None or not fnmatch.fnmatchcase(_of(storage.module, load.pattern), load.pattern):
                continue
            slope = (storage.bound_bytes - storage.bytes) / above
            at = slopes.setdefault(storage.bound_variant, [0.0] * (len(self._plan.schedule) + 1))
            for first, last in self._residencies[number]:
                _add(at, first, last, slope)
        fit = load.worst - load.planned
        for at in slopes.values():
            slope = 0.0
            for p, change in enumerate(at[:-1]):
                slope += change
                if slope > 1e-6:
                    fit = min(fit, self._spare(p) / slope)
        return load.planned + max(int(fit), 0)


def _of(path, pattern):
    """The module that the load is of: an expert lies within it."""
    while path and not fnmatch.fnmatchcase(path, pattern):
        path = path.rpartition(".")[0]
    return path


def _add(changes, first, last, value):
    changes[first] += value
    changes[last + 1] -= value


def _touches(plan):
    touched = [[] for _ in plan.graph.storages]
    for p, i in enumerate(plan.schedule):
        op = plan.graph.ops[i]
        for s in {*op.reads, *op.holds, *op.writes}:
            touched[s].append(p)
    return touched


def _residencies(plan, number, touched):
    """(first, last) positions between which the storage is on the device."""
    storage, last = plan.graph.storages[number], len(plan.schedule) - 1
    if storage.resident:
        return [(0, last)]
    if not touched:
        return []
    away = [(after, before) for s, after, before in plan.swaps if s == number]
    seen = [[touched[0], touched[0]]]
    ran = set()
    for p in touched:
        i = plan.schedule[p]
        op = plan.graph.ops[i]
        is_again = i in ran
        ran.add(i)
        is_made_again = is_again and number in op.writes and number not in op.reads
        copied = next(((after, before) for after, before in away if seen[-1][1] <= after and before <= p), None)
        if copied is not None:
            seen[-1][1] = copied[0]
            seen.append([copied[1], p])
        elif is_made_again:
            seen.append([p, p])
        seen[-1][1] = p
    if storage.until_end:
        seen[-1][1] = last
    elif storage.pinned_until is not None:
        seen[0][1] = max(seen[0][1], plan.schedule.index(storage.pinned_until))
    return [tuple(one) for one in seen]
