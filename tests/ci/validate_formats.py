#!/usr/bin/env python3
"""Holds reports of the gate, budget files and baselines against parsers and schemas that are not ours.

    tests/ci/validate_formats.py WRITE_SAMPLES

WRITE_SAMPLES is the program of write_samples.cc. The parsers lie in an environment that scripts/ci_environment makes. Where
there can be none, that is said and the exit status is 77, a skip; TIDEMARK_CI_FORMATS_REQUIRED=1 makes it a failure.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLES = 60
SKIPPED = 77

BUDGETS_THAT_ARE_RIGHT = (
    "schema: tidemark-budget/1\njobs:\n  - {name: a, model: a.yaml}\n",
    """schema: tidemark-budget/1
capacity: 64GiB
reserve: 3.03GiB
host: 128 GB
near: 3%
growth: {percent: 2, bytes: 512MiB}
load: {trace: counts.csv, quantile: p99}
baseline: ci/baseline.json
jobs:
  - name: pangu
    model: models/pangu.yaml
    policy: optimal
    load: 1.5
    limits:
      - {ranks: first, phase: backward, at_most: 50GiB, near: 1GiB}
      - {ranks: "0-3,15", category: activations, at_most: 20GiB}
      - {ranks: 0, host: true, at_most: 60GiB}
    waivers:
      - {owner: a@b.c, reason: text, expires: "2026-12-31", ranks: last, growth: true, at_most: 62GiB}
  - {name: llama, script: run.sh, world_size: 64, accelerator: h100, near: 1GiB}
  - {name: run, measured: runs/3, predicted_by: pangu}
