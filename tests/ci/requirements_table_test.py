"""The tests that docs/design/ci_gate.md names beside what a budget check must have are there.

    requirements_table_test.py CHECKOUT
"""

import pathlib
import re
import sys


def rows_of(page):
    """The cells of its last table, below the heading."""
    table = page.split("## What a budget check must have", 1)[1]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| ")][1:]


def is_there(name, checkout, sources):
    if name.startswith("bench/"):
        return (checkout / f"{name}.cc").is_file()
    if ": " in name:
        script, function = name.split(": ")
        return f"def {function}(" in (checkout / "tests/ci" / script).read_text()
    suite, test = name.split(".")
    return re.search(rf"\bTEST(_F|_P)?\({suite}, {test}\)", sources) is not None


def main(checkout):
    sources = "\n".join(file.read_text() for file in sorted((checkout / "tests").rglob("*_test.cc")))
    failures = []
    rows = rows_of((checkout / "docs/design/ci_gate.md").read_text())
    for what, tests in rows:
        names = re.findall(r"`([^`]+)`", tests)
        failures += [f"{what}: it has no test"] if not names else []
        failures += [f"{what}: there is no {name}" for name in names if not is_there(name, checkout, sources)]
    if len(rows) < 15:
        failures.append(f"the table has {len(rows)} rows; right would be 15 or more")
    print("\n".join(failures) if failures else f"{len(rows)} rows, each with its tests")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
