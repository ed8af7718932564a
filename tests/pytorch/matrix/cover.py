"""Which cells are tried: every pair of values of two factors is in one of them, in few cells (a pairwise cover), found
greedily and the same every time."""

import itertools
import random

ENGINES = (
    *("loop", "checkpointed", "compiled", "trainer", "lightning", "accelerate"),
    *("ddp", "fsdp2", "tensor_parallel", "pipeline_1f1b", "pipeline_interleaved"),
)
TASKS = ("llama", "gpt2", "mixtral", "qwen2_moe", "deepseek", "vit", "resnet50", "lstm", "encoder", "lora")
MODES = ("adamw_fused", "adamw_foreach", "sgd", "autocast", "accumulation")
BUDGETS = (80, 60, 40)  # percent of what the step takes with everything kept
FACTORS = (ENGINES, TASKS, MODES, BUDGETS)
_DRAWS = 60  # of which the best is taken, per cell


def cells(factors=FACTORS, seed=0):
    """Tuples of one value of each factor, such that all pairs come."""
    rng = random.Random(seed)
    left = {
        pair
        for (i, one), (j, other) in itertools.combinations(enumerate(factors), 2)
        for pair in itertools.product(((i, v) for v in one), ((j, v) for v in other))
    }
    found = []
    while left:
        found.append(max((_drawn(factors, left, rng) for _ in range(_DRAWS)), key=lambda cell: _new(cell, left)))
        left -= set(_pairs(found[-1]))
    return sorted(found, key=lambda cell: [factor.index(value) for factor, value in zip(factors, cell)])


def _drawn(factors, left, rng):
    """Begun with a pair that is missing, and filled with what covers most."""
    cell = dict(rng.choice(sorted(left, key=str)))
    for i in rng.sample(range(len(factors)), len(factors)):
        if i not in cell:
            worth = {v: sum(_in_order((i, v), other) in left for other in cell.items()) for v in factors[i]}
            most = max(worth.values())
            cell[i] = rng.choice([v for v in factors[i] if worth[v] == most])
    return tuple(cell[i] for i in range(len(factors)))


def _in_order(one, other):
    return (one, other) if one[0] < other[0] else (other, one)


def _pairs(cell):
    return itertools.combinations(enumerate(cell), 2)


def _new(cell, left):
    return sum(pair in left for pair in _pairs(cell))
