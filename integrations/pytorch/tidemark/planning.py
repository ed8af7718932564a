"""From a captured step and a budget to a plan, by the planner behind the C interface, and from a file."""

import ctypes
import dataclasses
import json
import os
import time

from . import library, logs, picture_page
from .allocator_share import allocator_share, with_share
from .budgets import budget_bytes as bytes_of_budget
from .errors import BadTypeError, BadValueError, InfeasibleError, TidemarkError
from .graph import Graph
from .plan_watch import call_watched
from .sizes import format_bytes, format_up, parse_bytes
from .whole_file import write_whole


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
    reserve_bytes: int = 0  # of the budget, left to others
    file: bytes = b""  # plan.json, which is what a session follows
    stopped: bool = False  # by a time limit, so more time may find a cheaper one

    def __repr__(self):
        return f"<Plan for {self.graph.name}: {self.summary()}, {self.status or 'status unknown'}>"

    def summary(self):
        """Peak, budget and what the plan does to get there, in one line. All predicted."""
        again = len(self.schedule) - len(self.graph.ops)
        peak, budget = format_bytes(self.peak_bytes), format_bytes(self.budget_bytes)
        return (
            f"peak {peak} of {budget}, {again} operations recomputed, {len(self.swaps)} storages swapped, "
            f"{self.added_cost_percent:.1f} % more time"
        )

    def picture(self, path=None, by="role", measured=None):
        """See tidemark.picture()."""
        return picture_page.of_plan(self, by, measured).saved(path)

    def save(self, path):
        """Writes plan.json, which every verb of the command line takes: whole, or not at all."""
        write_whole(path, self.file)

    @classmethod
    def load(cls, path):
        """A plan that save(), or `tidemark plan --graph --out` for the JSON of a Graph, has written. It is of no model
        until a session is given one. Raises TidemarkError where the file is no such plan."""
        return _load(os.fspath(path))

    def model(self):
        """What was captured, or None if it is gone."""
        return self.graph.model()

    @property
    def keeps_all(self):
        return len(self.schedule) == len(self.graph.ops) and not self.swaps


def plan(graph, budget, device=None, recompute_collectives=False, reserve=0, *, time_limit=None, progress=None):
    """What to recompute and swap so that one step of `graph` peaks at `budget` bytes at most, at the least added cost.

    budget  bytes, a size such as "512MiB", or a share such as "60%" of what keeping everything takes: all that the step needs,
            parameters and optimizer state included.
    device  where the plan is for, "cpu" or "cuda"; by default where the model was captured.
    reserve bytes of the budget that are left to what the step knows nothing of, such as another model in the process.
    recompute_collectives  collectives may be recomputed too: every process of their groups must then follow the same plan.
    time_limit  seconds of searching, then the best plan found by then (`stopped`). What that is depends on the speed of
            the machine; without a limit the same step always gets the same plan.
    progress  True or False: a bar on stderr; by default where that is a terminal. Or a function that is called with the
            share done, from 0 to 1.

    Raises InfeasibleError, with the smallest budget that is known to do, where nothing fits, and TidemarkError where
    the time limit ended the search before anything that fits was found. KeyboardInterrupt ends it as well.
    """
    if not isinstance(graph, Graph):
        raise TidemarkError(f"a {type(graph).__name__} is no captured step; give what tidemark.capture() returned")
    device = getattr(device, "type", device)  # of a torch.device
    if device is not None and device != graph.device:
        raise TidemarkError(f"the step was captured on {graph.device!r}; a plan for {device!r} needs a capture there")
    reserve_bytes = parse_bytes(reserve) if reserve else 0
    budget_bytes = bytes_of_budget(budget, graph, reserve_bytes)
    if reserve_bytes >= budget_bytes:
        raise TidemarkError(f"the reserve of {format_bytes(reserve_bytes)} leaves nothing of the budget")
    if time_limit is not None and (isinstance(time_limit, bool) or not isinstance(time_limit, (int, float))):
        raise BadTypeError(f"time_limit is of type {type(time_limit).__name__}; right would be seconds, for instance 10")
    if time_limit is not None and not time_limit > 0:
        raise BadValueError(f"a time limit of {time_limit!r} s has no sense; it must be above zero")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise BadTypeError(f"progress is of type {type(progress).__name__}; right would be True, False or a function")
    began = time.monotonic()
    try:
        found = plan_within(
            graph, budget_bytes, reserve_bytes, recompute_collectives, time_limit=time_limit, progress=progress
        )
    except InfeasibleError as error:
        logs.infeasible(error, time.monotonic() - began)
        raise
    logs.planned(found, time.monotonic() - began)
    return found


