"""The table of docs/pytorch_matrix.md, made of what the processes of each cell said."""

import dataclasses
import re
import textwrap

CLOSE = 0.03  # of predicted, that measured may be off
WORDS = ("ok", "idle", "off", "refused", "failed")  # verdicts, the worst last

_HEAD = """# PyTorch: engines, models and optimizers tried

{made}

{cells}

- **verdict**: **ok**: losses and gradients (Trainer, Lightning: losses and parameters) of all steps are equal bit for bit to the run
  without a plan, no more than the budget is held, the peak is within {close} % of predicted, and the session recomputed or swapped in
  every process. **off**: all of that but the peak. **idle**: all of that, and a session that did nothing. **refused**: by Tidemark, in
  one line. **failed**: anything else, an error of the engine's own without a plan as well.
- **peak**: measured in blocks, over predicted, of the process that is furthest off.
- **held**: the most taken from the machine, in percent of the budget: never over 100.
- **departures**: operations that came otherwise than recorded, such as those of experts that other rows hit.

{summary}

| Engine | Model | Mode | Budget | Verdict | Peak | Held | Recomputed and swapped | Departures |
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


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`word`: one of WORDS; `why`: in one line, of all but "ok"."""

    word: str
    why: str = ""

    def __str__(self):
        return f"{self.word}: {self.why}" if self.why else self.word

    @property
    def ran(self):
        return self.word in ("ok", "off", "idle")


def page(cells, kept, versions, date):
    count = len(cells)
    cells = [cell for cell in cells if " ".join(map(str, cell)) in kept]
    rows = [_row(cell, kept[" ".join(map(str, cell))]) for cell in cells]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    said = _MADE.format(date=date, versions=named), _CELLS.format(count=count), _summary(cells, kept)
    made, tried, summary = (textwrap.fill(text, 140) for text in said)
    head = _HEAD.format(made=made, cells=tried, summary=summary, close=f"{100 * CLOSE:.0f}")
    return head + "".join(rows) + _notes(cells, kept)


def verdict(processes):
    """The worst that a process of the cell said."""
    return max(map(_verdict, processes), key=lambda found: WORDS.index(found.word))


def _verdict(said):
    if "alike" not in said:
        return _broken(said)
    if not said["alike"]:
        return Verdict("failed", "other bits")
    if said["reserved"] > said["budget"]:
        return Verdict("failed", "over the budget")
    if not _is_close(said):
        return Verdict("off", f"peak {_ratio(said):.3f} of predicted")
    if said["acted"] == 0:  # every cell asks for less than everything kept takes
        keeps_all = said["predicted"] >= said["keep_all"]
        return Verdict("idle", "the smallest budget keeps everything" if keeps_all else "nothing recomputed or swapped")
    return Verdict("ok")


def _broken(said):
    """Refused is what Tidemark says in a line of its own, be it as the end of the process; whatever else ended a run is a
    failure, an error of the engine's without a plan as well."""
    for key in ("crashed", "failed", "refused"):
        if key in said:
            own = re.fullmatch(r"(?:Tidemark: |exit status 1: tidemark\.errors\.\w+: )(.+)", said[key])
            return Verdict("refused", own[1]) if own else Verdict("failed", said[key])
    return Verdict("failed", "said nothing")


def _is_close(said):
    return abs(_ratio(said) - 1) <= CLOSE


def _ratio(said):
    return said["measured"] / said["predicted"]


def _furthest(processes):
    return max(map(_ratio, processes), key=lambda ratio: abs(ratio - 1))


def _row(cell, processes):
    engine, task, mode, percent = cell
    found = verdict(processes)
    begin = f"| {engine} | {task} | {mode} | "
    if not found.ran:
        return f"{begin}{percent} % | {found.word} | | | | |\n"
    shares = {f"{p['percent']} %" if p["percent"] else "least" for p in processes}
    held = max(100 * p["reserved"] / p["budget"] for p in processes)
    acted, off = sum(p["acted"] for p in processes), sum(p["off_plan"] for p in processes)
    share = ", ".join(sorted(shares))
    return f"{begin}{share} | {found.word} | {_furthest(processes):.3f} | {held:.0f} % | {acted} | {off} |\n"


def _summary(cells, kept):
    found = [kept[" ".join(map(str, cell))] for cell in cells]
    verdicts = [verdict(processes) for processes in found]
    counts = ", ".join(f"{sum(v.word == word for v in verdicts)} {word}" for word in WORDS)
    ran = [p for processes, v in zip(found, verdicts) if v.ran for p in processes]
    steady = [p for p in ran if p["off_plan"] == 0]
    return (
        f"{len(cells)} cells were tried: {counts}. "
        f"{sum(map(_is_close, ran))} of {len(ran)} processes that ran peak within {100 * CLOSE:.0f} % of predicted; of the "
        f"{len(steady)} without departures, {sum(map(_is_close, steady))}."
    )


def _notes(cells, kept):
    """Of cells that are not ok, each reason once."""
    reasons = {}
    for cell in cells:
        found = verdict(kept[" ".join(map(str, cell))])
        if found.word != "ok":
            reasons.setdefault(str(found), []).append(" ".join(map(str, cell[:3])))
    if not reasons:
        return ""
    lines = [textwrap.fill(f"- {', '.join(which)}: {why}", 140, subsequent_indent="  ") for why, which in reasons.items()]
    return "\nWhat is not ok:\n\n" + "\n".join(lines) + "\n"
