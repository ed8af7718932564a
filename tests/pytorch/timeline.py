"""Residencies of storages in device memory over a schedule, worked out apart from the planner: what its figures are checked
against."""

import functools


class Timeline:
    """A residency is from a write to the last touch before it is written anew."""

    def __init__(self, graph, schedule):
        self.graph = graph
        self.schedule = schedule
        self.again = self._reoccurring()
        self.intervals = self._intervals()

    def _reoccurring(self):
        seen, again = set(), []
        for op in self.schedule:
            again.append(op in seen)
            seen.add(op)
        return again

    def _intervals(self):
        """Storage -> list of [first position, last position]."""
        intervals = {}
        for position, i in enumerate(self.schedule):
            op = self.graph.ops[i]
            held = () if self.again[position] else op.holds
            for s in (*op.reads, *held):
                intervals.setdefault(s, [[0, 0]])[-1][1] = position
            for s in op.writes:
                if s not in intervals or self.again[position]:
                    intervals.setdefault(s, []).append([position, position])
                else:
                    intervals[s][-1][1] = position
        return intervals

    @functools.cached_property
    def _positions(self):
        return {op: position for position, op in enumerate(self.schedule) if not self.again[position]}

    def position_of(self):
        """Original operation -> its position."""
        return self._positions

    def residencies(self):
        """(storage, first position, last position) of every interval in memory, with what the framework itself holds."""
        graph, end = self.graph, len(self.schedule)
        at = self.position_of()
        for s, storage in enumerate(graph.storages):
            intervals = [list(interval) for interval in self.intervals.get(s, [])]
            if storage.resident:
                intervals = [[0, end - 1]]
            elif intervals and storage.until_end:
                intervals[-1][1] = end - 1
            if intervals and storage.pinned_until is not None:
                pinned = at[storage.pinned_until]
                intervals = [interval for interval in intervals if interval[0] > pinned or interval is intervals[0]]
                intervals[0][1] = max(intervals[0][1], pinned)
            for first, last in intervals:
                yield s, first, last

    def live_bytes(self, swaps=()):
        """At every position of the schedule, workspace included."""
        graph = self.graph
        change = [0] * (len(self.schedule) + 1)
        for s, first, last in self.residencies():
            change[first] += graph.block_bytes(s)
            change[last + 1] -= graph.block_bytes(s)
        for s, after, before in swaps:
            change[after + 1] -= graph.block_bytes(s)
            change[before] += graph.block_bytes(s)
        live, out = 0, []
        for position, op in enumerate(self.schedule):
            live += change[position]
            out.append(live + graph.rounded(graph.ops[op].transient_bytes))
        return out
