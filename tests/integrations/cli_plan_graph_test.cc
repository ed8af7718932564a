// `plan --graph`: what a user gives and gets, on steps small enough to be planned at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using Json = nlohmann::json;

/// Three steps there and back over a byte each: 4 B keep all, 3 B take runs again.
constexpr const char* kChain =
    "G 7 9\nN 0 0 1 0 input\nN 1 2 1 0 a\nN 2 3 1 0 b\nN 3 0 1 0 loss\nN 4 1 1 1 gb\nN 5 1 1 1 ga\nN 6 1 1 1 gi\n"
    "E 0 1\nE 1 2\nE 2 3\nE 3 4\nE 2 4\nE 4 5\nE 1 5\nE 5 6\nE 0 6\n";

/// Seconds to compute, then joules to compute, to page in and out.
constexpr const char* kSwaps =
    "G 4 4\nN 0 2.0 10 0 a 5.0 0.5 0.25\nN 1 1.0 20 0 b 1.0 0.5 0.25\nN 2 1.0 20 0 c 1.0 0.5 0.25\n"
    "N 3 1.0 10 1 d 1.0 0.5 0.25\nE 0 1\nE 1 2\nE 2 3\nE 0 3\n";

Json json_of(const Workplace& place, std::vector<std::string> arguments, int status = 0) {
  arguments.insert(arguments.begin(), "plan");
  arguments.insert(arguments.end(), {"--format", "json"});
  const Ran ran = place.run(arguments);
  EXPECT_EQ(ran.status, status) << ran.err;
  return Json::parse(ran.out);
}

TEST(PlanGraph, BadInputIsNamedByLine) {
  const Workplace place;
  const auto refused = [&](const std::string& text, const std::string& pattern) {
    place.write("bad.graph", text);
    expect_refused(place, {"plan", "--graph", "bad.graph", "--budget", "3B", "--schedule-out", "order"}, pattern);
  };
  refused("", "^bad\\.graph:1: there is no line `G nodes edges`");
  refused("G 1 0\n", "^bad\\.graph:1: line G states 1 nodes, the file has 0");
  refused("G 1 0\nN 0 1 -5 0 a\n", "^bad\\.graph:2: .*bytes.*-5");
  refused("G 1 0\nN 0 nan 5 0 a\n", "^bad\\.graph:2: .*cost.*nan");
  refused("G 2 1\nN 0 1 1 0 a\nN 1 1 1 0 b\nE 1 0\n", "^bad\\.graph:4: .*");
  refused("G 2 1\nN 0 1 1 0 a\nN 5 1 1 0 b\nE 0 1\n", "^bad\\.graph:3: .*idx");
  refused("{\"ops\": [", "^bad\\.graph:1(:[0-9]+)?: ");
  expect_refused(place, {"plan", "--graph", "nowhere.graph", "--budget", "3B"},
                 "^nowhere\\.graph: cannot read: No such file");
}

/// Wherever memory ends, in the parser, in what takes its document apart or behind it: one line, and no crash.
TEST(PlanGraph, ShortMemoryIsOneLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs all of the address space";
#endif
  const Workplace place;
  std::string text = R"({"tidemark_graph": 1, "ops": [], "storages": [{"bytes": 1})";
  for (int i = 1; i < 300'000; ++i) text += R"(,{"bytes":1})";
  place.write("step.json", text + "]}");
  int short_of = 0;
  for (std::int64_t mib = 64; mib <= 160; mib += 8) {
    const Ran ran = place.run_limited(
        {"plan", "--graph", "step.json", "--budget", "1GiB", "--schedule-out", "order", "--format", "json"}, mib << 20);
    EXPECT_EQ(ran.status, 2) << mib << " MiB: " << ran.err;
    EXPECT_TRUE(is_one_line(ran.err)) << mib << " MiB: " << ran.err;
    EXPECT_EQ(Json::parse(ran.out)["kind"], "bad_input") << mib << " MiB";
    if (ran.err.starts_with("tidemark: not enough memory")) ++short_of;
  }
  EXPECT_GT(short_of, 0);
  EXPECT_EQ(place.files(), std::set<std::string>{"step.json"});
}

TEST(PlanGraph, GreedyFitsAndIsNoBetterThanOptimal) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json greedy =
      json_of(place, {"--graph", "chain.graph", "--budget", "4B", "--policy", "greedy", "--schedule-out", "order"});
  const Json optimal = json_of(place, {"--graph", "chain.graph", "--budget", "4B"});
  EXPECT_LE(greedy.at("peak_bytes"), 4);
  EXPECT_GE(greedy.at("added_cost"), optimal.at("added_cost"));
  EXPECT_GE(greedy.at("added_cost_percent"), greedy.at("lower_bound_percent"));
  EXPECT_FALSE(place.read("order").empty());
}

