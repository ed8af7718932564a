"""Plans of a loop's paths: which one a step is to follow, by how the steps before departed from theirs.

A step departs where its kernels are others than planned. The next one is then recorded while it trains, and its path
planned, once; a path that is known is followed from the next step on. So is what spills in half of the steps, as where
batches have become longer. Values only: the session records, and Replanning plans.

Thread rule: for the thread that runs the session, at its step boundaries.
"""

import collections
import hashlib

WINDOW = 8  # steps
_MOST_WAIT = 256  # departing steps
_MOST_PATHS = 16  # a plan of 2,000 operations is 5 MiB
_MOST_DEPARTURES = 256


class Paths:
    """`plan`: the first one."""

    def __init__(self, plan):
        self._known = _Latest(_MOST_PATHS)  # (sizes, Plan or None: none fits) by path
        self._led_to = _Latest(_MOST_DEPARTURES)  # by (path, departures): the path that was recorded behind such a step
        self._costly = collections.deque(maxlen=WINDOW)
        self._wait = 0  # steps that depart or spill until the next is recorded
        self._next_wait = 1
        self.add(plan.graph, plan)

    def end_step(self, plan, departures, is_costly):
        """Behind a step by `plan` that went another way in `departures`, or spilled. The Plan that the next is to follow
        instead, or None, and whether it is to be recorded."""
        self._costly.append(is_costly)
        path = self._led_to.get((self._path_of(plan), departures))
        _, known = self._known.get(path, (None, plan))
        if departures and known is not plan:
            return known, False
        if not departures and 2 * sum(self._costly) < WINDOW:
            return None, False
        if self._wait > 0:
            self._wait -= 1
            return None, False
        self._next_wait = min(2 * self._next_wait, _MOST_WAIT)
        self._wait = self._next_wait
        self._costly.clear()
        return None, True

    def wanted(self, plan, departures, graph):
        """`graph`: of the step that was recorded behind one that departed. The Plan of its path where there is another
        that is large enough, or None, and whether one is to be made."""
        path = path_of(graph)
        self._led_to[self._path_of(plan), departures] = path
        if path not in self._known or not _holds(self._known[path][0], sizes_of(graph)):
            return None, True
        known = self._known[path][1]
        return (None if known is plan else known), False

    def add(self, graph, plan):
        """`plan`: None where none fits."""
        self._known[path_of(graph)] = sizes_of(graph), plan

    def _path_of(self, plan):
        return next((path for path, (_, known) in self._known.items() if known is plan), None)


class _Latest(collections.OrderedDict):
    """Keeps what was put in or asked for last; so many."""

    def __init__(self, most):
        super().__init__()
        self._most = most

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def get(self, key, default=None):
        if key in self:
            self.move_to_end(key)
        return super().get(key, default)


def path_of(graph):
    """Which kernels forward calls where; steps that agree in it may differ in sizes."""
    calls = [(call.site, call.func) for op in graph.ops for call in op.calls if call.site is not None]
    return hashlib.sha256(repr(calls).encode()).hexdigest()


def sizes_of(graph):
    """Bytes that are planned for what forward makes, by the call and the place among its results."""
    return {
        (call.site, n): graph.block_bytes(storage)
        for op in graph.ops
        for call in op.calls
        if call.site is not None
        for n, storage in enumerate(call.outputs)
        if storage is not None
    }


def _holds(planned, seen):
    return all(planned.get(place, 0) >= bytes_ for place, bytes_ in seen.items())
