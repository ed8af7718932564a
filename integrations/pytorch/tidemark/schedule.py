"""What is to be done with every storage, as a schedule, and that schedule as instructions for a session."""

import bisect
import dataclasses
import functools

from .copies import time_copies
from .graph import Graph
from .sizes import format_bytes

RUN, DROP, WAIT, BEGIN, BACK = "run", "drop", "wait", "begin", "back"


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

    def __repr__(self):
        again = len(self.schedule) - len(self.graph.ops)
        peak, budget = format_bytes(self.peak_bytes), format_bytes(self.budget_bytes)
        return (
            f"<Plan for {self.graph.name}: peak {peak} of {budget}, {again} operations run again, {len(self.swaps)} "
            f"storages swapped, {self.status or 'status unknown'}>"
        )

    def model(self):
        """What was captured, or None if it is gone."""
        return self.graph.model()

    @property
    def keeps_all(self):
        return len(self.schedule) == len(self.graph.ops) and not self.swaps


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction, due before the original operation `before`."""

    before: int
    kind: str
    target: int  # operation to run again, or storage
    last: bool = False  # DROP: not needed again. RUN: unused
    kept: tuple[int, ...] = ()  # RUN: outputs that are needed
    to_host: bool = False  # DROP


@dataclasses.dataclass
class PlannedCall:
    func: str
    op: int
    first: bool  # of its operation
    recorded: bool  # its operation runs again
    outputs: tuple[int | None, ...]  # storages the session looks after, by tensor returned
    due: bool = False  # there is an instruction before it


@dataclasses.dataclass
class PlannedSave:
    storage: int
    bytes: int
    use: int | None  # operation before which backward asks for it
    leaves: bool = False  # with the node of autograd's graph that asks: nobody needs it behind
    last: bool = False  # not even rebuilt


@dataclasses.dataclass
class PlannedBatch:
    """All of one micro-batch's forward, by (path, call) of the module, and its instructions in order."""

    calls: dict = dataclasses.field(default_factory=dict)
    saves: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    copied_once: set = dataclasses.field(default_factory=set)  # storages whose copies in host memory serve again


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


def compile_plan(plan):
    """One PlannedBatch for each micro-batch of the graph."""
    graph = plan.graph
    timeline = Timeline(graph, plan.schedule)
    managed = _managed(plan, timeline)
    batches = [PlannedBatch() for _ in range(graph.micro_batches)]
    repeated = {op for op, again in zip(plan.schedule, timeline.again) if again}
    for i, op in enumerate(graph.ops):
        if op.phase != "forward":
            continue
        calls = batches[op.micro_batch].calls
        for n, call in enumerate(op.calls):
            outputs = tuple(o if o in managed else None for o in call.outputs)
            planned = PlannedCall(call.func, i, n == 0, i in repeated, outputs)
            _put(calls.setdefault((call.site.path, call.site.call), []), call.site.ordinal, planned)
    for save in graph.saves:
        batch = batches[save.site.micro_batch]
        planned = PlannedSave(
            save.storage if save.storage in managed else None, save.bytes, min(save.uses, default=None)
        )
        if planned.storage is not None and save.uses:
            _say_whether_it_leaves(planned, save, timeline)
        _put(batch.saves.setdefault((save.site.path, save.site.call), []), save.site.ordinal, planned)
    told = _told(graph)
    for batch, steps, places in zip(batches, _steps(plan, timeline, managed, told), told):
        batch.steps = steps
        batch.copied_once = _copied_once(plan, timeline)
        due = {places[bisect.bisect_left(places, step.before)] for step in steps if step.before <= places[-1]}
        for calls in batch.calls.values():
            for call in filter(None, calls):
                call.due = call.first and call.op in due
    return batches


def _told(graph):
    """For each micro-batch: original operations, ascending, before which a session has its say."""
    told = [{-1} for _ in range(graph.micro_batches)]
    for i, op in enumerate(graph.ops):
        if op.phase == "forward":
            told[op.micro_batch].add(i)
    for save in graph.saves:
        if save.uses:
            told[save.site.micro_batch].add(min(save.uses))
    return [sorted(places) for places in told]


def _copied_once(plan, timeline):
    """Storages that are not written between the first time they leave and the last time they are back."""
    spans = {}
    for s, after, before in plan.swaps:
        first, last = spans.get(s, (after, before))
        spans[s] = (min(first, after), max(last, before))
    written = {}
    for position, i in enumerate(plan.schedule):
        for s in plan.graph.ops[i].writes:
            if s in spans:
                written.setdefault(s, []).append(position)
    return {s for s, (first, last) in spans.items() if not any(first < w < last for w in written.get(s, ()))}