TEST(PlanGraph, OptionsThatMakeNoSenseAreRefused) {
  const Workplace place;
  place.write("chain.graph", kChain);
  expect_refused(place, {"plan", "--graph", "chain.graph"}, "--budget SIZE or --frontier");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3"}, "budget");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--objective", "money"}, "objective");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--objective", "energy"},
                 "^chain\\.graph:2: .*--objective");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--policy", "full-recompute"},
                 "^tidemark plan: --policy full-recompute: with --graph .*optimal, greedy");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--frontier", "--schedule-out", "order"},
                 "--schedule-out needs --budget");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--frontier", "--addresses"}, "--addresses needs --budget");
  expect_refused(place, {"plan", "model.yaml", "--addresses"}, "--addresses requires --graph");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--effort", "0"}, "effort");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--schedule-out", "chain.graph"},
                 "chain\\.graph");
  EXPECT_EQ(place.read("chain.graph"), kChain);
}

TEST(PlanGraph, TheScheduleOutIsTheOrderOfTheAnswer) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--budget", "3B", "--schedule-out", "order"});
  EXPECT_EQ(json["status"], "optimal");
  EXPECT_LE(json["peak_bytes"], 3);
  std::istringstream lines(place.read("order"));
  std::vector<int> order;
  for (int op = 0; lines >> op;) order.push_back(op);
  EXPECT_EQ(json["schedule"].get<std::vector<int>>(), order);
  EXPECT_EQ(json["recomputed"], order.size() - 7);
  EXPECT_GT(order.size(), 7U);
}

/// Four layers of 1,000 B there and back, 600 ns each; a copy takes 500 ns either way.
constexpr const char* kLinked = R"({"tidemark_graph": 1, "cost_unit": "ns",
 "link": {"out_bytes_per_second": 2e9, "in_bytes_per_second": 2e9},
 "storages": [{"bytes": 1000}, {"bytes": 1000}, {"bytes": 1000}, {"bytes": 1000},
              {"bytes": 10}, {"bytes": 10}, {"bytes": 10}, {"bytes": 10}],
 "ops": [{"cost": 600, "reads": [], "writes": [0]}, {"cost": 600, "reads": [0], "writes": [1]},
         {"cost": 600, "reads": [1], "writes": [2]}, {"cost": 600, "reads": [2], "writes": [3]},
         {"cost": 600, "reads": [3], "writes": [4]}, {"cost": 600, "reads": [2, 4], "writes": [5]},
         {"cost": 600, "reads": [1, 5], "writes": [6]}, {"cost": 600, "reads": [0, 6], "writes": [7]}]})";

