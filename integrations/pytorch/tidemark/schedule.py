"""A plan, and what of a step is in device memory when it runs by it."""

import dataclasses
import functools

from .graph import Graph
from .sizes import format_bytes

@dataclasses.dataclass(repr=False)
class Plan:
    """`schedule`: operations in order of execution, recomputed ones again; `swaps`: (storage, after, before): in host
    memory between two positions of the schedule. Figures in bytes and the graph's cost unit are predicted."""

    graph: Graph
    budget_bytes: int
    schedule: list[int]
    swaps: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    status: str = ""
    peak_bytes: int = 0
    keep_all_peak_bytes: int = 0
    added_cost_percent: float = 0.0
    answer: dict = dataclasses.field(default_factory=dict)
    file: bytes = b""  # plan.json, which is what a session follows

    def __repr__(self):
        again = len(self.schedule) - len(self.graph.ops)
        peak, budget = format_bytes(self.peak_bytes), format_bytes(self.budget_bytes)
        return (
            f"<Plan for {self.graph.name}: peak {peak} of {budget}, {again} operations run again, {len(self.swaps)} "
            f"storages swapped, {self.status or 'status unknown'}>"
        )

    def save(self, path):
        """Writes plan.json, which every verb of the command line takes."""
        with open(path, "wb") as out:
            out.write(self.file)

    def model(self):
        """What was captured, or None if it is gone."""
        return self.graph.model()

    @property
    def keeps_all(self):
        return len(self.schedule) == len(self.graph.ops) and not self.swaps


class Timeline:
    """Stays of storages in device memory over a schedule: from a write to the last touch before it is written anew."""

    def __init__(self, graph, schedule):
        self.graph = graph
        self.schedule = schedule
        self.again = self._reoccurring()
        self.stays = self._stays()

    def _reoccurring(self):
        seen, again = set(), []
        for op in self.schedule:
            again.append(op in seen)
            seen.add(op)
        return again

    def _stays(self):
        """Storage -> list of [first position, last position]."""
        stays = {}
        for position, i in enumerate(self.schedule):
            op = self.graph.ops[i]
            held = () if self.again[position] else op.holds
            for s in (*op.reads, *held):
                stays.setdefault(s, [[0, 0]])[-1][1] = position
            for s in op.writes:
                if s not in stays or self.again[position]:
                    stays.setdefault(s, []).append([position, position])
                else:
                    stays[s][-1][1] = position
        return stays

    @functools.cached_property
    def _positions(self):
        return {op: position for position, op in enumerate(self.schedule) if not self.again[position]}

    def position_of(self):
        """Original operation -> its position."""
        return self._positions

    def residencies(self):
        """(storage, first position, last position) of every stay in memory, with what the framework itself holds."""
        graph, end = self.graph, len(self.schedule)
        at = self.position_of()
        for s, storage in enumerate(graph.storages):
            stays = [list(stay) for stay in self.stays.get(s, [])]
            if storage.resident:
                stays = [[0, end - 1]]
            elif stays and storage.until_end:
                stays[-1][1] = end - 1
            if stays and storage.pinned_until is not None:
                pinned = at[storage.pinned_until]
                stays = [stay for stay in stays if stay[0] > pinned or stay is stays[0]]
                stays[0][1] = max(stays[0][1], pinned)
            for first, last in stays:
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