def _say_whether_it_leaves(planned, save, timeline):
    at = timeline.position_of()
    until = max(until for use, until in zip(save.uses, save.until) if use == planned.use)
    stays = timeline.stays[save.storage]
    n = next(n for n, (first, last) in enumerate(stays) if first <= at[planned.use] <= last)
    # What runs again between the kernels of the node may run later, as nobody asks for anything meanwhile.
    between = range(at[planned.use] + 1, at[until] + 1)
    ops, schedule = timeline.graph.ops, timeline.schedule
    read_again = any(timeline.again[p] and save.storage in ops[schedule[p]].reads for p in between)
    planned.leaves = stays[n][1] <= at[until] and not read_again
    planned.last = n + 1 == len(stays)


def _put(places, ordinal, value):
    while len(places) <= ordinal:
        places.append(None)
    places[ordinal] = value


def _managed(plan, timeline):
    """What the session holds and gives up itself: what is rebuilt or copied, and what that is rebuilt from."""
    graph = plan.graph
    managed = {s for s, _, _ in plan.swaps}
    for position, i in enumerate(plan.schedule):
        if timeline.again[position]:
            managed.update(graph.ops[i].reads)
            managed.update(graph.ops[i].writes)
    return {s for s in managed if not graph.storages[s].resident}


def _steps(plan, timeline, managed, told):
    """For each micro-batch: what is to be done, in order."""
    graph = plan.graph
    ends = {}  # position -> stays of managed storages that end there
    for s in managed:
        for n, (first, last) in enumerate(timeline.stays.get(s, [])):
            ends.setdefault(last, []).append((s, n + 1 == len(timeline.stays[s]), first))
    out_after, in_before = {}, {}
    for s, after, before in plan.swaps:
        out_after.setdefault(after, []).append(s)
        in_before.setdefault(before, []).append(s)
    owner = _micro_batch_of(graph)
    at = timeline.position_of()
    places = [[at[op] for op in ops if op >= 0] for ops in told]
    copies = time_copies(plan, timeline, {s: places[owner[s]] for s, _, _ in plan.swaps})
    steps = [[] for _ in range(graph.micro_batches)]
    following = _following_originals(plan.schedule, timeline.again)
    for position, i in enumerate(plan.schedule):
        before, again = following[position], timeline.again[position]
        for s in copies.waits.get(position, ()):
            last_told = told[owner[s]][bisect.bisect_right(told[owner[s]], before) - 1]
            steps[owner[s]].append(Step(max(last_told, 0), WAIT, s))
        for s in copies.begins.get(position, ()):
            steps[owner[s]].append(Step(before, BEGIN, s))
        for s in in_before.get(position, ()):
            steps[owner[s]].append(Step(before, BACK, s))
        if again:
            kept = tuple(
                s for s in graph.ops[i].writes if any(a == position and b > position for a, b in timeline.stays[s])
            )
            steps[graph.ops[i].micro_batch].append(Step(before, RUN, i, kept=kept))
        following_stage = before if again else i + 1
        for s in out_after.get(position, ()):
            steps[owner[s]].append(Step(following_stage, DROP, s, to_host=True))
        for s, last, first in ends.get(position, ()):
            if first == position and again:
                continue  # never taken into the table
            steps[owner[s]].append(Step(following_stage, DROP, s, last=last))
    return [_in_order(batch) for batch in steps]


def _in_order(steps):
    """A wait that is told of earlier than it is due comes first, but after the copy that it is for."""
    left, out = {}, []
    for number, step in enumerate(steps):
        due = (step.before, number)
        if step.kind == DROP and step.to_host:
            left[step.target] = due
        elif step.kind == WAIT:
            due = max(due, left[step.target])
        out.append((due, step))
    return [dataclasses.replace(step, before=due[0]) for due, step in sorted(out, key=lambda pair: pair[0])]


def _following_originals(schedule, again):
    following, out = None, [None] * len(schedule)
    for position in range(len(schedule) - 1, -1, -1):
        if not again[position]:
            following = schedule[position]
        out[position] = following
    return out


def _micro_batch_of(graph):
    owner = [0] * len(graph.storages)
    for op in reversed(graph.ops):
        for s in op.writes:
            owner[s] = op.micro_batch
    return owner
