"""Takes a repository through ten pull requests and holds the gate to what it documents.

    scenario.py TIDEMARK    TIDEMARK: the program

Of each: the verdict of every job, the exit status, what the text says, and every format of one run, each read by a parser that
is not ours (validate_formats.py). All formats tell the same verdicts, and the status is the same whatever is written. Then the
baseline is updated: what changes nothing leaves every byte of it, and what cannot be read leaves it untouched.
"""

import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Callable
from xml.etree import ElementTree

import validate_formats
import yaml
from sample_repository import GIB, Repository, snapshot

FORMATS = {
    "text": "txt",
    "json": "json",
    "junit": "xml",
    "sarif": "sarif",
    "github": "annotations",
    "markdown": "md",
    "html": "html",
}
ALL_PASS = {"small": "PASS", "legacy": "NEAR", "pretrain": "PASS", "measured": "PASS"}


@dataclasses.dataclass
class PullRequest:
    name: str
    change: Callable[[Repository], None]
    status: int
    verdicts: dict  # of the jobs that are not as in main
    says: tuple = ()  # the text does, in any order
    is_judged: bool = True  # False: no job is, since a file that all need cannot be read
    update_status: int = 0  # of `baseline update`
    is_baseline_kept: bool = False  # through `baseline update`, byte for byte


def double_micro_batch(repository):
    repository.replace("models/small.yaml", "micro_batch: 1", "micro_batch: 2")


def add_layer(repository):
    repository.replace("models/small.yaml", "moe: 7", "moe: 9")  # one on each of the two stages


def remove_recompute(repository):
    for flags in ("granularity full", "method uniform", "num-layers 1"):
        repository.replace("pretrain.sh", f"    --recompute-{flags} \\\n", "")


def change_precision(repository):
    repository.replace("pretrain.sh", " \\\n    --bf16", "")


def rename(repository):
    repository.git("mv", "models/small.yaml", "models/first-stage.yaml")
    repository.git("mv", "pretrain.sh", "launch.sh")
    repository.replace("tidemark-budget.yaml", "models/small.yaml", "models/first-stage.yaml")
    repository.replace("tidemark-budget.yaml", "script: pretrain.sh", "script: launch.sh")


def improve(repository):
    repository.replace("models/small.yaml", "sequence: 4096", "sequence: 2048")


def expire_waiver(repository):
    repository.replace("tidemark-budget.yaml", "2099-12-31", "2020-01-31")


def corrupt_baseline(repository):
    path = repository.folder / "tidemark-baseline.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def break_script(repository):
    repository.replace("pretrain.sh", "    --hidden-size 4096 \\", "    --hidden-size '4096 \\")


def measure_more(repository):
    repository.write("runs/rank0.pickle", snapshot(9 * GIB))


PULL_REQUESTS = [
    PullRequest("micro-batch doubled", double_micro_batch, 1, {"small": "FAIL"}, ("activations", "models/small.yaml:")),
    PullRequest("layer added", add_layer, 1, {"small": "FAIL"}, ("baseline",)),
    PullRequest("recompute removed", remove_recompute, 1, {"pretrain": "FAIL"}, ("--recompute",)),
    PullRequest("precision changed", change_precision, 1, {"pretrain": "FAIL"}),
    PullRequest("rename that changes nothing", rename, 0, {}, is_baseline_kept=True),
    PullRequest("improvement", improve, 0, {}, ("the budget can be lowered to",)),
    PullRequest(
        "expired waiver",
        expire_waiver,
        1,
        {"legacy": "FAIL"},
        ("expired", "2020-01-31", "training@example.org"),
        is_baseline_kept=True,
    ),
    PullRequest("corrupted baseline", corrupt_baseline, 2, {}, ("tidemark-baseline.json:",), False, 2, True),
    PullRequest("script that no longer parses", break_script, 2, {"pretrain": "ERROR"}, ("pretrain.sh:",), True, 2, True),
    PullRequest("snapshot above its budget", measure_more, 1, {"measured": "FAIL"}, ("exceeds",)),
]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def validate(kind, file):
    """Held against the parser of a format; what that throws is a failure with a name."""
    try:
        validate_formats.CHECKS[kind](file)
    except Exception as error:
        raise AssertionError(f"{kind} is not valid: {type(error).__name__}: {error}") from error


def run_all_formats(repository, folder):
    """One run that writes every format: (what it did, {format: file})."""
    folder.mkdir()
    files = {name: folder / f"check-report.{extension}" for name, extension in FORMATS.items()}
    words = [word for name, file in files.items() for word in ("--output", f"{name}={file}")]
    return repository.run("check", *words), files


def check_request(repository, request, folder):
    done, files = run_all_formats(repository, folder)
    check(
        done.returncode == request.status, f"exit status {done.returncode}, not {request.status}:\n{done.stdout}{done.stderr}"
    )
    if not request.is_judged:
        for phrase in request.says:
            check(phrase in done.stderr, f"{phrase!r} is not on stderr: {done.stderr}")
        check(not any(file.exists() for file in files.values()), "a report was written without a result")
        return
    expected = ALL_PASS | request.verdicts
    text = files["text"].read_text()
    for phrase in request.says:
        check(phrase in text, f"{phrase!r} is not in the text:\n{text}")
    for name, file in files.items():
        validate(name, file)
    found = {job["name"]: job["verdict"] for job in json.loads(files["json"].read_text())["jobs"]}
    check(found == expected, f"verdicts {found}, not {expected}:\n{text}")
    check_formats_agree(files, expected)
    check_status_alone(repository, request, folder)


