"""The rows of one device as the program predicts them, and the constants that follow the measurements best."""

import json
import pathlib
import subprocess
import tempfile

from fit_device_lib.constant_fit import Problem, Row, fit_with_folds, weights_of
from fit_device_lib.constants import CONSTANTS, Unfit, number_text


def ask(program, rows_file, name, candidates):
    """What `estimate --rates` answers for constants of `name`, many sets at once."""
    texts = [{n: number_text(n, v, 15) for n, v in c.items()} for c in candidates]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump({"constants": name, "candidates": texts}, file)
        file.flush()
        command = [str(program), "estimate", "--time-truth", str(rows_file), "--format", "json", "--rates", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unfit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    if len(answer["candidates"]) != len(candidates):
        raise Unfit(f"{program} answered {len(answer['candidates'])} of {len(candidates)} candidates")
    return answer


def rows_of_device(program, rows_file, name):
    """(rows, the entries of the file that they are) that are scored and predicted with the constants of `name`."""
    answer = ask(program, rows_file, name, [{n: c.prior for n, c in CONSTANTS.items()}])
    with open(rows_file, encoding="utf-8") as file:
        try:
            entries = json.load(file)["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unfit(f"{rows_file} is no JSON of {{\"rows\": [...]}} ({error})") from None
    if [row["id"] for row in answer["rows"]] != [entry["id"] for entry in entries]:
        raise Unfit(f"{program} answers for other rows than those of {rows_file}")
    rows, kept = [], []
    for row, seconds, entry in zip(answer["rows"], answer["candidates"][0], entries):
        if row["constants"] != name or not row["scored"] or row["measured_s"] is None or seconds is None:
            continue
        rows.append(Row(row["id"], row["split_key"], row["software"], row["measured_s"], tuple(row["terms"])))
        kept.append(entry)
    if not rows:
        raise Unfit(f"no row with measured seconds is predicted with the constants of {name}")
    return rows, kept


def fit_of_device(name, device, program, rows_file):
    """(rows, Fit) of a DeviceText. The program reads the device's own rows alone each time: they are few of many."""
    rows, entries = rows_of_device(program, rows_file, name)
    if not any(row.source == device.base for row in rows):
        raise Unfit(f"no row is of the base source {device.base}; name one of those that are there: "
                    f"{', '.join(sorted({row.source for row in rows}))}")
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / "rows.json"
        own.write_text(json.dumps({"rows": entries}), encoding="utf-8")

        def predict(candidates):
            return ask(program, own, name, candidates)["candidates"]

        problem = Problem(rows, weights_of(rows, name), device.base, device.fitted, device.assumed, predict)
        return rows, fit_with_folds(problem)
