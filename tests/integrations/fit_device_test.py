"""Fitting constants on a model whose answer is known, and the file that they are written into."""

import json
import math
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "fit_device"
sys.path.insert(0, str(ROOT / "scripts"))

from fit_device_lib import constant_fit, device_text, least_squares, step_bands  # noqa: E402
from fit_device_lib.constants import CONSTANTS, Unfit  # noqa: E402

TRUTH = {"matmul": 0.6, "memory": 0.7, "launch": 25e-6, "attention": 0.42}
FACTORS = {"one": 1.0, "two": 1.12}


def seconds(work, c):
    """A model in which each constant has its own share of a run."""
    return work[0] / c["matmul"] + work[1] / c["memory"] + work[2] * c["launch"] / 1e-6 + work[3] / c["attention"]


def synthetic_rows():
    """(row, work): noiseless but for one row in twelve that is 40 % slow."""
    rows, works, state = [], [], 12345
    for i in range(120):
        work = []
        for _ in range(4):
            state = (1103515245 * state + 12345) % 2**31
            work.append(math.exp(4 * state / 2**31 - 2))
        work[2] *= 0.02
        source = "two" if i % 3 == 0 else "one"
        measured = seconds(work, TRUTH) * FACTORS[source] * (1.4 if i % 12 == 5 else 1)
        rows.append(constant_fit.Row(f"row{i}", f"key{i // 2}", source, measured))
        works.append(work)
    return rows, works


def problem_of(rows, works, fitted=("matmul", "memory", "launch")):
    assumed = {n: c.prior for n, c in CONSTANTS.items() if n not in fitted}
    predict = lambda candidates: [[seconds(work, c) for work in works] for c in candidates]  # noqa: E731
    return constant_fit.Problem(rows, constant_fit.weights_of(rows, "x"), "one", list(fitted), assumed, predict)


class LeastSquares(unittest.TestCase):
    def minimum(self, function, start, low, high):
        return least_squares.minimise(lambda points: [function(*p) for p in points], start, low, high, 100)

    def test_a_curved_valley_is_followed_to_its_end(self):
        x, y = self.minimum(lambda x, y: [10 * (y - x * x), 1 - x], [-1.2, 1.0], [-5, -5], [5, 5])
        self.assertAlmostEqual(x, 1, places=3)
        self.assertAlmostEqual(y, 1, places=3)

    def test_the_best_at_a_bound_is_the_best_of_the_others(self):
        # Free, the least is at (3, 0); with x at 1, y is best where (y - 2 x + 6)^2 + y^2 is: at -2.
        x, y = self.minimum(lambda x, y: [3 * (x - 3), y - 2 * x + 6, y], [0.0, 0.0], [-1, -9], [1, 9])
        self.assertEqual(x, 1)
        self.assertAlmostEqual(y, -2, places=4)

    def test_a_variable_without_effect_stays(self):
        x, y = self.minimum(lambda x, y: [x - 2], [0.0, 0.5], [-9, -9], [9, 9])
        self.assertEqual(y, 0.5)
        self.assertAlmostEqual(x, 2, places=4)

    def test_systems_are_solved_with_pivots(self):
        self.assertEqual(least_squares.solve([[0.0, 2.0], [4.0, 0.0]], [6.0, 8.0]), [2.0, 3.0])
        self.assertIsNone(least_squares.solve([[1.0, 1.0], [1.0, 1.0]], [1.0, 2.0]))


