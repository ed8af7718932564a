"""The checker of namespaces must be able to fail: each rule is broken once in a small tree of its own."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_namespaces"


def header(name, text="struct A {};"):
    return f"#pragma once\nnamespace {name} {{\n{text}\n}}  // namespace {name}\n"


GOOD = {
    "core/graph.h": header("tidemark", "inline int f() { return '{'; }  // namespace other {\nconstexpr char k[] = \"{\";"),
    "core/bytes.h": header("tidemark", "namespace literals {\nint b();\n}"),
    "planner/planner.h": header("tidemark::plan"),
    "planner/layout/order.h": header("tidemark::layout"),
    "planner/decide/rank_problem.h": header("tidemark::decide"),
    "planner/decide/flat/search.h": header("tidemark::decide::flat"),
    "policies/policies.h": header("tidemark::policies"),
    "integrations/cli/verb.h": "namespace CLI {\nclass App;\n}\n" + header("tidemark::cli"),
}

# One breach each: the file, its text, the line it gets, and what must be said.
BAD = [
    ("planner/layout/order.h", header("tidemark"), 2, "namespace tidemark is opened here"),
    ("planner/layout/order.h", header("tidemark::schedule"), 2, "headers of this folder open tidemark::layout"),
    ("planner/layout/order.h", header("tidemark::layout") + header("tidemark::cost"), 6, "namespace tidemark::cost is"),
    ("planner/layout/order.h", header("tidemark::layout", "namespace {\nint a;\n}"), 3, "(anonymous) is opened here"),
    ("planner/layout/order.h", "int a;\n", 1, "opens no namespace"),
    ("planner/decide/flat/search.h", header("tidemark::decide"), 2, "open tidemark::decide::flat"),
    ("planner/decide/rank_problem.h", header("tidemark::decide::flat"), 2, "headers of this folder open tidemark::decide"),
    ("core/graph.h", header("tidemark", "namespace literals {\nint b();\n}"), 3, "tidemark::literals is opened here"),
    ("policies/policies.h", header("tidemark::plan"), 2, "open tidemark::policies"),
    ("integrations/attic/chest.h", header("tidemark"), 1, "no namespace is set for this folder"),
]


def run_on(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Namespaces(unittest.TestCase):
    def test_a_good_tree_passes(self):
        status, output = run_on(GOOD)
        self.assertEqual(status, 0, output)
        self.assertEqual(output, f"{len(GOOD)} headers, 0 breaches\n")

    def test_each_breach_is_found_on_its_line(self):
        for name, text, line, said in BAD:
            with self.subTest(name=name, said=said):
                status, output = run_on({**GOOD, name: text})
                self.assertEqual(status, 1, output)
                self.assertIn(f"{name}:{line}: ", output)
                self.assertIn(said, output)
                self.assertIn(" headers, 1 breaches", output)

    def test_a_tree_without_headers_is_not_a_pass(self):
        self.assertEqual(run_on({"README.md": ""})[0], 2)


if __name__ == "__main__":
    unittest.main()
