"""A file of devices/chips as text: what it says is to be fitted, and the text with what was."""

import re

from fit_device_lib.constants import CONSTANTS, Unfit, number_text
from fit_device_lib.step_bands import bands_of, measured_terms

ENTRY = re.compile(r"^  ([a-z0-9_.-]+): *([^#]*?) *(#.*)?$")
TOP = re.compile(r"^([a-z_]+):")


def blocks_of(lines):
    """{top key: (its line, the line behind its last entry)}; blank lines and comments before the next key are not in."""
    blocks, key = {}, None
    for number, line in enumerate(lines):
        top = TOP.match(line)
        if top:
            key = top.group(1)
            blocks[key] = (number, number + 1)
        elif key and line.startswith("  "):
            blocks[key] = (blocks[key][0], number + 1)
    return blocks


def entries_of(lines, block):
    if block is None:
        return {}
    found = (ENTRY.match(line) for line in lines[block[0] + 1:block[1]])
    return {m.group(1): m.group(2) for m in found if m}


def value_of(name, text):
    try:
        return float(text.removesuffix("us")) * 1e-6 if CONSTANTS[name].unit else float(text)
    except (KeyError, ValueError):
        raise Unfit(f"{name}: '{text}' is no value of a constant; write like "
                    f"`matmul: 0.75` or `launch: 18us`") from None


class DeviceText:
    """A device file as lines: what is fitted is replaced, the rest stays as it is."""

    def __init__(self, text):
        self.lines = text.split("\n")
        self.blocks = blocks_of(self.lines)
        shared = self.blocks.get("constants")
        if shared:
            owner = self.lines[shared[0]].split("#")[0].split(":")[1].strip()
            raise Unfit(f"its constants are those of {owner}; fit {owner}")
        for key in ("fitted", "sources", "base_source"):
            if key not in self.blocks:
                raise Unfit(f"the file lacks `{key}:`; add it, so that it says what is to be fitted")
        self.base = self.lines[self.blocks["base_source"][0]].split("#")[0].split(":")[1].strip()
        fitted = entries_of(self.lines, self.blocks["fitted"])
        assumed = entries_of(self.lines, self.blocks.get("assumed"))
        for name in fitted:
            value_of(name, fitted[name])
        self.fitted = [n for n in CONSTANTS if n in fitted]
        self.assumed = {n: value_of(n, v) for n, v in assumed.items()}
        for name in CONSTANTS:
            if (name in fitted) == (name in assumed):
                raise Unfit(f"{name} must stand once, under `fitted:` or under `assumed:`")

    def with_fit(self, found, rows):
        """The text with these constants and factors, four digits each."""
        lines = list(self.lines)
        begin, end = self.blocks["fitted"]
        lines[begin] = (f"fitted:  # by scripts/fit_device to {len(rows)} measured rows of {len({r.key for r in rows})} "
                        "split keys; ranges are over five folds")
        for i in range(begin + 1, end):
            entry = ENTRY.match(lines[i])
            if entry:
                name = entry.group(1)
                lines[i] = entry_line(name, found.constants[name], [c[name] for c, _ in found.folds])
        begin, end = self.blocks["sources"]
        notes = [line for line in lines[begin + 1:end] if not ENTRY.match(line)]
        factors = [self.source_line(name, found) for name in sorted(found.factors)]
        lines[begin + 1:end] = notes + factors
        return "\n".join(without_plans_part(lines)).rstrip("\n") + "\n\n" + plans_part(rows, found.held_out)

    def source_line(self, name, found):
        if name == self.base:
            return f"  {name}: 1.00".ljust(26) + "  # base"
        return entry_line(name, found.factors[name], [f[name] for _, f in found.folds if name in f])


PLANS = "# What plans may take from these rows (scripts/fit_device): "


def without_plans_part(lines):
    """What fit_device wrote behind the sources is written anew."""
    begin = next((i for i, line in enumerate(lines) if line.startswith(PLANS)), len(lines))
    return lines[:begin]


def plans_part(rows, held_out):
    text = PLANS + "four fifths of the steps were within so\n# many percent of what was predicted without their fold, "
    text += "and a term of step time that is not listed was never measured.\nbands:\n"
    for kind, (percent, count) in bands_of(rows, held_out).items():
        text += f"  {kind}: {percent:.1f}".ljust(26) + f"  # of {count} rows\n"
    text += "measured:\n"
    for term, count in measured_terms(rows).items():
        text += f"  - {term}".ljust(40) + f"  # {count} row{'s' if count > 1 else ''}\n"
    return text


def entry_line(name, value, over_folds):
    line = f"  {name}: {number_text(name, value, 4)}"
    if not over_folds:
        return line
    low, high = number_text(name, min(over_folds), 4), number_text(name, max(over_folds), 4)
    return f"{line:<26}  # {low} to {high} over folds"
