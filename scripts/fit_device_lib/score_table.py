"""The tracks of `estimate --time-truth --format json` as a Markdown table, and where it stands in a page."""

from fit_device_lib.constants import Unfit

HEAD = ("| Track | Rows, keys | MAPE % | p90 of rows % | Median, p90 of keys % | tau | Regret p90 % | Band %, covered % "
        "| Constant MFU, median, p90 % | Refused |")
LEAST_PAIRS = 20  # fewer say nothing of an order


def number(value, digits=1):
    return "" if value is None else f"{value:.{digits}f}"


def both(first, second):
    return ", ".join(number(v) for v in (first, second) if v is not None)


def row_of(track):
    rival = track["constant_mfu"] or {"median_percent": None, "p90_percent": None}
    cells = [track["track"], f"{track['rows']}, {track['keys']}", number(track["mape_percent"]),
             number(track["row_p90_percent"]), both(track["median_percent"], track["p90_percent"]),
             number(track["kendall_tau"] if track["pairs"] >= LEAST_PAIRS else None, 3),
             number(track["regret_p90_percent"]), both(track["band_percent"], track["covered_percent"]),
             both(rival["median_percent"], rival["p90_percent"]), str(track["refused"])]
    return "| " + " | ".join(cells) + " |"


def table_of(tracks):
    return "\n".join([HEAD, "|---" + "|--:" * 9 + "|"] + [row_of(track) for track in tracks]) + "\n"


def with_table(page, table, name="score_time"):
    """The page with the table between its lines `<!-- NAME: -->` and `<!-- :NAME -->`."""
    begin, end = f"<!-- {name}: -->", f"<!-- :{name} -->"
    lines = page.split("\n")
    if lines.count(begin) != 1 or lines.count(end) != 1 or lines.index(begin) > lines.index(end):
        raise Unfit(f"the page has no place for the table; put one line `{begin}` and behind it one `{end}`")
    return "\n".join(lines[:lines.index(begin) + 1] + [table.rstrip("\n")] + lines[lines.index(end):])