class ConstantFit(unittest.TestCase):
    def test_constants_and_factors_are_found_despite_slow_rows_and_priors(self):
        found = constant_fit.fit_with_folds(problem_of(*synthetic_rows()))
        for name in ("matmul", "memory", "launch"):
            self.assertLess(abs(found.constants[name] / TRUTH[name] - 1), 0.02, name)
        self.assertEqual(found.constants["attention"], CONSTANTS["attention"].prior)
        self.assertEqual(found.factors["one"], 1.0)
        self.assertLess(abs(found.factors["two"] / FACTORS["two"] - 1), 0.02)
        self.assertEqual(len(found.folds), 5)

    def test_sources_of_one_line_of_code_share_a_factor(self):
        rows, works = synthetic_rows()
        three = [r._replace(source="three") if r.source == "two" and int(r.id[3:]) % 6 else r for r in rows]
        with unittest.mock.patch.dict(constant_fit.LINES, {"two": "both", "three": "both"}):
            found = constant_fit.fit_with_folds(problem_of(three, works))
            known = [i for i, r in enumerate(three) if r.source != "two"]
            start = {n: found.constants[n] for n in found.constants}
            _, without = constant_fit.fit(problem_of(three, works), known, start, 12)
        self.assertEqual(found.factors["two"], found.factors["three"])
        self.assertLess(abs(found.factors["two"] / FACTORS["two"] - 1), 0.02)
        self.assertEqual(without["two"], without["three"], "rows of one tell the other's")
        self.assertNotIn("two", constant_fit.fit(problem_of(three, works), known, start, 1)[1])

    def test_what_rows_do_not_tell_stays_at_its_prior(self):
        rows, works = synthetic_rows()
        found = constant_fit.fit_with_folds(problem_of(rows, works, ("matmul", "memory", "launch", "hop")))
        self.assertAlmostEqual(found.constants["hop"] / CONSTANTS["hop"].prior, 1, places=6)

    def test_bounds_hold(self):
        rows, works = synthetic_rows()
        fast = [r._replace(measured_s=r.measured_s / 3) for r in rows]
        found = constant_fit.fit_with_folds(problem_of(fast, works))
        self.assertAlmostEqual(found.constants["memory"], CONSTANTS["memory"].high, places=9)

    def test_held_out_seconds_are_of_the_fit_without_the_row(self):
        rows, works = synthetic_rows()
        problem = problem_of(rows, works)
        before = constant_fit.fit_with_folds(problem)
        # The truth of one fold changes: its own held-out seconds must not.
        out = constant_fit.fold_of(rows[0].key)
        moved = [r._replace(measured_s=r.measured_s * (2 if constant_fit.fold_of(r.key) == out else 1)) for r in rows]
        kept = [i for i, r in enumerate(rows) if constant_fit.fold_of(r.key) != out]
        start = {n: CONSTANTS[n].prior for n in problem.fitted}
        one, _ = constant_fit.fit(problem, kept, start, 30)
        two, _ = constant_fit.fit(problem._replace(rows=moved), kept, start, 30)
        self.assertEqual(one, two)
        self.assertLess(abs(before.held_out[0] / (seconds(works[0], TRUTH) * FACTORS["two"]) - 1), 0.03)

    def test_near_copies_count_as_one(self):
        rows = [constant_fit.Row(str(i), "same" if i else "other", "one", 1.0) for i in range(5)]
        self.assertEqual(constant_fit.weights_of(rows, "h100"), [1.0, 0.25, 0.25, 0.25, 0.25])
        self.assertEqual(constant_fit.weights_of(rows, "a100-vtrain8"), [1.0] * 5)

    def test_folds_are_those_of_the_program(self):
        # FNV-1a of 64 bits of "a" is af63dc4c8601ec8c by its authors' test vectors; "fold" goes before the key here.
        def fnv(data):
            h = 0xCBF29CE484222325
            for byte in data:
                h = ((h ^ byte) * 0x100000001B3) % 2**64
            return h
        self.assertEqual(fnv(b"a"), 0xAF63DC4C8601EC8C)
        for key in ("", "bridge-layout/llama3-70b", "schlüssel"):
            self.assertEqual(constant_fit.fold_of(key), fnv(("fold" + key).encode()) % 5)