def plan_within(
    graph,
    budget_bytes,
    reserve_bytes=0,
    recompute_collectives=False,
    effort_percent=100,
    time_limit=None,
    progress=False,
):
    """As plan(), of sizes in bytes. Thread rule: any thread; the planner runs without Python's lock."""
    taken_bytes = reserve_bytes + graph.beside_plan_bytes + graph.gaps_bytes
    step_bytes = max(1, budget_bytes - taken_bytes)
    text = graph.to_json((budget_bytes, reserve_bytes))
    answer, file = solve(
        text, step_bytes - allocator_share(step_bytes), recompute_collectives, effort_percent, time_limit, progress
    )
    step = answer["captured"]
    if not answer["fits"] and step.get("stopped") and not step["proven"]:
        when = "before the search was stopped" if time_limit is None else f"in {time_limit:g} s; give it more time"
        raise TidemarkError(f"no plan of {graph.name} within {format_bytes(budget_bytes)} was found {when}")
    if not answer["fits"]:
        raise _infeasible(graph, budget_bytes, taken_bytes, answer)
    return dataclasses.replace(plan_of(graph, budget_bytes, answer, file), reserve_bytes=reserve_bytes)


def plan_of(graph, budget_bytes, answer, file):
    """What solve() answered."""
    step = answer["captured"]
    return Plan(
        graph,
        budget_bytes,
        step["order"],
        [(swap["storage"], swap["after"], swap["before"]) for swap in step["swaps"]],
        step["status"],
        step["live_peak_bytes"] + graph.beside_plan_bytes,
        step["keep_all_peak_bytes"] + graph.beside_plan_bytes,
        step["added_cost_percent"],
        answer,
        file=file,
        stopped=step.get("stopped", False),
    )


def solve(text, budget_bytes, recompute_collectives=False, effort_percent=100, time_limit=None, progress=False):
    """The planner's answer to a step in JSON, parsed, and its plan.json."""
    data = text.encode()
    options = library.GraphOptions(
        struct_size=ctypes.sizeof(library.GraphOptions),
        budget_bytes=budget_bytes,
        effort_percent=effort_percent,
        group_recompute=int(recompute_collectives),
    )
    answer, file = ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_int64(len(data))

    def call(watch):
        if watch is not None:
            options.watch = watch
        library.call(
            "tidemark_graph_plan",
            data,
            size,
            b"the captured step",
            ctypes.byref(options),
            ctypes.byref(answer),
            ctypes.byref(file),
        )

    call_watched(call, time_limit, progress)
    return json.loads(library.take_buffer(answer)), library.take_buffer(file)


def _load(path):
    plan, answer = ctypes.c_void_p(), ctypes.c_void_p()
    library.call("tidemark_plan_read", os.fsencode(path), ctypes.byref(plan))
    try:
        library.call("tidemark_plan_answer", plan, ctypes.byref(answer))
    finally:
        library.core().tidemark_plan_free(plan)
    said = json.loads(library.take_buffer(answer))
    text = said.get("captured", {}).get("framework")
    if not text:
        raise TidemarkError(f"{path}: it is no plan for a step that tidemark.capture() has captured")
    if not said["fits"]:
        raise TidemarkError(f"{path}: it does not fit its budget; plan again with a larger one")
    with open(path, "rb") as file:
        content = file.read()
    graph, budget = Graph.from_text(text, path)
    _check_same_step(graph, said["captured"], path)
    rank = said["ranks"][0]
    taken_bytes = graph.beside_plan_bytes + graph.gaps_bytes
    budget_bytes, reserve_bytes = budget or (max(rank["budget_bytes"], with_share(rank["peak_bytes"])) + taken_bytes, 0)
    return dataclasses.replace(plan_of(graph, budget_bytes, said, content), reserve_bytes=reserve_bytes)


def _check_same_step(graph, captured, path):
    """The file has the step twice, once for the planner: one that was edited in between tells a session wrong numbers."""
    planned, here = len(set(captured["order"])), len(graph.ops)
    if planned != here:
        raise TidemarkError(f"{path}: it plans {planned} operations, and the captured step has {here}; capture and plan again")
    planned, here = captured["keep_all_peak_bytes"] + graph.beside_plan_bytes, graph.keep_all_peak_bytes()
    if planned != here:
        raise TidemarkError(
            f"{path}: it plans a step that peaks at {planned} B with everything kept, and the captured one peaks at "
            f"{here} B; capture and plan again"
        )


def _infeasible(graph, budget_bytes, taken_bytes, answer):
    smallest = answer["ranks"][0]["smallest_budget_bytes"]
    smallest = smallest and with_share(smallest) + taken_bytes
    would_do = f"{format_up(smallest)} would do: budget={smallest}" if smallest else "no budget is known that would"
    return InfeasibleError(
        f"{graph.name} does not fit {format_bytes(budget_bytes)}: no plan fits less than "
        f"{format_bytes(with_share(answer['captured']['lower_bound_bytes']) + taken_bytes)}, and {would_do}",
        smallest,
    )
