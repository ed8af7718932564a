"""The table of docs/pytorch_matrix.md, made of what the processes of each cell said."""

import textwrap

CLOSE = 0.03  # of predicted, that measured may be off

_HEAD = """# PyTorch: engines, models and optimizers tried

{made}

{cells}

- **bits**: losses and gradients (Trainer, Lightning: losses and parameters) of all steps are equal to the run without a plan.
- **peak**: measured in blocks, over predicted, of the process that is furthest off.
- **held**: the most taken from the machine, in percent of the budget: never over 100.
- **departures**: operations that came otherwise than recorded, such as those of experts that other rows hit.

{summary}

| Engine | Model | Mode | Budget | Bits | Peak | Held | Recomputed and swapped | Departures |
|---|---|---|--:|---|--:|--:|--:|--:|
"""
_MADE = (
    "Made by `scripts/pytorch_matrix --docs` on {date}; do not edit. {versions}; on a CPU, one thread a process, two processes "
    "over gloo where an engine is of several."
)
_CELLS = (
    "Each cell trains six steps (a Trainer's and Lightning's four) without a plan and then again by one, at a share of what the "
    "step takes with everything kept, or at the smallest budget that does (least). Every pair of engine, model, mode and budget "
    "is in one of {count} cells. All figures are measured but for the predicted peaks."
)


def page(cells, kept, versions, date):
    count = len(cells)
    cells = [cell for cell in cells if " ".join(map(str, cell)) in kept]
    rows = [_row(cell, kept[" ".join(map(str, cell))]) for cell in cells]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    said = _MADE.format(date=date, versions=named), _CELLS.format(count=count), _summary(cells, kept)
    made, tried, summary = (textwrap.fill(text, 140) for text in said)
    head = _HEAD.format(made=made, cells=tried, summary=summary)
    return head + "".join(rows) + _notes(cells, kept)


def verdict(processes):
    if any("crashed" in p for p in processes):
        return "FAILED: " + next(p["crashed"] for p in processes if "crashed" in p)
    if any("refused" in p for p in processes):
        return "refused: " + next(p["refused"] for p in processes if "refused" in p)
    if not all(p["alike"] for p in processes):
        return "FAILED: other bits"
    if any(p["reserved"] > p["budget"] for p in processes):
        return "FAILED: over the budget"
    return "ok" if all(_is_close(p) for p in processes) else f"ok, peak {_furthest(processes):.3f} of predicted"


def _is_close(said):
    return abs(said["measured"] / said["predicted"] - 1) <= CLOSE


def _furthest(processes):
    return max((p["measured"] / p["predicted"] for p in processes), key=lambda ratio: abs(ratio - 1))


def _row(cell, processes):
    engine, task, mode, percent = cell
    begin = f"| {engine} | {task} | {mode} | "
    found = verdict(processes)
    if found.startswith(("FAILED", "refused")):
        return f"{begin}{percent} % | {found.split(':')[0]} | | | | |\n"
    shares = {f"{p['percent']} %" if p["percent"] else "least" for p in processes}
    held = max(100 * p["reserved"] / p["budget"] for p in processes)
    acted, off = sum(p["acted"] for p in processes), sum(p["off_plan"] for p in processes)
    share = ", ".join(sorted(shares))
    return f"{begin}{share} | equal | {_furthest(processes):.3f} | {held:.0f} % | {acted} | {off} |\n"


def _summary(cells, kept):
    found = [kept[" ".join(map(str, cell))] for cell in cells]
    verdicts = [verdict(processes) for processes in found]
    ran = [p for processes, v in zip(found, verdicts) if v.startswith("ok") for p in processes]
    close = sum(_is_close(p) for p in ran)
    steady = [p for p in ran if p["off_plan"] == 0]
    return (
        f"{len(cells)} cells were tried. "
        f"{sum(v.startswith('ok') for v in verdicts)} ran, all equal bit for bit and within their budgets; "
        f"{sum(v.startswith('refused') for v in verdicts)} are refused in one line, "
        f"{sum(v.startswith('FAILED') for v in verdicts)} failed. "
        f"{close} of {len(ran)} processes peak within {100 * CLOSE:.0f} % of predicted; of the {len(steady)} without "
        f"departures, {sum(map(_is_close, steady))}."
    )


def _notes(cells, kept):
    """Why cells did not run, each reason once."""
    reasons = {}
    for cell in cells:
        found = verdict(kept[" ".join(map(str, cell))])
        if not found.startswith("ok"):
            reasons.setdefault(found, []).append(" ".join(map(str, cell[:3])))
    if not reasons:
        return ""
    lines = [f"- {', '.join(which)}: {why}\n" for why, which in reasons.items()]
    return "\nWhat did not run:\n\n" + "".join(lines)