""")
BUDGETS_THAT_ARE_WRONG = (
    "jobs:\n  - {name: a, model: a.yaml}\n",
    "schema: tidemark-budget/2\njobs:\n  - {name: a, model: a.yaml}\n",
    "schema: tidemark-budget/1\njobs: []\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a}\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a, model: a.yaml, plan: b.json}\n",
    "schema: tidemark-budget/1\ncapacity: 64\njobs:\n  - {name: a, model: a.yaml}\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a, model: a.yaml, limits: [{phase: backward}]}\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a, script: a.sh, accelerator: NPU, capacity: 1GiB}\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a, script: a.sh, framework: megatron, capacity: 1GiB}\n",
    "schema: tidemark-budget/1\njobs:\n  - {name: a, modle: a.yaml}\n")


def enter_environment():
    """Runs this file again with the python of the environment, unless that is the one it runs in."""
    if os.environ.get("TIDEMARK_CI_ENVIRONMENT"):
        return
    made = subprocess.run([ROOT / "scripts/ci_environment"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        print("validate_formats: SKIPPED, there is no environment with the parsers", file=sys.stderr)
        sys.exit(1 if os.environ.get("TIDEMARK_CI_FORMATS_REQUIRED") == "1" else SKIPPED)
    python = ROOT / made.stdout.strip() / "bin/python"
    os.environ["TIDEMARK_CI_ENVIRONMENT"] = "1"
    os.execv(python, [str(python), "-B", *sys.argv])


def json_schema(name):
    from jsonschema import Draft202012Validator
    schema = json.loads((ROOT / f"docs/schemas/{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def check_json(path):
    json_schema(path.name.split("-")[0]).validate(json.loads(path.read_text(encoding="utf-8")))


def check_sarif(path):
    from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif
    text = path.read_text(encoding="utf-8")
    log = Sarif.model_validate_json(text)
    for result in json.loads(text)["runs"][0]["results"]:
        assert log.runs[0].tool.driver.rules[result["ruleIndex"]].id == result["ruleId"]
        for location in result["locations"] + result.get("relatedLocations", []):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"(file://)?([A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri), uri


def check_junit(path):
    import junitparser
    subprocess.run(["xmllint", "--noout", "--nonet", path], check=True)
    suites = junitparser.JUnitXml.fromfile(str(path))
    cases = [case for suite in suites for case in suite]
    failed = [case for case in cases if any(isinstance(r, junitparser.Failure) for r in case.result)]
    broken = [case for case in cases if any(isinstance(r, junitparser.Error) for r in case.result)]
    assert (suites.tests, suites.failures, suites.errors) == (len(cases), len(failed), len(broken))
    assert sum(suite.tests for suite in suites) == len(cases)


def check_markdown(path):
    from markdown_it import MarkdownIt
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 1 << 20
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in (*tokens, *inline)}
    meant = {"heading_open", "heading_close", "inline", "paragraph_open", "paragraph_close", "bullet_list_open",
             "bullet_list_close", "list_item_open", "list_item_close", "table_open", "table_close", "thead_open", "thead_close",
             "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "text",
             "strong_open", "strong_close", "softbreak", "text_special"}
    assert kinds <= meant, kinds - meant
    lines = [line for line in text.split("\n") if line.startswith("|")]
    rules = [line for line in lines if set(line) <= set("|-: ") and "---" in line]
    assert sum(token.type == "tr_open" for token in tokens) == len(lines) - len(rules), "a row ends early"


def check_html(path):
    import html5lib
    text = path.read_text(encoding="utf-8")
    html5lib.HTMLParser(strict=True).parse(text)
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    assert {element.tag for element in tree.iter() if isinstance(element.tag, str)} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "ul", "li", "section", "span", "table", "caption",
        "thead", "tbody", "tr", "th", "td", "footer"}
    assert not any(name in element.attrib for element in tree.iter() for name in ("src", "href"))


def check_github(path):
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        if line.startswith("::"):
            assert re.match(r"::(error|warning|notice) (file=[^:,]*,(line=\d+,)?)?title=[^:,]*::", line), line


def check_text(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def check_budgets():
    import jsonschema
    import yaml
    schema = json_schema("budget")
    for text in BUDGETS_THAT_ARE_RIGHT:
        schema.validate(yaml.safe_load(text))
    for text in BUDGETS_THAT_ARE_WRONG:
        try:
            schema.validate(yaml.safe_load(text))
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"the schema takes {text!r}")


CHECKS = {"json": check_json, "baseline": check_json, "sarif": check_sarif, "junit": check_junit, "markdown": check_markdown,
          "html": check_html, "github": check_github, "text": check_text}


BREAKS = {"json": lambda text: text.replace('"verdict"', '"verdikt"', 1),
          "baseline": lambda text: text.replace('"tool_version"', '"toolversion"', 1),
          "sarif": lambda text: text.replace('"text"', '"txt"', 1),
          "junit": lambda text: text.replace('tests="', 'tests="9', 1),
          "markdown": lambda text: text + "\n<b>x</b>\n",
          "html": lambda text: text.replace("</body>", "<p>&#13;</p></body>"),
          "github": lambda text: text + "::error file=a:b,title=x::y\n",
          "text": lambda text: text + "\x1b"}


def check_checks(paths):
    """Each check refuses a report of its kind that is broken by hand."""
    for path in paths:
        kind = path.suffix[1:]
        path.write_text(BREAKS[kind](path.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            CHECKS[kind](path)
        except Exception:  # whatever a parser throws
            continue
        raise AssertionError(f"a broken {kind} is taken")


def main(arguments):
    enter_environment()
    check_budgets()
    wrong, count = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments[1], folder, str(SAMPLES)], check=True)
        for path in sorted(pathlib.Path(folder).iterdir()):
            kind = path.suffix[1:]
            count[kind] = count.get(kind, 0) + 1
            try:
                CHECKS[kind](path)
            except Exception as error:  # whatever a parser throws is what this is after
                wrong += 1
                print(f"{path.name}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)
        check_checks({path.suffix: path for path in pathlib.Path(folder).iterdir()}.values())
    print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items())) + f": {wrong} wrong")
    assert set(count) == set(CHECKS), "a format was not written"
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