def check_formats_agree(files, expected):
    """The jobs that fail are the same in each format, and their verdicts where a format has one of every job."""
    failing = {name for name, verdict in expected.items() if verdict in ("FAIL", "ERROR")}
    sarif = json.loads(files["sarif"].read_text())["runs"][0]["results"]
    suites = ElementTree.parse(files["junit"]).getroot().iter("testsuite")
    told = {
        "text": named(expected, [line for line in lines_of(files["text"]) if line.startswith(("FAIL ", "ERROR "))]),
        "github": named(expected, [line for line in lines_of(files["github"]) if line.startswith("::error ")]),
        "sarif": named(expected, [result["message"]["text"] for result in sarif if result["level"] == "error"]),
        "junit": {
            suite.get("name") for suite in suites if suite.find(".//failure") is not None or suite.find(".//error") is not None
        },
    }
    for kind, names in told.items():
        check(names == failing, f"{kind}: {sorted(names)} fail, not {sorted(failing)}")
    for kind, verdicts in (("markdown", markdown_verdicts(files["markdown"])), ("html", html_verdicts(files["html"]))):
        check(verdicts == expected, f"{kind}: the jobs are {verdicts}, not {expected}")


def markdown_verdicts(file):
    """The worst of the rows of each job: `| **FAIL** | small | ...`."""
    order = ["PASS", "NEAR", "FAIL", "ERROR"]
    worst = {}
    for verdict, name in re.findall(r"^\| \*\*([A-Z]+)\*\*(?: \(waived\))? \| ([^|]+) \|", file.read_text(), re.MULTILINE):
        worst[name] = max(worst.get(name, "PASS"), verdict, key=order.index)
    return worst


def html_verdicts(file):
    """Of the heading of each job: `<h2>small <span class="fail">FAIL</span></h2>`."""
    return {
        name: verdict for name, verdict in re.findall(r'<h2>(.+?) <span class="[a-z]+">([A-Z]+)</span></h2>', file.read_text())
    }


def lines_of(file):
    return file.read_text().splitlines()


def named(names, lines):
    return {name for name in names if any(re.search(rf"\b{name}\b", line) for line in lines)}


def check_status_alone(repository, request, folder):
    """The status with one format at a time, and with the switches that change it."""
    for name in FORMATS:
        done = repository.run("check", "--output", f"{name}={folder / 'alone'}")
        check(done.returncode == request.status, f"--output {name}: exit status {done.returncode}, not {request.status}")
    done = repository.run("check", "--exit-zero")
    check(done.returncode == (0 if request.status == 1 else request.status), f"--exit-zero: {done.returncode}")
    done = repository.run("check", "--strict")  # legacy is NEAR in main
    check(done.returncode == (1 if request.status == 0 else request.status), f"--strict: {done.returncode}")


def check_budget_file(repository):
    """The file that the repository begins with is one by the published schema, too."""
    budget = yaml.safe_load((repository.folder / "tidemark-budget.yaml").read_text())
    # YAML 1.1 has dates of their own; JSON, which schemas are for, has them as text.
    validate_formats.json_schema("budget").validate(json.loads(json.dumps(budget, default=str)))


def check_update(repository, request):
    """A baseline is written anew where all can be read, else not touched, and the repository passes with what was written."""
    path = repository.folder / "tidemark-baseline.json"
    before = path.read_bytes()
    done = repository.run("baseline", "update")
    check(
        done.returncode == request.update_status, f"baseline update: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    )
    is_kept = path.read_bytes() == before
    check(
        is_kept == request.is_baseline_kept,
        "baseline update: " + ("nothing was written" if is_kept else "the file was changed"),
    )
    if request.update_status == 0:
        validate("baseline", path.rename(path.with_name("baseline-anew.json")))
        path.with_name("baseline-anew.json").rename(path)
        again = json.loads(repository.run("check", "--format", "json", "--exit-zero", status=0).stdout)
        grown = [
            finding["line"]
            for job in again["jobs"]
            for finding in job["findings"]
            if finding["kind"] == "growth" and finding["verdict"] != "PASS"
        ]
        check(not grown, f"grown beside a baseline that was just written: {grown}")


def main():
    tidemark = pathlib.Path(sys.argv[1]).resolve()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        repository = Repository(scratch / "repository", tidemark)
        check_budget_file(repository)
        in_main = PullRequest("main", lambda _: None, 0, {}, is_baseline_kept=True)
        for number, request in enumerate([in_main, *PULL_REQUESTS]):
            begun = time.monotonic()
            repository.open_pull_request(f"pr-{number}")
            request.change(repository)
            try:
                check_request(repository, request, scratch / f"reports-{number}")
                check_update(repository, request)
                print(f"ok      {request.name}: exit status {request.status} ({time.monotonic() - begun:.1f} s)", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {request.name}: {error}", flush=True)
            if request is not in_main:
                repository.commit(request.name)
    total = len(PULL_REQUESTS) + 1
    print(f"scenario: {total - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
