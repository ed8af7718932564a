"""The checker of the one-definition rule must be able to fail, and must pass what is right."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_odr"

# Each is the text of two files in namespace tidemark; the name is defined by both.
PAIRS = [
    ("Arena", "struct Arena { int height = 0; };", "class Arena { long top_; };"),
    ("Arena", "struct Arena final : Base<1, (2 > 1)> { int a; };", "struct alignas(64) Arena { int a; };"),
    ("Kind", "enum class Kind : int { a };", "enum class [[nodiscard]] Kind { a, b };"),
    ("Outer::Part", "struct Outer::Part { int a; };", "struct Outer::Part { long a; };"),
    ("Row<int>", "template <> struct Row<int> { int a; };", "template <> struct Row<int> { long a; };"),
    ("Table", "template <class T> requires requires(T t) { t.x; } struct Table { T a; };",
     "template <class T> struct Table { T b; };"),
    ("Whole", "template <class T> concept Whole = sizeof(T) > 1;", "template <class T> concept Whole = true;"),
    ("kMost", "inline constexpr int kMost = 1;", "inline constexpr int kMost{2};"),
    ("half(double)", "inline double half(double of) { return of / 2; }",
     "[[nodiscard]] constexpr double half(double whole = 1) { return whole * 0.5; }"),
    ("first(const std :: vector < T > &)", "template <typename T> T first(const std::vector<T>& of) { return of[0]; }",
     "template <typename T> T first(const std::vector<T>& all) { return all.front(); }"),
    ("Wide", "inline bool f() requires (1 == 1) { return true; } struct Wide { int a; };", "struct Wide { long a; };"),
    ("operator<=>(Id, Id)", "inline auto operator<=>(Id a, Id b) { return a.n <=> b.n; }",
     "inline auto operator<=>(Id a, Id b) { return b.n <=> a.n; }"),
    ("operator+(Id, int)", "inline Id operator+(Id id, int n) { return {id.n + n}; }",
     "inline Id operator+(Id id, int n) { return {id.n - n}; }"),
]

# Two files that may stand side by side.
GOOD = [
    ("struct Arena { int a; };", "struct Arena; Arena* made(); struct Arena2 { struct Arena { int a; }; };"),
    ("namespace { struct Local { int a; }; inline int f() { return 1; } }",
     "namespace { struct Local { long a; }; inline int f() { return 2; } }"),
    ("namespace one { struct Arena { int a; }; }", "namespace two { struct Arena { long a; }; }"),
    ("inline int size(int a) { return a; }", "inline int size(double a) { return static_cast<int>(a); }"),
    ("struct A { int x; int f() { return 1; } };", "struct B { int x; int f() { return 2; } };"),
    ("template <> struct Row<int> { int a; };", "template <> struct Row<long> { int a; };"),
    ("static int g() { return 1; }", "static int g() { return 2; }"),
    ("using Bytes = long;", "using Bytes = long;"),
    ("const char* t = R\"(struct Arena {)\"; // struct Arena {", "char c = '{'; /* struct Arena { int a; }; */ struct Arena {};"),
    ("#ifdef X\nstruct A { int a;\n#else\nstruct A { long a;\n#endif\n};", "constexpr long kMost = 1'000'000;"),
]


def wrapped(text):
    return "#include <vector>\n\nnamespace tidemark {\n" + text + "\n}  // namespace tidemark\n"


def run_on(first, second):
    with tempfile.TemporaryDirectory() as root:
        for name, text in (("core/first.h", first), ("swap/second.cc", second)):
            path = pathlib.Path(root) / name
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class OneDefinition(unittest.TestCase):
    def test_each_pair_is_found_on_its_line(self):
        for name, first, second in PAIRS:
            with self.subTest(name=name, first=first):
                status, output = run_on(wrapped(first), wrapped(second))
                self.assertEqual(status, 1, output)
                self.assertIn(f"swap/second.cc:4: tidemark::{name} is defined at core/first.h:4 too; ", output)
                self.assertIn("2 files, 1 breaches", output)

    def test_names_that_differ_or_stay_local_pass(self):
        for first, second in GOOD:
            with self.subTest(first=first):
                self.assertEqual(run_on(wrapped(first), wrapped(second)), (0, "2 files, 0 breaches\n"))

    def test_a_file_that_cannot_be_read_is_not_a_pass(self):
        for text in ("struct A { int a;", "struct A { int a; }; }"):
            with self.subTest(text=text):
                status, output = run_on(wrapped(""), wrapped(text))
                self.assertEqual(status, 1, output)
                self.assertIn("brackets do not match here", output)

    def test_a_tree_without_sources_is_not_a_pass(self):
        with tempfile.TemporaryDirectory() as root:
            done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stdout)


if __name__ == "__main__":
    unittest.main()
