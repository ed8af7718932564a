"""What the rows of a device tell of plans: which terms of step time were measured, and how far off predictions are."""


def measured_terms(rows):
    """{name: rows that have it}, by name."""
    names = {}
    for row in rows:
        for term in row.terms:
            names[term] = names.get(term, 0) + 1
    return dict(sorted(names.items()))


def conformal_percent(offs):
    """As planner/step_time/time_bands.h: of n the ceil(4/5 (n + 1))-th smallest, or the largest."""
    ordered = sorted(offs)
    return ordered[min(len(ordered), (4 * (len(ordered) + 1) + 4) // 5) - 1]


def bands_of(rows, held_out):
    """{kind: half width in percent} of rows with experts and of dense ones; `held_out`: seconds without their fold."""
    offs = {"dense": [], "experts": []}
    for row, seconds in zip(rows, held_out):
        off = 100 * (max(row.measured_s, seconds) / min(row.measured_s, seconds) - 1)
        offs["experts" if "experts" in row.terms else "dense"].append(off)
    return {kind: (conformal_percent(of_kind), len(of_kind)) for kind, of_kind in offs.items() if of_kind}