TEST(PlanGraph, PagesOfALinkAndAddressesAreTold) {
  const Workplace place;
  place.write("step.json", kLinked);
  const Json json = json_of(place, {"--graph", "step.json", "--budget", "3010B", "--addresses"});
  EXPECT_EQ(json["status"], "optimal");  // the copies run beside the ops
  EXPECT_EQ(json["waited_cost"], 0);
  EXPECT_EQ(json["host_peak_bytes"], 1000);
  ASSERT_EQ(json["pages"].size(), 1U);
  EXPECT_EQ(json["pages"][0]["storage"], 0);
  EXPECT_LT(json["pages"][0]["gone"], json["pages"][0]["back"]);
  EXPECT_LE(json["packed_bytes"], 3010);
  EXPECT_EQ(json["addresses"].size(), 9U);  // eight storages, one of them twice
  const Ran text = place.run({"plan", "--graph", "step.json", "--budget", "2020B", "--addresses"});
  for (const char* said : {"addresses ", "(simulated)", "what ops wait", "copied out after op"})
    EXPECT_NE(text.out.find(said), std::string::npos) << said;
}

/// `x` is out of the way of `a` and of `c`. CHANGED is what the op between them writes of it.
constexpr const char* kPaged = R"({"tidemark_graph": 1,
 "storages": [{"bytes": 100, "page_out_cost": 3, "page_in_cost": 2}, {"bytes": 100}, {"bytes": 10}, {"bytes": 10},
              {"bytes": 100}, {"bytes": 10}, {"bytes": 10}],
 "ops": [{"cost": 10, "recompute": "never", "reads": [], "writes": [0]}, {"cost": 10, "reads": [], "writes": [1]},
         {"cost": 10, "reads": [1], "writes": [2]}, {"cost": 10, "reads": [0, 2], "writes": [CHANGED 3]},
         {"cost": 10, "reads": [3], "writes": [4]}, {"cost": 10, "reads": [4], "writes": [5]},
         {"cost": 10, "reads": [0, 5], "writes": [6]}]})";

/// From what is printed alone: what each storage occupies, less its pages. REQUIRES: storages with one run of a writer.
std::int64_t peak_of(const Json& step, const Json& plan) {
  std::vector<std::int64_t> live(plan.at("schedule").size());
  for (std::size_t s = 0; s < step.at("storages").size(); ++s) {
    std::vector<std::size_t> touched;
    for (std::size_t p = 0; p < live.size(); ++p)
      for (const char* list : {"reads", "writes"})
        for (const Json& one : step.at("ops").at(plan["schedule"][p].get<std::size_t>()).at(list))
          if (one == s) touched.push_back(p);
    const std::int64_t bytes = step["storages"][s]["bytes"];
    for (std::size_t p = touched.front(); p <= touched.back(); ++p) live[p] += bytes;
    for (const Json& page : plan.at("pages"))
      for (std::size_t p = page.at("gone"); page.at("storage") == s && p < page.at("back"); ++p) live[p] -= bytes;
  }
  return *std::ranges::max_element(live);
}

TEST(PlanGraph, PagesAreToldWithoutALinkAndPayForEveryVersion) {
  const Workplace place;
  for (const auto& [changed, added] : {std::pair("", 3 + 2 + 2), std::pair("0,", 3 + 2 + 3 + 2)}) {
    const std::string text = std::regex_replace(kPaged, std::regex("CHANGED"), changed);
    place.write("step.json", text);
    const Json json = json_of(place, {"--graph", "step.json", "--budget", "130B"});
    EXPECT_EQ(json["status"], "optimal");
    EXPECT_EQ(json["added_cost"], added);
    EXPECT_EQ(json["pages"], Json::parse(R"([{"storage": 0, "after": 0, "gone": 1, "back": 3, "before": 3},
                                             {"storage": 0, "after": 3, "gone": 4, "back": 6, "before": 6}])"));
    EXPECT_EQ(json["peak_bytes"], peak_of(Json::parse(text), json));
    EXPECT_FALSE(json.contains("waited_cost"));
  }
}

TEST(PlanGraph, NoScheduleIsWrittenWhereNoneFits) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--budget", "2B", "--schedule-out", "order"}, 1);
  EXPECT_EQ(json["status"], "infeasible");
  EXPECT_FALSE(place.files().contains("order"));
}

