"""Plans at random: the planner's, for costs and budgets that are drawn."""

import copy
import random

import pytest
import tidemark
from tidemark.graph import HostLink
from tidemark.planning import plan_of, solve

EFFORT_PERCENT = 1


def least(graph):
    """The smallest budget that is known to do."""
    with pytest.raises(tidemark.InfeasibleError) as refusal:
        tidemark.plan(graph, graph.keep_all_peak_bytes() // 8)
    return refusal.value.smallest_bytes


def random_plan(graph, seed, share=None, link=None):
    """`share`: how far from keeping all down to the least that is known to do. `link`: storages may be swapped over it."""
    rng = random.Random(seed)
    share = rng.choice([0.1, 0.5, 0.9, 1.0]) if share is None else share
    drawn = copy.copy(graph)
    drawn.host_link = link
    drawn.ops = [copy.copy(op) for op in graph.ops]
    for op in drawn.ops:
        op.cost = rng.randrange(1000, 1_000_000)
    text = drawn.to_json()
    keep = graph.keep_all_peak_bytes()
    least = solve(text, 1, effort_percent=EFFORT_PERCENT)[0]["ranks"][0]["smallest_budget_bytes"]
    budget = keep - int(share * (keep - least))
    for _ in range(20):
        answer, file = solve(text, budget, effort_percent=EFFORT_PERCENT)
        if answer["fits"]:
            plan = plan_of(graph, 0, answer, file)  # nothing is limited
            assert share < 1.0 or not plan.keeps_all, "nothing can be saved; take a larger step"
            return plan
        budget += (keep - least) // 20 + 1
    raise AssertionError(f"nothing fits between {least} and {keep} bytes")


def swapped(graph, seed):
    """Every other time with recomputation beside swaps. A plan swaps no more than its budget asks for."""
    link = HostLink(1e12, 1e12, 0) if seed % 2 else HostLink(1e15, 1e15, 0)
    return random_plan(graph, seed, share=(0.8, 0.9, 1.0)[seed % 3], link=link)
