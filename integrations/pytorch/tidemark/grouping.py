"""From what a capture saw to a Graph: calls become operations, weak references become live ranges.

A storage that is made and then changed by the very next calls (empty_like and bernoulli_ of a dropout) is one
operation: together they can be recomputed, apart they cannot.
"""

from . import kernels
from .beside_plan import leave_beside
from .graph import Call, Graph, Op, Request, Save, Storage
from .op_requests import grow_to_requests, requests_of_call, settle_workspaces

_HARDEST = ("never", "collective", "random", "pure")


def build_graph(log, name, fingerprint, device, micro_batches):
    groups = _groups(log.calls)
    op_of = {}
    for i, group in enumerate(groups):
        for call in group:
            op_of[call] = i
    ops = [_op(log.calls, group, device) for group in groups]
    for op, group in zip(ops, groups, strict=True):
        op.requests = [request for c in group for request in _requests(log, c)]
    _forbid_unsafe(ops, groups, log)
    storages = [Storage(seen.name, seen.bytes, seen.role, seen.module) for seen in log.storages]
    grow_to_requests(ops, storages)
    saves = _saves(log, ops, op_of)
    graph = Graph(name, ops, storages, saves, fingerprint, device, micro_batches)
    _pin(graph, log, op_of)
    settle_workspaces(graph)
    leave_beside(graph, log)
    return graph


def _groups(calls):
    """Consecutive calls that make one storage and bring it to its first value."""
    groups, i = [], 0
    while i < len(calls):
        group = [i]
        fresh = [o for o in calls[i].outputs if o is not None]
        if calls[i].phase == "forward" and not calls[i].in_place and len(fresh) == 1:
            while group[-1] + 1 < len(calls):
                follower = calls[group[-1] + 1]
                if follower.phase != "forward" or not follower.in_place or follower.writes != fresh:
                    break
                if follower.site.path != calls[i].site.path or follower.site.call != calls[i].site.call:
                    break
                group.append(group[-1] + 1)
        groups.append(group)
        i = group[-1] + 1
    return groups


def _op(calls, group, device):
    first = calls[group[0]]
    writes = list(dict.fromkeys(w for c in group for w in calls[c].writes))
    made = set(o for o in first.outputs if o is not None)
    reads = list(dict.fromkeys(r for c in group for r in calls[c].reads if not (len(group) > 1 and r in made)))
    classes = [kernels.recompute_class(calls[c].func) for c in group]
    if len(group) > 1:  # mutates only what it has made
        classes = [_class_within(calls[c].func) for c in group]
    recompute = next(k for k in _HARDEST if k in classes)
    if len(group) == 1 and kernels.leaves_unwritten(first.func):
        recompute = "never"
    if first.phase != "forward" or not writes:
        recompute = "never"
    if any(kernels.adds_in_any_order(calls[c].func, device) for c in group):
        recompute = "never"
    return Op(
        name="+".join(calls[c].func._schema.name.replace("::", ".") for c in group),
        cost=sum(calls[c].cost for c in group),
        reads=reads,
        writes=writes,
        phase=first.phase,
        recompute=recompute,
        module=first.module,
        micro_batch=first.micro_batch,
        transient_bytes=max(calls[c].transient_bytes for c in group),
        calls=[_call(calls[c], c) for c in group],
    )


def _call(seen, number):
    return Call(kernels.name_of_call(seen.func, seen.to_host), seen.site, seen.outputs, number)


def _requests(log, c):
    """What a call asks the allocator for. Where that was not measured, what it returns and makes; so also where it was
    measured on values of which it returns nothing, as the mask that selects no row."""
    call = log.calls[c]
    if call.is_aside:  # a session serves one stream
        return []
    found = requests_of_call(call.requests or (), call.outputs)
    known = {request.storage for request in found}
    made = [s for s in dict.fromkeys(call.outputs) if s is not None and log.storages[s].born == c]
    return found + [Request(s, log.storages[s].bytes) for s in made if s not in known]


def _class_within(func):
    if kernels.is_collective(func):
        return "collective"
    return "random" if kernels.is_random(func) else "pure"


def _forbid_unsafe(ops, groups, log):
    """What reads or writes a version that is changed later, or that its owner gives up, cannot be rebuilt from its sources."""
    changes = {}  # storage -> operations that change it in place
    for i, op in enumerate(ops):
        made = {o for c in groups[i] for o in log.calls[c].outputs if o is not None}
        for w in op.writes:
            if w not in made:
                changes.setdefault(w, []).append(i)
    given_up = {s for s, seen in enumerate(log.storages) if seen.was_resized}  # there in their own time alone
    for i, op in enumerate(ops):
        if op.recompute == "never":
            continue
        if not given_up.isdisjoint((*op.reads, *op.writes)):
            op.recompute = "never"
            continue
        later = [
            s for s in (*op.reads, *op.writes) if any(c > i for c in changes.get(s, ()) if ops[c].phase != "optimizer")
        ]
        if later:
            op.recompute = "never"


def _saves(log, ops, op_of):
    """Backward holds what it has unpacked from before the first kernel of a node to after its last."""
    calls = log.calls
    saves = []
    for seen in log.saves:
        save = Save(seen.site, seen.storage, seen.bytes, seen.is_part)
        saves.append(save)
        if log.storages[seen.storage].was_resized:
            continue  # backward finds what its storage has been filled with since
        _hold_while_saved(seen, calls, ops, op_of)
        for use in seen.uses:
            if use >= len(calls):
                continue
            last = use
            while (
                last + 1 < len(calls) and calls[last + 1].node is not None and calls[last + 1].node == calls[use].node
            ):
                last += 1
            last = next((c for c in log.storages[seen.storage].released_after if use <= c <= last), last)
            save.uses.append(op_of[use])
            save.until.append(op_of[last])
            for op in range(op_of[use], op_of[last] + 1):
                if seen.storage not in ops[op].holds:
                    ops[op].holds.append(seen.storage)
    return saves


def _hold_while_saved(seen, calls, ops, op_of):
    """What is saved behind its last kernel, as by an autograd function of the user's, is there until then: a session that
    had released it would take it for none of the plan's."""
    around = [op_of[c] for c in (seen.after - 1, seen.after) if 0 <= c < len(calls) and calls[c].phase == "forward"]
    if around and not any(seen.storage in (*ops[i].reads, *ops[i].writes, *ops[i].holds) for i in around):
        ops[around[0]].holds.append(seen.storage)


def _pin(graph, log, op_of):
    """What the framework itself holds, as a local variable does between two uses, gives no memory up meanwhile."""
    made_by = {}
    for i, op in enumerate(graph.ops):
        for s in op.reads:
            made_by.setdefault(s, -1)  # there before
        for s in op.writes:
            made_by.setdefault(s, i)
    for s, (storage, seen) in enumerate(zip(graph.storages, log.storages)):
        if storage.resident:
            continue
        if seen.died is None:
            storage.until_end = True
            continue
        pinned = op_of[max(seen.died, 0)]
        if pinned > made_by.get(s, -1):
            storage.pinned_until = pinned
