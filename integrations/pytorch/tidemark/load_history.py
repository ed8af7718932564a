"""When a plan is to be made again for larger loads, and for which: what the steps of a session needed beyond their
plan, counted in steps, so that the same steps give the same answer. Values only; replanning.py makes the plan.

A load is raised where half of the last eight steps or more spilled or ran in chunks for more than is planned: to the most rows that its
modules told of in these steps or, where so much does not fit, to what at least half of those that needed more come
with; where they told of none, by half or a quarter. At most four plans are asked for, the second after sixteen more
steps, the third after thirty-two: a plan that is for larger loads recomputes or swaps more.
"""

import collections
import dataclasses
import fnmatch

WINDOW = 8  # steps
_MOST_PLANS = 4


@dataclasses.dataclass(frozen=True)
class LoadStep:
    """What a step needed beyond its plan. `told`: the most rows of one part, by pattern, of loads whose modules say; `costly`: storages
    spilled and layers run in chunks for want of memory. Room that stands empty by the plan costs nothing."""

    told: dict[str, int]
    costly: int
    departures: tuple = ()  # where kernels were others than planned: module path, number of its call, and what


def growing(loads):
    """Those of which more than is planned may come, and of which it is known what a row needs."""
    return [load for load in loads if load.expected < load.planned < load.worst]


class LoadHistory:
    """Of one session, or of a decorated function's in turn."""

    def __init__(self):
        self._steps = collections.deque(maxlen=WINDOW)
        self._wait = 0  # steps until another plan may be asked for
        self._asked = 0
        self._misfits = []  # rows, by pattern, that do not fit together

    def add(self, step):
        self._steps.append(step)
        self._wait = max(self._wait - 1, 0)

    def wanted(self, loads):
        """Rows of one part to plan for, by pattern of the loads that are to be raised: the least that is of use first,
        then more. Empty: the plan is to be kept."""
        if len(self._steps) < WINDOW or self._wait or self._asked == _MOST_PLANS:
            return []
        levels = {load.pattern: rows for load in growing(loads) if (rows := self._levels(load))}
        count = max(map(len, levels.values()), default=0)
        wanted = [{p: rows[-(-(n + 1) * len(rows) // count) - 1] for p, rows in levels.items()} for n in range(count)]
        planned = {load.pattern: load.planned for load in loads}
        return [rows for rows in wanted if not any(_is_as_much(planned | rows, misfit) for misfit in self._misfits)]

    def _levels(self, load):
        """Ascending; empty: it is not to be raised."""
        needing = [step for step in self._steps if _needs(step, load)]
        if 2 * len(needing) < WINDOW:
            return []
        told = sorted(step.told[load.pattern] for step in needing if load.pattern in step.told)
        rows = told[(len(told) - 1) // 2 :] if told else [load.planned + -(-load.planned // 4), load.planned * 3 // 2]
        return sorted({min(count, load.worst) for count in rows if load.planned < min(count, load.worst)})

    def ask(self):
        """A plan is being made: the next one is another matter, of the steps that come."""
        self._asked += 1
        self._wait = WINDOW << self._asked
        self.forget()

    def forget(self):
        """What steps by another plan needed."""
        self._steps.clear()

    def limit(self, rows):
        """So many, by pattern, do not fit together: as many of all, or more, are not wanted again."""
        if rows:
            self._misfits.append(rows)


def _is_as_much(rows, least):
    return all(rows.get(pattern, 0) >= count for pattern, count in least.items())


def _needs(step, load):
    """Where a module tells its load, what is done for want of memory while that is within the plan has other
    reasons."""
    told = step.told.get(load.pattern)
    return step.costly > 0 and (told is None or told > load.planned)


def raised(graph, rows):
    """The same step planned for `rows` of one part, by pattern of a load. Bytes grow by rows, as capture saw it from
    what is expected to what is planned. What is of no load's module, as backward's, grows as the load that grows most.
    Workspaces and times remain those of the expected rows."""
    by_load = {load.pattern: _growth(load, rows.get(load.pattern, load.planned)) for load in graph.loads}
    most = max(by_load.values(), default=(1, 1), key=lambda share: share[0] / share[1])
    storages = [
        storage
        if storage.bound_bytes is None
        else dataclasses.replace(storage, bound_bytes=_grown(storage, _growth_of(storage.module, by_load, most)))
        for storage in graph.storages
    ]
    loads = [dataclasses.replace(load, planned=rows.get(load.pattern, load.planned)) for load in graph.loads]
    return dataclasses.replace(graph, storages=storages, loads=loads)


def _growth(load, rows):
    """By what the rows above the expected ones grow: numerator and denominator."""
    above = load.planned - load.expected
    return (rows - load.expected, above) if above > 0 else (1, 1)


def _grown(storage, growth):
    more = (storage.bound_bytes - storage.bytes) * growth[0]
    return storage.bytes + -(-more // growth[1])


def _growth_of(path, by_load, otherwise):
    """Of the innermost module around that has a load."""
    while path:
        found = next((growth for pattern, growth in by_load.items() if fnmatch.fnmatchcase(path, pattern)), None)
        if found is not None:
            return found
        path = path.rpartition(".")[0]
    return otherwise
