"""A step's memory as a picture: before, planned, and measured where something was measured."""

import os

from .errors import BadValueError
from .memory_chart import Line, Panel, chart, escaped
from .memory_curve import MemoryCurve
from .sizes import format_bytes
from .whole_file import write_whole

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<style>body{{margin:0;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;background:#fbfaf8;
color:#1c2026}}main{{max-width:1200px;margin:0 auto;padding:32px 28px 64px}}h1{{font-size:24px;margin:0 0 6px}}
p{{margin:6px 0 18px}}footer{{margin-top:28px;color:#5f6772;font-size:13px}}
@media(prefers-color-scheme:dark){{body{{background:#14171b;color:#e7e9ec}}footer{{color:#9aa3ad}}}}</style></head>
<body><main>
<h1>{title}</h1>
<p>{summary}</p>
{chart}
<footer>Made by Tidemark. Predicted: live bytes of the captured step, operation by operation. Measured: what Tidemark's
allocator had given out, to the step and to all else in the process. What is swapped is drawn to where its copy out begins,
and from where its copy in must be there; the predicted peak counts copies on their way as well. 1 GiB = 1024 MiB.</footer>
</main></body></html>
"""


class Picture:
    """Shown by a notebook as an image. `svg` and `page` (HTML) are text that needs nothing besides."""

    def __init__(self, title, summary, svg):
        self.svg = svg
        self.page = _PAGE.format(title=escaped(title), summary=escaped(summary), chart=svg)

    def save(self, path):
        """As HTML, or as SVG where the path ends so."""
        text = self.svg if os.fspath(path).endswith(".svg") else self.page
        write_whole(path, text.encode())

    def saved(self, path):
        """Itself, saved where a path is given."""
        if path is not None:
            self.save(path)
        return self

    def _repr_svg_(self):
        return self.svg


def _before(graph, by):
    return Panel("before: everything kept, predicted", MemoryCurve.of_keeping_all(graph, by))


def _measured(step):
    if step is not None and not hasattr(step, "live_bytes"):
        raise BadValueError(f"measured is of type {type(step).__name__}; right would be what tidemark.measured_step() has filled")
    title = "measured: one step, by requests and releases of the allocator in order"
    return [Panel(title, levels=step.live_bytes)] if step is not None and step.live_bytes else []


def of_graph(graph, by, measured):
    """The Picture of a captured step. `by`, `measured`: see tidemark.picture()."""
    _check(by)
    title = f"Memory of a step of {graph.name}"
    summary = f"{len(graph.ops)} operations; it peaks at {format_bytes(graph.keep_all_peak_bytes())} with everything kept."
    return Picture(title, summary, chart(title, [_before(graph, by), *_measured(measured)]))


def of_plan(plan, by, measured=None, measured_peak_bytes=None):
    """The Picture of a plan. `by`, `measured`: see tidemark.picture()."""
    _check(by)
    planned = Panel("planned, predicted", MemoryCurve.of_plan(plan, by), swaps=plan.swaps)
    panels = [_before(plan.graph, by), planned, *_measured(measured)]
    for panel in panels if plan.budget_bytes else ():
        panel.lines.append(Line(f"budget {format_bytes(plan.budget_bytes)}", plan.budget_bytes, "budget"))
    planned.lines.append(Line(f"predicted peak {format_bytes(plan.peak_bytes)}", plan.peak_bytes, "predicted"))
    for panel in panels[1:] if measured_peak_bytes is not None else ():
        panel.lines.append(Line(f"measured peak {format_bytes(measured_peak_bytes)}", measured_peak_bytes, "peak"))
    title = f"Memory of a step of {plan.graph.name}"
    return Picture(title, plan.summary()[:1].upper() + plan.summary()[1:] + " (predicted).", chart(title, panels))


def _check(by):
    if by not in ("role", "module"):
        raise BadValueError(f"by is {by!r}; right would be by='role' or by='module'")
