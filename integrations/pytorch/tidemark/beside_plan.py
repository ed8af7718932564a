"""What a step asks for on other streams than its own, as FSDP does for what it gathers on an accelerator. A session serves one
stream from the planned memory, so that room for it is beside, and the plan has none."""


def leave_beside(graph, log):
    """`graph`: of `log`, number by number. What autograd saves is in the plan as well, which moves it. The rest has no bytes
    in a plan, which would keep it for free to recompute what reads it; so that is not recomputed."""
    ranges, saved, beside = graph.live_ranges(), {save.storage for save in graph.saves}, set()
    change = [0] * (len(graph.ops) + 1)
    for number, seen in enumerate(log.storages):
        if seen.born >= 0 and log.calls[seen.born].is_aside:
            first, last = ranges[number]
            change[first] += graph.block_bytes(number)
            change[last + 1] -= graph.block_bytes(number)
            if number not in saved:
                graph.storages[number].bytes = 0
                beside.add(number)
    live, most = 0, 0
    for i, op in enumerate(graph.ops):
        live += change[i]
        workspace = 0
        if all(log.calls[call.index].is_aside for call in op.calls):
            workspace, op.transient_bytes = graph.rounded(op.transient_bytes), 0
        most = max(most, live + workspace)
        if not beside.isdisjoint((*op.reads, *op.writes)):
            op.recompute = "never"
    graph.beside_plan_bytes = most
