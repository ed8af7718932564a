"""Memory over one step as SVG: one panel each for the step before, as planned and as measured, on one scale of bytes.

Needs no script and no network; names are escaped. Words and colours are those of the command line's report
(integrations/formats/report_page.cc).
"""

import dataclasses
import html
import math
import re

from .memory_curve import OTHERS, WORKSPACE
from .sizes import format_bytes

_WIDTH, _LEFT, _RIGHT = 1000, 84, 20
_PANEL, _TITLE, _AXIS, _STRIP = 250, 26, 26, 6
_COLUMNS = 240
_LARGEST = 4  # storages named at every column
_MOST_PHASES = 12  # named below the axis

ROLES = {
    "parameter": ("parameters", 0),
    "gradient": ("gradients", 1),
    "optimizer_state": ("optimizer state", 2),
    "activation": ("activations", 3),
    "temporary": ("temporary", 4),
    "input": ("inputs", 5),
}

_COLOURS = {  # class, with what it colours: in light and in dark
    "ground": ("fill", "#fff", "#1b1f25"),
    "grid": ("stroke", "#e3e1dc", "#2d333b"),
    "budget": ("stroke", "#b3261e", "#ff8a80"),
    "peak": ("stroke", "#1c2026", "#e7e9ec"),
    "predicted": ("stroke", "#5f6772", "#9aa3ad"),
    "curve": ("stroke", "#1c2026", "#e7e9ec"),
    "f0": ("fill", "#3f6491", "#4d78ad"),
    "f1": ("fill", "#7398c0", "#6f93bb"),
    "f2": ("fill", "#aec6df", "#93aecb"),
    "f3": ("fill", "#dd7733", "#e08a4c"),
    "f4": ("fill", "#eec04f", "#e3bb55"),
    "f5": ("fill", "#58a06c", "#62b07a"),
    "fr": ("fill", "#a3a7ad", "#6b7178"),
    "recompute": ("fill", "#dd7733", "#e08a4c"),
    "swap": ("fill", "#3f7fb5", "#4f93cc"),
    "soft": ("fill", "#5f6772", "#9aa3ad"),
    "head": ("fill", "#1c2026", "#e7e9ec"),
    "over": ("fill", "#b3261e", "#ff8a80"),
}


def _colours(which):
    return "".join(f".tidemark .{name}{{{what[0]}:{what[which]}}}" for name, what in _COLOURS.items())


STYLE = (
    '.tidemark text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}'
    ".tidemark .head{font-size:13px;font-weight:600}.tidemark .curve{fill:none;stroke-width:1.4}"
    ".tidemark .budget{stroke-width:1.5;stroke-dasharray:6 4}.tidemark .peak,.tidemark .predicted{stroke-dasharray:1.5 3}"
    ".tidemark .column{fill:#888;fill-opacity:0}.tidemark .column:hover{fill-opacity:.25}"
    f"{_colours(1)}@media(prefers-color-scheme:dark){{{_colours(2)}}}"
)


@dataclasses.dataclass
class Line:
    """Across a panel. `kind`: budget, predicted or peak (measured); said at its right end, the predicted one at its left."""

    text: str
    bytes: int
    kind: str


@dataclasses.dataclass
class Panel:
    """`curve`: a MemoryCurve, or None where there are `levels` alone. `swaps`: (storage, after, before) of a plan."""

    title: str
    curve: object = None
    levels: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)
    swaps: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.levels if self.curve is None else self.curve.total()


def chart(title, panels):
    """The SVG element. Deterministic. REQUIRES: every panel has a value at one position at least."""
    names = _names(panels)
    top = max(max(panel.total()) for panel in panels)
    top = max([top, *(line.bytes for panel in panels for line in panel.lines)])
    height = 2 * _TITLE + len(panels) * _PANEL
    parts = [
        f'<svg class="tidemark" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" '
        f'aria-label="{escaped(title)}"><style>{STYLE}</style><rect class="ground" width="{_WIDTH}" height="{height}"/>',
        _legend(names, any(panel.curve is not None and any(panel.curve.again) for panel in panels), panels),
    ]
    for number, panel in enumerate(panels):
        parts.append(_panel(panel, 2 * _TITLE + number * _PANEL, top * 1.06, names))
    return "".join([*parts, "</svg>"])


