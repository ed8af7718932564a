"""The cells of the matrix, and that its page says what was tried."""

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
    rows = [line.split(" | ")[:3] for line in page.splitlines() if line.startswith("| ")][1:]
    cells = [cell[:3] for cell in cover.cells()]
    assert rows and all((row[0].removeprefix("| "), *row[1:]) in cells for row in rows)


def _said(**changes):
    said = {"alike": True, "percent": 60, "predicted": 1000, "measured": 990, "budget": 1200, "reserved": 1100}
    return said | {"acted": 3, "off_plan": 0, "paths": 0} | changes


def test_a_cell_fails_where_one_process_does():
    assert table.verdict([_said(), _said()]) == "ok"
    assert table.verdict([_said(), _said(alike=False)]).startswith("FAILED")
    assert table.verdict([_said(), _said(reserved=1201)]).startswith("FAILED")
    assert table.verdict([_said(), {"crashed": "exit status -11: "}]).startswith("FAILED")
    assert table.verdict([_said(measured=900)]) == "ok, peak 0.900 of predicted"
    assert table.verdict([{"refused": "the engine: no"}]) == "refused: the engine: no"
