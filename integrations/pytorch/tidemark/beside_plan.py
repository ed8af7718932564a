"""What an engine that resizes storages, as FSDP, asks for where no plan has a place: a session serves the kernels of the forward
from the planned block, and temporaries of backward."""

from .kernels import may_last


def beside_plan_bytes(graph, log):
    """The most of it that is there at once. `graph`: of `log`, number by number."""
    if not any(seen.is_by_resizing for seen in log.storages):
        return 0
    change = [0] * (len(graph.ops) + 1)
    ranges = graph.live_ranges()
    for number, seen in enumerate(log.storages):
        if _is_beside(log, seen):
            first, last = ranges[number]
            change[first] += graph.block_bytes(number)
            change[last + 1] -= graph.block_bytes(number)
    live, most = 0, 0
    for bytes_ in change:
        live += bytes_
        most = max(most, live)
    return most


def _is_beside(log, seen):
    if seen.born < 0:
        return False
    call = log.calls[seen.born]
    return seen.is_by_resizing or (call.phase == "backward" and may_last(call.func))
