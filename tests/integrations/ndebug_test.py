"""The check of release builds must be able to fail, and must pass what is right.

    ndebug_test.py COMPILER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_ndebug"
COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "c++"

HEAD = "#include <cassert>\nint f();\n"

# Each compiles without a word while it asserts.
BAD = [
    ("unused", "void g() { int x = f(); assert(x); }"),
    ("unused", "void g(int of) { assert(of > 0); }"),
    ("unused", "void g() { const auto is_one = [] { return f() == 1; }; assert(is_one()); }"),
    ("", "namespace { bool is_one() { return f() == 1; } } void g() { assert(is_one()); }"),
    ("return", "int g(int of) { if (of > 0) return f(); assert(false); }"),
    ("", "int g() {\n#ifdef NDEBUG\n  return g;\n#else\n  return 1;\n#endif\n}"),
]

GOOD = [
    "void g() { [[maybe_unused]] const int x = f(); assert(x); }",
    "void g() { const int x = f(); assert(x); static_cast<void>(x); }",
]


class Tree:
    """A tree of sources with what compiles them, and a run of the check on it."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.entries = []

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def compile(self, name, *more):
        path = str(self.root / name)
        self.entries.append({"directory": str(self.root), "file": path,
                             "arguments": [COMPILER, "-std=c++20", "-Wall", "-Wextra", f"-I{self.root}", "-O0", "-UNDEBUG",
                                           *more, "-o", name + ".o", "-c", path]})

    def check(self):
        self.write("build/compile_commands.json", json.dumps(self.entries))
        done = subprocess.run([sys.executable, SCRIPT, self.root / "build", self.root], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout


class Ndebug(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def compiles_as_it_is(self, name):
        command = next(e["arguments"] for e in self.tree.entries if e["file"] == str(self.tree.root / name))
        return subprocess.run([*command, "-Werror"], cwd=self.tree.root, capture_output=True, check=False).returncode == 0

    def test_each_mistake_is_seen(self):
        for number, (says, text) in enumerate(BAD):
            with self.subTest(text=text):
                name = f"core/a{number}.cc"
                self.tree.entries = []
                self.tree.write(name, HEAD + text + "\n")
                self.tree.compile(name)
                self.assertTrue(self.compiles_as_it_is(name))
                status, output = self.tree.check()
                self.assertEqual(status, 1, output)
                self.assertIn(name, output)
                self.assertIn(says, output)
                self.assertIn("1 sources that assert, compiled with NDEBUG: 1 refused", output)

    def test_what_is_right_passes_and_leaves_nothing(self):
        for number, text in enumerate(GOOD):
            self.tree.write(f"core/a{number}.cc", HEAD + text.replace(" g(", f" g{number}(") + "\n")
            self.tree.compile(f"core/a{number}.cc")
        before = sorted(self.tree.root.rglob("*"))
        self.assertEqual(self.tree.check(), (0, "2 sources that assert, compiled with NDEBUG: 0 refused\n"))
        self.assertEqual([path for path in sorted(self.tree.root.rglob("*")) if path.parts[-2] == "core"],
                         [path for path in before if path.parts[-2] == "core"])

    def test_sources_without_assertions_are_left_out(self):
        self.tree.write("core/a.cc", "static_assert(true); void g() { int x = 1; }\n")
        self.tree.compile("core/a.cc")
        self.assertEqual(self.tree.check()[0], 2)

    def test_a_header_is_seen_in_what_includes_it(self):
        self.tree.write("core/a.h", HEAD + BAD[0][1].replace("void", "inline void") + "\n")
        self.tree.write("core/a.cc", '#include "core/a.h"\n')
        self.tree.compile("core/a.cc")
        status, output = self.tree.check()
        self.assertEqual(status, 1, output)
        self.assertIn("core/a.h", output)

    def test_files_compiled_as_one_have_the_command_of_the_whole(self):
        self.tree.write("core/a.cc", HEAD + "#ifdef GIVEN\n" + BAD[0][1] + "\n#endif\n")
        part = self.tree.root / "core" / "a.cc"
        self.tree.write("build/Unity/unity_0_cxx.cxx", f'#include "{part}"\n')
        self.tree.compile("build/Unity/unity_0_cxx.cxx", "-DGIVEN")
        status, output = self.tree.check()
        self.assertEqual(status, 1, output)
        self.assertIn("core/a.cc", output)


if __name__ == "__main__":
    unittest.main()