class StepBands(unittest.TestCase):
    def test_a_band_holds_four_fifths_of_what_comes_next(self):
        self.assertEqual(step_bands.conformal_percent([5.0]), 5.0)
        self.assertEqual(step_bands.conformal_percent([4.0, 1.0, 3.0, 2.0]), 4.0)
        self.assertEqual(step_bands.conformal_percent([float(i) for i in range(1, 10)]), 8.0)
        self.assertEqual(step_bands.conformal_percent([float(i) for i in range(1, 100)]), 80.0)

    def test_each_kind_has_its_own_either_way(self):
        rows = [constant_fit.Row("a", "a", "one", 2.0, ("experts",)), constant_fit.Row("b", "b", "one", 1.0, ())]
        self.assertEqual(step_bands.bands_of(rows, [1.0, 1.25]), {"dense": (25.0, 1), "experts": (100.0, 1)})
        self.assertEqual(step_bands.bands_of(rows[:1], [1.0]), {"experts": (100.0, 1)})


class Constants(unittest.TestCase):
    def test_priors_are_those_of_the_program(self):
        text = (ROOT / "core" / "chip.h").read_text(encoding="utf-8")
        struct = text[text.index("struct FittedRates"):text.index("struct Chip {")]
        priors = {name.removesuffix("_s"): float(value) for name, value in re.findall(r"double (\w+) = ([0-9.e-]+);", struct)}
        self.assertEqual(priors, {n: c.prior for n, c in CONSTANTS.items()})

    def test_priors_lie_in_bounds(self):
        for name, constant in CONSTANTS.items():
            self.assertTrue(0 < constant.low < constant.prior < constant.high, name)


FILE = """# A device of a test.
name: tiny

sheet:
  cores: 108  # kept

fitted:  # to be
  # what large products reach
  matmul: 0.5   # old
  memory: 0.5
  launch: 20us

assumed:  # priors
  tile_start: 150
  intra_link: 0.7
  inter_link: 0.8
  hop: 22us
  attention: 0.42  # kept
  grouped_matmul: 0.85
  fp8: 0.9

base_source: one  # kept
sources:
  # by software
  gone: 1.30
  one: 1.00
"""

# Answers as the program does: rows of another set and refused ones are among them.
STAND_IN = """#!{python} -B
import json, sys
rows = json.load(open(sys.argv[sys.argv.index("--time-truth") + 1]))["rows"]
assert sys.argv[1] == "estimate" and sys.argv[sys.argv.index("--format") + 1] == "json"
rates = json.load(open(sys.argv[sys.argv.index("--rates") + 1]))
def value(text): return float(text[:-2]) * 1e-6 if text.endswith("us") else float(text)
def seconds(w, c): return w[0] / c["matmul"] + w[1] / c["memory"] + w[2] * c["launch"] / 1e-6 + w[3] / c["attention"]
answers = []
for candidate in rates["candidates"]:
    assert len(candidate) == 10
    c = {{n: value(v) for n, v in candidate.items()}}
    answers.append([None if r["id"] == "refused" else seconds(r["work"], c) for r in rows])
print(json.dumps({{"rows": rows, "candidates": answers}}))
"""


