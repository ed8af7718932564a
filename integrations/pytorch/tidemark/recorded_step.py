"""Requests of the kernels of a step, learnt from one that ran: for plans whose capture did not measure them. The step is
planned again with them, to the same budget."""

import dataclasses
import itertools

from .errors import InfeasibleError
from .held_over import hold_over
from .kernel_requests import requests_of
from .op_requests import grow_to_requests, requests_of_call, settle_workspaces
from .planning import plan

_MOST_OF_A_NUMBER = 16  # bytes: a complex one


def may_plan_again(planned):
    """Where collectives are recomputed every process must follow the same plan, which one of them must not change."""
    first, again = set(), []
    for i in planned.schedule:
        (again.append if i in first else first.add)(i)
    return planned.budget_bytes > 0 and all(planned.graph.ops[i].recompute != "collective" for i in again)


def plan_with(planned, kernels):
    """The plan again, with what was seen: (name, addresses of outputs, events before it and of it) by kernel in order.
    None where the step ran otherwise than captured, or does not fit with its workspaces."""
    graph = with_requests(planned.graph, kernels)
    if graph is None:
        return None
    try:
        return plan(graph, planned.budget_bytes, reserve=planned.reserve_bytes, progress=False)
    except InfeasibleError:
        return None


def with_requests(graph, kernels):
    """The same step with requests and workspaces, or None."""
    calls = sorted(((call.index, i, call) for i, op in enumerate(graph.ops) for call in op.calls), key=lambda c: c[0])
    if [call.func for _, _, call in calls] != [name for name, *_ in kernels]:
        return None
    ops = [dataclasses.replace(op, requests=[], transient_bytes=0, holds=[*op.holds]) for op in graph.ops]
    storages = [dataclasses.replace(storage) for storage in graph.storages]
    found = dataclasses.replace(graph, ops=ops, storages=storages, knows_requests=True)
    for (_, i, call), (_, outputs, before, events) in zip(calls, kernels, strict=True):
        op = found.ops[i]
        requests, room = requests_of(_with_numbers(before, events), outputs, graph.device)
        op.transient_bytes = max(op.transient_bytes, room)
        op.requests += requests_of_call(requests, call.outputs)
    settle_workspaces(found)
    grow_to_requests(found.ops, found.storages)
    hold_over(found)
    return found


def _with_numbers(before, events):
    """Numbers among a kernel's arguments become tensors just before it, the last that came, and go just behind it."""
    small = itertools.takewhile(lambda event: 0 < event[1] <= _MOST_OF_A_NUMBER, reversed(before))
    numbers = list(small)[::-1]
    return [*numbers, *events, *((address, 0) for address, _ in numbers)]
