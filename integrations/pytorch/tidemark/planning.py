"""From a captured step and a budget to a plan, by the planner behind the C interface."""

import ctypes
import json

from . import library
from .errors import InfeasibleError, TidemarkError
from .graph import Graph
from .schedule import Plan
from .sizes import format_bytes, parse_bytes


def plan(graph, budget, device=None, recompute_collectives=False):
    """What to recompute and swap so that one step of `graph` peaks at `budget` bytes at most, at the least added cost.

    budget  bytes, or text such as "512MiB": all that the step needs, parameters and optimizer state included.
    device  where the plan is for, "cpu" or "cuda"; by default where the model was captured.
    recompute_collectives  collectives may run again too: every process of their groups must then follow the same plan.

    Raises InfeasibleError, with the smallest budget that is known to do, where nothing fits.
    """
    if not isinstance(graph, Graph):
        raise TidemarkError(f"a {type(graph).__name__} is no captured step; give what tidemark.capture() returned")
    device = getattr(device, "type", device)  # of a torch.device
    if device is not None and device != graph.device:
        raise TidemarkError(f"the step was captured on {graph.device!r}; a plan for {device!r} needs a capture there")
    budget_bytes = parse_bytes(budget)
    answer, file = solve(graph.to_json(), budget_bytes - allocator_share(budget_bytes), recompute_collectives)
    if not answer["fits"]:
        raise _infeasible(graph, budget_bytes, answer)
    return plan_of(graph, budget_bytes, answer, file)


def plan_of(graph, budget_bytes, answer, file):
    """What solve() answered."""
    step = answer["captured"]
    return Plan(
        graph,
        budget_bytes,
        step["order"],
        [(swap["storage"], swap["after"], swap["before"]) for swap in step["swaps"]],
        step["status"],
        step["live_peak_bytes"],
        step["keep_all_peak_bytes"],
        step["added_cost_percent"],
        answer,
        file,
    )


def allocator_share(budget_bytes):
    """What of a budget is left to the allocator: it takes memory in granules of 2 MiB and leaves gaps in them."""
    return min(6 * 2**20 + budget_bytes // 256, budget_bytes // 2)


def solve(text, budget_bytes, recompute_collectives=False, effort_percent=100):
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
    library.call(
        "tidemark_graph_plan_file",
        data,
        size,
        b"the captured step",
        ctypes.byref(options),
        ctypes.byref(answer),
        ctypes.byref(file),
    )
    return json.loads(library.take_buffer(answer)), library.take_buffer(file)


def _infeasible(graph, budget_bytes, answer):
    smallest = _with_share(answer["ranks"][0]["smallest_budget_bytes"])
    would_do = f"{format_bytes(smallest)} ({smallest} bytes) would do" if smallest else "no budget is known that would"
    return InfeasibleError(
        f"{graph.name} does not fit {format_bytes(budget_bytes)}: no schedule peaks below "
        f"{format_bytes(_with_share(answer['captured']['lower_bound_bytes']))}, and {would_do}",
        smallest,
    )


def _with_share(peak_bytes):
    """The smallest budget that leaves so much to the step."""
    budget = peak_bytes
    while budget and budget - allocator_share(budget) < peak_bytes:
        budget += peak_bytes - (budget - allocator_share(budget))
    return budget
