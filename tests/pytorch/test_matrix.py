"""The cells of the matrix, and that its page says what was tried."""

import collections
import itertools
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "pytorch" / "matrix"))

import cover  # noqa: E402
import table  # noqa: E402


def test_every_pair_is_in_a_cell():
    cells = cover.cells()
    assert len(cells) <= 150
    for (i, one), (j, other) in itertools.combinations(enumerate(cover.FACTORS), 2):
        assert {(cell[i], cell[j]) for cell in cells} == set(itertools.product(one, other))


def test_the_page_is_of_these_cells():
    page = (ROOT / "docs" / "pytorch_matrix.md").read_text()
    rows = [line.removeprefix("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert collections.Counter(tuple(row[:3]) for row in rows) == collections.Counter(cell[:3] for cell in cover.cells())
    verdicts = [row[4] for row in rows]
    assert not [verdict for verdict in verdicts if verdict.startswith(("failed", "refused"))]


def _said(**changes):
    said = {"alike": True, "percent": 60, "predicted": 1000, "measured": 990, "keep_all": 2000, "budget": 1200}
    return said | {"reserved": 1100, "acted": 3, "off_plan": 0, "paths": 0} | changes


def test_a_cell_is_what_its_worst_process_is():
    def verdict(*processes):
        return str(table.verdict(processes))

    assert verdict(_said(), _said()) == "ok"
    assert verdict(_said(), _said(acted=0)) == "idle: nothing recomputed or swapped"
    assert verdict(_said(acted=0, keep_all=1000)) == "idle: the smallest budget keeps everything"
    assert verdict(_said(acted=0), _said(measured=969)) == "off: peak 0.969 of predicted"
    assert verdict(_said(measured=1031)) == "off: peak 1.031 of predicted"
    assert verdict(_said(measured=1029)) == "ok"
    assert verdict(_said(measured=900), _said(alike=False)) == "failed: other bits"
    assert verdict(_said(), _said(reserved=1201)) == "failed: over the budget"


def test_only_what_tidemark_says_in_one_line_is_a_refusal():
    def verdict(**said):
        return str(table.verdict([_said(), said]))

    assert verdict(refused="Tidemark: no budget fits") == "refused: no budget fits"
    assert verdict(crashed="exit status 1: tidemark.errors.SessionError: no") == "refused: no"
    assert verdict(refused="the engine: KeyError: 3") == "failed: the engine: KeyError: 3"
    assert verdict(failed="the engine: KeyError: 3") == "failed: the engine: KeyError: 3"
    for end in ("exit status -11: ", "exit status 1: KeyError: 3", "not done after 900 s"):
        assert verdict(crashed=end) == f"failed: {end}"
    assert verdict() == "failed: said nothing"


def test_the_page_shows_every_verdict():
    first, second, third = cover.cells()[:3]
    kept = {first: [_said()], second: [_said(acted=0)], third: [{"crashed": "exit status 1: KeyError: 3"}]}
    page = table.page(cover.cells(), {" ".join(map(str, cell)): said for cell, said in kept.items()}, {"torch": "2"}, "today")
    assert [line.split(" | ")[4] for line in page.splitlines() if line.startswith(f"| {first[0]} |")] == ["ok", "idle", "failed"]
    assert "3 cells were tried: 1 ok, 1 idle, 0 off, 0 refused, 1 failed." in page
    assert f"- {' '.join(third[:3])}: failed: exit status 1: KeyError: 3\n" in page
