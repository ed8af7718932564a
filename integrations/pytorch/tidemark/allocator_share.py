"""What of a budget the allocator needs for itself."""

GRANULE_BYTES = 2 * 2**20  # it takes memory in multiples of it
_GRANULES_BYTES = 3 * GRANULE_BYTES  # what it may have reserved, what a plan has, and what stands there: part of one each
_GAPS = 256  # one byte of so many


def allocator_share(budget_bytes):
    """What of a budget is left to the allocator: it takes memory in granules and leaves gaps in them."""
    return min(_GRANULES_BYTES + budget_bytes // _GAPS, budget_bytes // 2)


def with_granules(step_bytes):
    """A budget that leaves so much to the step, and all of its share to the allocator: of a step below a few MiB that is
    more than with_share(), and what the allocator can work with."""
    return (step_bytes + _GRANULES_BYTES) * _GAPS // (_GAPS - 1) + 1


def with_share(peak_bytes):
    """The smallest budget that leaves so much to the step."""
    budget = peak_bytes
    while budget and budget - allocator_share(budget) < peak_bytes:
        budget += peak_bytes - (budget - allocator_share(budget))
    return budget