TEST(PlanGraph, ObjectivesCountWhatTheySay) {
  const Workplace place;
  place.write("s.swapgraph", kSwaps);
  // In joules a page of `a` is cheaper than its run; in seconds pages have no cost to go by, and there are none.
  const Json energy = json_of(place, {"--graph", "s.swapgraph", "--budget", "40B", "--objective", "energy"});
  EXPECT_EQ(energy["swapped"], 1);
  EXPECT_EQ(energy["recomputed"], 0);
  EXPECT_NEAR(energy["added_cost"].get<double>(), 0.75, 1e-6);
  const Json time = json_of(place, {"--graph", "s.swapgraph", "--budget", "40B", "--objective", "time"});
  EXPECT_EQ(time["swapped"], 0);
  EXPECT_EQ(time["recomputed"], 1);
  EXPECT_NEAR(time["added_cost_percent"].get<double>(), 40, 1e-6);
}

TEST(PlanGraph, FrontiersFallAndEndAtKeepingAll) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--frontier"});
  const Json& points = json.at("frontier");
  ASSERT_GE(points.size(), 2U);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i]["peak_bytes"], points[i - 1]["peak_bytes"]);
    EXPECT_LT(points[i]["added_cost"], points[i - 1]["added_cost"]);
  }
  EXPECT_EQ(points.back()["added_cost"], 0);
  const Ran text = place.run({"plan", "--graph", "chain.graph", "--frontier"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("3 B"), std::string::npos) << text.out;
}

/// `layers` there and back over sizes that differ, each forward output read by the next two: more than is solved
/// exactly.
std::string ladder(int layers) {
  const int nodes = 2 * layers;
  std::string text, edges;
  int edge_count = 0;
  const auto edge = [&](int from, int to) {
    edges += "E " + std::to_string(from) + " " + std::to_string(to) + "\n";
    ++edge_count;
  };
  for (int v = 0; v < nodes; ++v) {
    const int layer = v < layers ? v : nodes - 1 - v;
    text += "N " + std::to_string(v) + " " + std::to_string(1 + layer * 7 % 11) + " " +
            std::to_string(10 + layer * 37 % 50) + (v < layers ? " 0 f" : " 1 b") + std::to_string(layer) + "\n";
    if (v > 0) edge(v - 1, v);
    if (v > 1 && v < layers) edge(v - 2, v);
    if (v > layers) edge(layer, v);
  }
  return "G " + std::to_string(nodes) + " " + std::to_string(edge_count) + "\n" + text + edges;
}

/// With the frontier a budget has the answer it has without, but that of one too low the whole search knows more.
TEST(PlanGraph, FrontiersAgreeWithTheAnswerBesideThem) {
  const Workplace place;
  place.write("ladder.graph", ladder(60));
  const auto planned = [&](const std::string& budget, int status, bool frontier) {
    std::vector<std::string> arguments{"--graph", "ladder.graph", "--budget", budget, "--effort", "0.02"};
    if (frontier) arguments.emplace_back("--frontier");
    Json json = json_of(place, arguments, status);
    json.erase("seconds");
    return json;
  };
  const Json too_low = planned("40B", 1, true), points = too_low["frontier"];
  EXPECT_EQ(too_low["proven"], true);
  EXPECT_EQ(too_low["smallest_known_peak_bytes"], points.front()["peak_bytes"]);
  EXPECT_LE(too_low["smallest_known_peak_bytes"], planned("40B", 1, false)["smallest_known_peak_bytes"]);
  const Json& point = points[points.size() / 2];
  const std::string budget = std::to_string(point["peak_bytes"].get<std::int64_t>()) + "B";
  Json with = planned(budget, 0, true);
  EXPECT_EQ(with["added_cost"], point["added_cost"]);
  EXPECT_EQ(with["frontier"], points);
  with.erase("frontier");
  EXPECT_EQ(with, planned(budget, 0, false));
}

}  // namespace
}  // namespace tidemark::testing
