"""Cross-validated scores: every row by constants that were fitted without its fold, and where the table goes."""

import json
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "score_time"
sys.path.insert(0, str(ROOT / "scripts"))

from fit_device_lib import constant_fit, score_table  # noqa: E402
from fit_device_lib.constants import Unfit  # noqa: E402

DEVICE = """name: {name}
fitted:
  matmul: 0.5
assumed:
  tile_start: 150
  memory: 0.5
  launch: 20us
  intra_link: 0.7
  inter_link: 0.8
  hop: 22us
  attention: 0.42
  grouped_matmul: 0.85
  fp8: 0.9
base_source: one
sources:
  one: 1.00
"""

# Seconds are work over the matmul rate. As a scorer it keeps what it was given.
STAND_IN = """#!{python} -B
import json, sys
after = lambda option: sys.argv[sys.argv.index(option) + 1]
rows = json.load(open(after("--time-truth")))["rows"]
if "--predicted" in sys.argv:
    given = json.load(open(after("--predicted")))
    json.dump(given, open({given!r}, "w"))
    track = dict(track="a | b", rows=len(given["rows"]), keys=2, mape_percent=1.25, row_p90_percent=None, median_percent=1,
                 p90_percent=2, kendall_tau=0.5, pairs=19, regret_p90_percent=0, band_percent=3, covered_percent=80,
                 constant_mfu=None, refused=4)
    print(json.dumps({{"tracks": [track]}}))
    sys.exit()
if "--rates" not in sys.argv:
    print(json.dumps({{"rows": [{{"id": r["id"], "predicted_s": r["work"]}} for r in rows]}}))
    sys.exit()
rates = json.load(open(after("--rates")))
answers = [[r["work"] / float(c["matmul"]) for r in rows] for c in rates["candidates"]]
print(json.dumps({{"rows": rows, "candidates": answers}}))
"""


class Scores(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "devices").mkdir()
        for name in ("x", "y"):
            (self.folder / "devices" / f"{name}.yaml").write_text(DEVICE.format(name=name), encoding="utf-8")
        (self.folder / "devices" / "z.yaml").write_text("name: z\nconstants: x\n", encoding="utf-8")
        self.program = self.folder / "program"
        self.program.write_text(STAND_IN.format(python=sys.executable, given=str(self.folder / "given.json")))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        # Two devices whose truth differs; of x one fold is half as fast as the others.
        self.slow = constant_fit.fold_of("key0")
        self.rows = []
        for i in range(60):
            key, name = f"key{i // 2}", "xy"[i % 2]
            rate = 0.8 if name == "y" else 0.35 if constant_fit.fold_of(key) == self.slow else 0.7
            self.rows.append({"id": f"row{i}", "split_key": key, "software": "one", "constants": name, "scored": True, "terms": [],
                              "measured_s": (i + 1) / rate, "work": float(i + 1)})
        (self.folder / "rows.json").write_text(json.dumps({"rows": self.rows}), encoding="utf-8")

    def run_script(self, *more):
        command = [SCRIPT, self.folder / "rows.json", "--program", self.program, "--devices", self.folder / "devices", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_a_row_is_predicted_without_its_fold(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        given = {r["id"]: r["predicted_s"] for r in json.loads((self.folder / "given.json").read_text())["rows"]}
        self.assertEqual(set(given), {r["id"] for r in self.rows})
        for row in self.rows:
            if row["constants"] == "x" and constant_fit.fold_of(row["split_key"]) == self.slow:
                # The others never saw that it is slow.
                self.assertLess(abs(given[row["id"]] * 0.7 / row["work"] - 1), 0.05)
            elif row["constants"] == "y":
                self.assertLess(abs(given[row["id"]] * 0.8 / row["work"] - 1), 0.05)
        self.assertIn("| a | b | 60, 2 | 1.2 |  | 1.0, 2.0 |  | 0.0 | 3.0, 80.0 |  | 4 |\n", done.stdout)
        self.assertEqual((self.folder / "devices" / "x.yaml").read_text(encoding="utf-8"), DEVICE.format(name="x"))
        self.assertEqual(self.run_script().stdout, done.stdout)

    def test_the_table_is_put_into_a_page(self):
        page = self.folder / "page.md"
        knobs = "<!-- one_knob: -->\n{}<!-- :one_knob -->\n"
        page.write_text("before\n<!-- score_time: -->\nold\n<!-- :score_time -->\n" + knobs.format("old\n"), encoding="utf-8")
        # An experiment that halves the time, by a model that takes a tenth off.
        for name, measured, work in (("none", 2.0, 10.0), ("moe_act", 1.0, 9.0)):
            self.rows.append({"id": f"bridge-recompute/moonlight-16b/h/l/m/{name}@1", "split_key": "k", "software": "one",
                              "constants": "other", "scored": True, "terms": [], "measured_s": measured, "work": work,
                              "derived": {"step_s": measured}})
        (self.folder / "rows.json").write_text(json.dumps({"rows": self.rows}), encoding="utf-8")
        done = self.run_script("--docs", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        scores, table = done.stdout.split("\n\n")
        self.assertIn("| moonlight-16b, l, none | l, moe_act | -50.0 | -10.0 | 40.0 |\n", table)
        self.assertEqual(page.read_text(encoding="utf-8"), "before\n<!-- score_time: -->\n" + scores +
                         "\n<!-- :score_time -->\n" + knobs.format(table))
        page.write_text("nothing\n", encoding="utf-8")
        done = self.run_script("--docs", page)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the page has no place for the table", done.stderr)
        self.assertEqual(page.read_text(encoding="utf-8"), "nothing\n")

    def test_no_device_is_said(self):
        for path in (self.folder / "devices").glob("[xy].yaml"):
            path.unlink()
        self.assertIn("no file of a device with constants of its own", self.run_script().stderr)

    def test_a_place_is_one_pair_of_lines(self):
        begin, end = "<!-- score_time: -->", "<!-- :score_time -->"
        for page in (begin, f"{end}\n{begin}", f"{begin}\n{begin}\n{end}"):
            with self.assertRaises(Unfit):
                score_table.with_table(page, "")


if __name__ == "__main__":
    unittest.main()
