"""Plans at random: any set of storages given up that a runtime could rebuild, at any time."""

import random

from tidemark.schedule import Plan, Timeline


def makers(graph):
    made = {}
    for i, op in enumerate(graph.ops):
        for s in op.writes:
            made.setdefault(s, i)
    return made


def rebuildable(graph):
    """Storages whose making op may run again."""
    made = makers(graph)
    return sorted(
        s
        for s, op in made.items()
        if graph.ops[op].recompute in ("pure", "random")
        and graph.ops[op].phase == "forward"
        and not graph.storages[s].until_end
    )


def schedule_for(graph, dropped, rng, forget):
    """Runs an op again just before its output is needed; `forget`: chance that, before an op, what was rebuilt is given
    up once more."""
    made, there, schedule = makers(graph), {}, []

    def need(s, now):
        if s not in dropped or there.get(s) or now <= (graph.storages[s].pinned_until or -1):
            return
        op = made[s]
        for r in graph.ops[op].reads:
            need(r, now)
        schedule.append(op)
        for w in graph.ops[op].writes:
            there[w] = True

    for i, op in enumerate(graph.ops):
        if op.phase == "backward":
            if rng.random() < forget:
                there = {}
            for s in dict.fromkeys((*op.holds, *op.reads)):
                need(s, i)
        schedule.append(i)
    return schedule


def random_plan(graph, seed, share=None):
    rng = random.Random(seed)
    share = rng.choice([0.1, 0.5, 0.9, 1.0]) if share is None else share
    dropped = {s for s in rebuildable(graph) if rng.random() < share}
    schedule = schedule_for(graph, dropped, rng, rng.choice([0.0, 0.1, 0.5]))
    plan = Plan(graph, 0, schedule)
    plan.peak_bytes = max(Timeline(graph, schedule).live_bytes())
    return plan


def with_swaps(plan, seed, share=0.7):
    """The same schedule, and storages in host memory between touches of backward, at random."""
    rng, graph = random.Random(seed), plan.graph
    timeline = Timeline(graph, plan.schedule)
    at, touches, last_forward = timeline.position_of(), {}, {}
    for position, i in enumerate(plan.schedule):
        op = graph.ops[i]
        for s in {*op.reads, *op.writes, *(() if timeline.again[position] else op.holds)}:
            touches.setdefault(s, []).append(position)
            if op.phase == "forward" and not timeline.again[position]:
                last_forward[s] = position
    swaps = []
    for s in sorted(graph.swappable()):
        pinned = graph.storages[s].pinned_until
        held = max(last_forward[s], at[pinned] if pinned is not None else 0)
        for a, b in zip(touches[s], touches[s][1:]):
            together = any(first <= a and b <= last for first, last in timeline.stays[s])
            if together and held <= a < b - 1 and rng.random() < share:
                swaps.append((s, a, b))
    swapped = Plan(graph, 0, plan.schedule, swaps)
    swapped.peak_bytes = max(timeline.live_bytes(swaps))
    return swapped