_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML 1.0


def escaped(value):
    """As text of HTML or SVG, or an attribute in double quotes."""
    return html.escape(_NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True)


def _names(panels):
    """Of all layers, lowest first, with their fill."""
    found = dict.fromkeys(name for panel in panels if panel.curve is not None for name in panel.curve.layers)
    if found.keys() <= ROLES.keys() | {WORKSPACE}:
        shown = {name: (text, f"f{colour}") for name, (text, colour) in ROLES.items() if name in found}
    else:
        shown = {name: (name, f"f{i % 6}") for i, name in enumerate(sorted(found.keys() - {WORKSPACE, OTHERS}))}
        shown |= {OTHERS: (OTHERS, "f5")} if OTHERS in found else {}
    return shown | ({WORKSPACE: ("workspaces", "fr")} if WORKSPACE in found else {})


def _legend(names, has_recompute, panels):
    entries = list(names.values())
    entries += [("recomputed here", "recompute")] if has_recompute else []
    entries += [("swapped out or in here", "swap")] if any(panel.swaps for panel in panels) else []
    parts, x = [], _LEFT
    for text, fill in entries:
        parts.append(f'<rect class="{fill}" x="{x}" y="12" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="soft" x="{x + 16}" y="21.5">{escaped(text)}</text>')
        x += 32 + 6.4 * len(text)
    return "".join(parts)


@dataclasses.dataclass
class _Scales:
    """From positions and bytes to places in the picture."""

    count: int
    top_bytes: float
    y: float

    def at(self, position):
        return _LEFT + position / self.count * (_WIDTH - _LEFT - _RIGHT)

    def height(self, bytes_):
        floor, ceiling = self.y + _PANEL - _AXIS, self.y + _TITLE
        return floor - bytes_ / self.top_bytes * (floor - ceiling)


def _panel(panel, y, top_bytes, names):
    total = panel.total()
    scales = _Scales(len(total), top_bytes, y)
    columns = _columns(total)
    parts = [f'<text class="head" x="{_LEFT}" y="{y + 16}">{escaped(panel.title)}</text>', _grid(scales)]
    if panel.curve is None:
        parts += [_curve_line(total, columns, scales), _level_columns(total, columns, scales)]
    else:
        parts += [_areas(panel.curve, columns, scales, names), _phases(panel.curve, scales), _marks(panel, scales)]
        parts.append(_op_columns(panel.curve, total, columns, scales, names))
    return "".join([*parts, *(_line(line, scales) for line in panel.lines)])