class WholeScript(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.program = self.folder / "program"
        self.program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.file = self.folder / "tiny.yaml"
        self.file.write_text(FILE, encoding="utf-8")
        rows, works = synthetic_rows()
        table = [{"id": r.id, "split_key": r.key, "software": r.source, "constants": "tiny", "measured_s": r.measured_s,
                  "scored": True, "terms": ["experts", "pipeline"] if i % 4 == 0 else ["pipeline"], "work": w}
                 for i, (r, w) in enumerate(zip(rows, works))]
        table.insert(3, {**table[0], "id": "other", "constants": "h100", "measured_s": 1e6})
        table.insert(7, {**table[0], "id": "refused", "measured_s": 1e6})
        table.insert(9, {**table[0], "id": "unscored", "scored": False, "measured_s": 1e6})
        (self.folder / "rows.json").write_text(json.dumps({"rows": table}), encoding="utf-8")

    def run_script(self, *more, name="tiny"):
        command = [SCRIPT, name, self.folder / "rows.json", "--program", self.program, "--devices", self.folder, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_the_file_gets_what_was_fitted_and_keeps_the_rest(self):
        done = self.run_script("--held-out", self.folder / "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = self.file.read_text(encoding="utf-8")
        self.assertIn("fitted:  # by scripts/fit_device to 120 measured rows of 60 split keys", text)
        line = re.search(r"^  matmul: (\S+) +# (\S+) to (\S+) over folds$", text, re.M)
        self.assertLess(abs(float(line[1]) / 0.6 - 1), 0.02)
        self.assertLessEqual(float(line[2]), float(line[3]))
        self.assertRegex(text, r"(?m)^  launch: 2[45][.0-9]*us +# [.0-9]+us to [.0-9]+us over folds$")
        self.assertRegex(text, r"(?m)^  two: 1\.1\d+ +# ")
        self.assertRegex(text, r"(?m)^  one: 1\.00 +# base$")
        self.assertNotIn("gone", text)
        for kept in ("# A device of a test.", "  cores: 108  # kept", "  # what large products reach", "  # by software",
                     "  attention: 0.42  # kept", "base_source: one  # kept", "  grouped_matmul: 0.85"):
            self.assertIn(kept + "\n", text)
        self.assertRegex(text, r"(?m)^  experts: [0-9.]+ +# of 30 rows$")
        self.assertRegex(text, r"(?m)^  dense: [0-9.]+ +# of 90 rows$")
        self.assertIn("measured:\n", text)
        self.assertRegex(text, r"(?m)^  - experts +# 30 rows\n  - pipeline +# 120 rows\n\Z")
        held_out = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))["rows"]
        self.assertEqual([r["id"] for r in held_out], [f"row{i}" for i in range(120)])

    def test_it_is_the_same_to_the_byte_and_can_be_checked(self):
        self.assertEqual(self.run_script("--check").returncode, 1)
        self.assertEqual(self.file.read_text(encoding="utf-8"), FILE)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_what_is_wrong_is_said(self):
        def complaint(text, name="tiny"):
            self.file.write_text(text, encoding="utf-8")
            done = self.run_script(name=name)
            self.assertEqual(done.returncode, 2)
            return done.stderr
        self.assertIn("its constants are those of h100; fit h100", complaint("name: tiny\nconstants: h100\n"))
        self.assertIn("no row is of the base source 3", complaint(FILE.replace("base_source: one", "base_source: 3")))
        self.assertIn("fp8 must stand once", complaint(FILE.replace("  fp8: 0.9\n", "")))
        self.assertIn("'fast' is no value", complaint(FILE.replace("hop: 22us", "hop: fast")))
        self.assertIn("lacks `sources:`", complaint(FILE[:FILE.index("sources:\n  #")]))
        self.assertIn("No such file", complaint(FILE, name="nothing"))
        self.program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('rows.json:1: no')\n", encoding="utf-8")
        self.assertIn("ended with 1: rows.json:1: no", complaint(FILE))

    def test_rows_of_other_devices_are_no_rows(self):
        self.file.rename(self.folder / "a100.yaml")
        self.assertIn("no row with measured seconds", self.run_script(name="a100").stderr)


class ShippedFiles(unittest.TestCase):
    def test_all_can_be_fitted_or_say_which_can(self):
        fitted = 0
        for path in sorted((ROOT / "devices" / "chips").glob("*.yaml")):
            with self.subTest(path.name):
                try:
                    device = device_text.DeviceText(path.read_text(encoding="utf-8"))
                    self.assertTrue(1 <= len(device.fitted) <= 8)
                    fitted += 1
                except Unfit as error:
                    owner = re.fullmatch(r"its constants are those of (\S+); fit \1", str(error))[1]
                    self.assertTrue((path.parent / f"{owner}.yaml").exists())
        self.assertEqual(fitted, 7)


if __name__ == "__main__":
    unittest.main()
