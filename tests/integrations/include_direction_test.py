"""The checker of include directions must be able to fail: each rule is broken once in a small tree of its own."""

import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_includes"

GOOD = {
    "core/graph.h": '#include <vector>\n#include <fmt/format.h>\n',
    "core/plan.h": '#include "core/graph.h"\n',
    "planner/threads/parallel.h": "#include <tbb/parallel_for.h>\n",
    "planner/cost/op_prices.h": '#include "core/graph.h"\n',
    "planner/graph_build/step_graph.h": '#include "planner/cost/op_prices.h"\n',
    "planner/simulate/simulator.h": '#include "planner/graph_build/step_graph.h"\n',
    "planner/schedule/scheduler.h": '#include "planner/simulate/simulator.h"\n',
    "planner/layout/lay_out.h": '#include "planner/threads/parallel.h"\n',
    "planner/decide/gaps/prices.h": '#include "core/graph.h"\n',
    "planner/decide/sites/problem.h": '#include "planner/decide/gaps/prices.h"\n',
    "planner/decide/flat/search.h": '#include "planner/schedule/scheduler.h"\n',
    "planner/decide/rank_problem.h": '#include "planner/decide/flat/search.h"\n',
    "planner/policy.h": '#include "planner/decide/rank_problem.h"\n',
    "planner/planner.h": '#include "planner/policy.h"\n#include "planner/layout/lay_out.h"\n',
    "planner/estimate/to_job.h": '#include "planner/graph_build/step_graph.h"\n',
    "planner/search/layout_search.h": '#include "planner/planner.h"\n',
    "policies/greedy.cc": '#include "planner/policy.h"\n#include "planner/decide/sites/problem.h"\n',
    "policies/other.h": "",
    "device/device.h": '#include "core/graph.h"\n',
    "allocator/pool.h": '#include "device/device.h"\n#include <mimalloc.h>\n',
    "swap/executor.h": '#include "allocator/pool.h"\n',
    "integrations/cli/main.cc": '#include "swap/executor.h"\n#include "policies/other.h"\n#include <fstream>\n',
    "tests/core/graph_test.cc": '#include "core/graph.h"\n#include <gtest/gtest.h>\n',
}

# One breach each: the file, the line it gets, and what must be said.
BAD = [
    ("core/graph.h", '#include "planner/policy.h"', 'may not be included here; this folder sees the standard library'),
    ("core/graph.h", "#include <fstream>", "never touches"),
    ("core/graph.h", "#include <chrono>", "never touches"),
    ("core/graph.h", "#include <thread>", "never touches"),
    ("core/graph.h", "#include <sys/stat.h>", "never touches"),
    ("core/graph.h", "#include <tbb/parallel_for.h>", "may not be included here"),
    ("core/graph.h", "#include <yaml-cpp/yaml.h>", "may not be included here"),
    ("planner/planner.h", '#include "policies/other.h"', "may not be included here"),
    ("planner/planner.h", '#include "swap/executor.h"', "may not be included here"),
    ("planner/planner.h", "  #  include  <chrono>", "never touches"),
    ("planner/planner.h", "#include <spdlog/spdlog.h>", "may not be included here"),
    ("planner/decide/sites/problem.h", '#include "integrations/cli/main.cc"', "may not be included here"),
    ("planner/threads/parallel.h", '#include "planner/cost/op_prices.h"', "its own room and no other"),
    ("planner/cost/op_prices.h", '#include "planner/graph_build/step_graph.h"', "its own room and no other"),
    ("planner/graph_build/step_graph.h", '#include "planner/simulate/simulator.h"', "its own room and threads, cost"),
    ("planner/simulate/simulator.h", '#include "planner/schedule/scheduler.h"', "may not be included here"),
    ("planner/schedule/scheduler.h", '#include "planner/layout/lay_out.h"', "may not be included here"),
    ("planner/layout/lay_out.h", '#include "planner/decide/gaps/prices.h"', "may not be included here"),
    ("planner/decide/gaps/prices.h", '#include "planner/decide/sites/problem.h"', "may not be included here"),
    ("planner/decide/sites/problem.h", '#include "planner/decide/flat/search.h"', "may not be included here"),
    ("planner/decide/flat/search.h", '#include "planner/decide/rank_problem.h"', "may not be included here"),
    ("planner/decide/rank_problem.h", '#include "planner/layout/lay_out.h"', "may not be included here"),
    ("planner/decide/rank_problem.h", '#include "planner/policy.h"', "may not be included here"),
    ("planner/planner.h", '#include "planner/search/layout_search.h"', "may not be included here"),
    ("planner/estimate/to_job.h", '#include "planner/planner.h"', "may not be included here"),
    ("planner/search/layout_search.h", '#include "planner/estimate/to_job.h"', "planner.h and what lies beside it"),
    ("policies/greedy.cc", '#include "planner/layout/lay_out.h"', "may not be included here"),
    ("policies/greedy.cc", '#include "planner/planner.h"', "may not be included here"),
    ("policies/greedy.cc", '#include "policies/other.h"', "may not be included here"),
    ("policies/greedy.cc", '#include "device/device.h"', "may not be included here"),
    ("device/device.h", '#include "allocator/pool.h"', "may not be included here"),
    ("allocator/pool.h", '#include "planner/policy.h"', "may not be included here"),
    ("allocator/pool.h", '#include "swap/executor.h"', "may not be included here"),
    ("swap/executor.h", '#include "planner/planner.h"', "may not be included here"),
    ("swap/executor.h", "#include <fstream>", "never touches"),
    ("integrations/cli/main.cc", '#include "nothing.h"', "is not relative to the root"),
    ("policies/greedy.cc", '#include "tests/core/graph_test.cc"', "may not be included here"),
    ("integrations/cli/main.cc", "#include <core/graph.h>", "write it in quotes"),
]


def run_on(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class IncludeDirection(unittest.TestCase):
    def test_a_good_tree_passes(self):
        status, output = run_on(GOOD)
        self.assertEqual(status, 0, output)
        self.assertEqual(output, f"{len(GOOD)} files, 0 breaches\n")

    def test_each_breach_is_found_on_its_line(self):
        for name, line, said in BAD:
            with self.subTest(name=name, line=line):
                status, output = run_on({**GOOD, name: GOOD[name] + line + "\n"})
                self.assertEqual(status, 1, output)
                number = GOOD[name].count("\n") + 1
                self.assertIn(f"{name}:{number}: ", output)
                self.assertIn(said, output)
                self.assertIn(f"{len(GOOD)} files, 1 breaches", output)

    def test_every_folder_of_planner_is_a_room(self):
        status, output = run_on({**GOOD, "planner/attic/chest.h": '#include "core/graph.h"\n'})
        self.assertEqual(status, 1, output)
        self.assertIn("planner/attic/chest.h:1: planner/attic is no room of planner", output)

    def test_rooms_are_listed_from_the_bottom_up(self):
        rooms = runpy.run_path(str(SCRIPT))["ROOMS"]
        seen = []
        for room, below in rooms.items():
            for name in below:
                self.assertIn("planner" if name == "*" else f"planner/{name}", seen, room)
            seen.append(room)

    def test_a_tree_without_sources_is_not_a_pass(self):
        self.assertEqual(run_on({"README.md": ""})[0], 2)


if __name__ == "__main__":
    unittest.main()
