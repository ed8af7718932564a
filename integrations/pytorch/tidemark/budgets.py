"""Budgets as people give them where the step is known: bytes, sizes, shares of what it needs, what the device has."""

import re

import torch

from . import allocator
from .allocator_share import with_granules
from .errors import BadValueError
from .sizes import parse_bytes, said


def budget_bytes(budget, graph, reserve_bytes=0):
    """Bytes of a number, of a size such as "24GiB", or of a share such as "60%": of what the step takes with everything
    kept, with the allocator's part of the budget, gaps and `reserve_bytes` on top. None, on an accelerator: what the current
    device has free, and what this process has of it. Raises BadValueError, and TidemarkError for what is no size."""
    if budget is None:
        return _of_the_device(graph.device)
    share = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?%", budget) if isinstance(budget, str) else None
    if isinstance(budget, float) or (share is None and isinstance(budget, str) and "%" in budget):
        raise BadValueError(f"budget {said(budget)} is no share; right would be for instance budget='60%'")
    if share is None:
        return parse_bytes(budget)
    if not float(share[1]) > 0:
        raise BadValueError(f"budget {budget!r} leaves nothing; right would be a share above zero, for instance '60%'")
    share_bytes = int(graph.keep_all_peak_bytes() * float(share[1]) / 100)
    return with_granules(share_bytes + graph.gaps_bytes + reserve_bytes)


def _of_the_device(kind):
    if kind == "cpu":
        raise BadValueError(
            "the CPU's memory serves every program of the machine, so a budget must be given; right would be for "
            "instance budget='8GiB', or budget='60%' of what the step needs with everything kept"
        )
    module = getattr(torch, kind)
    free, _ = module.mem_get_info()
    served = allocator.serves(kind)
    held = allocator.statistics(module.current_device()).reserved_bytes if served else module.memory_reserved()
    return free + held