def _columns(total):
    """(first position, position behind the last, the fullest one): what is drawn as one column."""
    count = min(len(total), _COLUMNS)
    edges = [i * len(total) // count for i in range(count + 1)]
    return [(a, b, max(range(a, b), key=total.__getitem__)) for a, b in zip(edges, edges[1:], strict=False)]


def _grid(scales):
    units = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
    unit, name = next((u for u in units if scales.top_bytes > 3 * u[0]), units[-1])
    step = _round_step(scales.top_bytes / unit / 5)
    parts = []
    for i in range(int(scales.top_bytes / unit / step) + 1):
        y = scales.height(i * step * unit)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{i * step:.6g} {name}</text>')
    return "".join(parts)


def _round_step(least):
    power = 10 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _areas(curve, columns, scales, names):
    base, parts = [0] * len(columns), []
    for name, (_, fill) in names.items():
        low = base
        layer = curve.layers.get(name, [0] * scales.count)
        base = [level + layer[peak] for level, (*_, peak) in zip(low, columns, strict=True)]
        if base != low:
            up = _edge(base, columns, scales, "M")
            down = _edge(low[::-1], [(b, a, peak) for a, b, peak in columns[::-1]], scales, "L")
            parts.append(f'<path class="{fill}" d="{up}{down}Z"/>')
    return "".join(parts)


def _edge(levels, columns, scales, begin):
    """Square: a value holds for the whole of its column."""
    parts = []
    for level, (a, b, _) in zip(levels, columns, strict=True):
        y = scales.height(level)
        parts.append(f"{'L' if parts else begin}{scales.at(a):.1f} {y:.1f}H{scales.at(b):.1f}")
    return "".join(parts)


def _curve_line(total, columns, scales):
    return f'<path class="curve" d="{_edge([total[peak] for *_, peak in columns], columns, scales, "M")}"/>'


def _phases(curve, scales):
    """Where forward, backward and the optimizer begin; where micro-batches make that too often, for the first time alone."""
    begins, before = [], None
    for position, i in enumerate(curve.schedule):
        phase = curve.graph.ops[i].phase
        if not curve.again[position] and phase != before:
            begins.append((position, phase))
            before = phase
    if len(begins) > _MOST_PHASES:
        begins = [(position, phase) for phase, position in dict(reversed([b[::-1] for b in begins])).items()]
    y = scales.y + _PANEL - 10
    texts = (f'<text class="soft" x="{scales.at(p):.1f}" y="{y}">{escaped(phase)}</text>' for p, phase in sorted(begins))
    return "".join(texts)


def _marks(panel, scales):
    """A strip below the axis: where operations are recomputed, and where copies leave or arrive."""
    y, width = scales.y + _PANEL - _AXIS + 1, max(1.0, scales.at(1) - scales.at(0))
    mark = f'" y="{y:.1f}" width="{width:.1f}" height="{_STRIP}"/>'
    again = [position for position, again in enumerate(panel.curve.again) if again]
    copies = sorted({position for _, after, before in panel.swaps for position in (after, before)})
    drawn = [("recompute", again), ("swap", copies)]
    return "".join(f'<rect class="{kind}" x="{scales.at(p):.1f}{mark}' for kind, positions in drawn for p in positions)


def _line(line, scales):
    y = scales.height(line.bytes)
    at = f'x="{_LEFT + 4}"' if line.kind == "predicted" else f'x="{_WIDTH - _RIGHT}" text-anchor="end"'
    kind = "over" if line.kind == "budget" else "soft"
    return (
        f'<line class="{line.kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="{kind}" {at} y="{y - 4:.1f}">{escaped(line.text)}</text>'
    )


def _op_columns(curve, total, columns, scales, names):
    """What is said of a column where it is pointed at."""
    graph, parts = curve.graph, []
    for (a, b, _), (peak, largest) in zip(columns, curve.largest([peak for *_, peak in columns], _LARGEST), strict=True):
        op = graph.ops[curve.schedule[peak]]
        place = f" of {op.module}" if op.module else ""
        lines = [f"{op.name} ({op.phase}{place}){', recomputed' if curve.again[peak] else ''}: operation {peak + 1}"]
        lines.append(f"{format_bytes(total[peak])} live, predicted")
        at = {name: curve.layers[name][peak] for name in names if name in curve.layers}
        lines += [f"{format_bytes(bytes_)} {names[name][0]}" for name, bytes_ in at.items() if bytes_]
        lines += ["largest:", *(f"{format_bytes(graph.block_bytes(s))} {graph.storages[s].name}" for s in largest)]
        parts.append(_column(a, b, scales, lines))
    return "".join(parts)


def _level_columns(total, columns, scales):
    return "".join(
        _column(a, b, scales, [f"{format_bytes(total[peak])} in blocks, measured", f"request or release {peak}"])
        for a, b, peak in columns
    )


def _column(a, b, scales, lines):
    x, y = scales.at(a), scales.height(scales.top_bytes)
    return (
        f'<rect class="column" x="{x:.1f}" y="{y:.1f}" width="{scales.at(b) - x:.1f}" '
        f'height="{scales.height(0) - y:.1f}"><title>{escaped(chr(10).join(lines))}</title></rect>'
    )
