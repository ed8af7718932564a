// `plan --graph`: what a user gives and gets, on steps small enough to be planned at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/json_text.h"
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
  return parsed(ran.out);
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
    EXPECT_EQ(parsed(ran.out)["kind"], "bad_input") << mib << " MiB";
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
  EXPECT_LE(greedy.at("ranks")[0].at("peak_bytes"), 4);
  EXPECT_LE(greedy.at("captured").at("live_peak_bytes"), 4);
  EXPECT_GE(greedy["captured"].at("added_cost"), optimal.at("captured").at("added_cost"));
  EXPECT_GE(greedy["captured"].at("added_cost_percent"), greedy["captured"].at("lower_bound_percent"));
  EXPECT_FALSE(place.read("order").empty());
}

TEST(PlanGraph, OptionsThatMakeNoSenseAreRefused) {
  const Workplace place;
  place.write("chain.graph", kChain);
  expect_refused(place, {"plan", "--graph", "chain.graph"}, "--budget SIZE, --device or --frontier");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3"}, "budget");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--objective", "money"}, "objective");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--objective", "energy"},
                 "^chain\\.graph:2: .*--objective");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--frontier", "--schedule-out", "order"},
                 "--schedule-out needs --budget");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--effort", "0"}, "effort");
  expect_refused(place, {"plan", "--graph", "chain.graph", "--budget", "3B", "--schedule-out", "chain.graph"},
                 "chain\\.graph");
  EXPECT_EQ(place.read("chain.graph"), kChain);
}

TEST(PlanGraph, TheScheduleOutIsTheOrderOfTheAnswer) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--budget", "3B", "--schedule-out", "order"});
  const Json& captured = json.at("captured");
  EXPECT_EQ(captured["status"], "optimal");
  EXPECT_LE(json["ranks"][0]["peak_bytes"], 3);
  std::istringstream lines(place.read("order"));
  std::vector<int> order;
  for (int op = 0; lines >> op;) order.push_back(op);
  EXPECT_EQ(captured["order"].get<std::vector<int>>(), order);
  EXPECT_EQ(captured["recomputed"], order.size() - 7);
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

/// The values of a column of a plan (docs/formats.md).
std::vector<std::int64_t> values_of(const Json& column) {
  std::vector<std::int64_t> words, values;
  for (const Json& entry : column.at("data")) {
    const bool is_run = entry.is_array();
    for (std::int64_t n = is_run ? entry[1].get<std::int64_t>() : 1; n > 0; --n)
      words.push_back(is_run ? words[words.size() - entry[0].get<std::size_t>()] : entry.get<std::int64_t>());
  }
  const std::string coding = column.value("coding", "plain");
  std::int64_t total = 0, largest = -1;
  for (const std::int64_t word : words) {
    total += word;
    if (coding == "plain")
      values.push_back(word);
    else if (coding == "delta")
      values.push_back(total);
    else
      values.push_back(word == 0  ? largest + 1
                       : word > 0 ? values[values.size() - static_cast<std::size_t>(word)]
                                  : -word - 1);
    largest = std::max(largest, values.back());
  }
  for (std::int64_t& value : values) value *= column.value("scale", std::int64_t{1});
  return values;
}

Json column_of(const std::vector<std::int64_t>& values) {
  return {{"count", values.size()}, {"data", values}};
}

TEST(PlanGraph, SwapsOfALinkAndAddressesAreTold) {
  const Workplace place;
  place.write("step.json", kLinked);
  const Json json =
      json_of(place, {"--graph", "step.json", "--budget", "3010B", "--effort", "0.01", "--out", "plan.json"});
  const Json& captured = json.at("captured");
  EXPECT_EQ(captured["status"], "optimal");  // the copies run beside the ops
  EXPECT_EQ(captured["waited_cost"], 0);
  ASSERT_FALSE(captured["swaps"].empty());
  EXPECT_EQ(captured["swaps"][0]["storage"], 0);
  EXPECT_EQ(captured["swaps"].size(), captured["swapped"]);
  for (const Json& swap : captured["swaps"]) {
    EXPECT_EQ(swap["copied_out"], true);
    EXPECT_LT(swap["after"], swap["before"]);
  }
  EXPECT_EQ(json["ranks"][0]["host_bytes"], 1000 * captured["swaps"].size());
  EXPECT_LE(json["ranks"][0]["peak_bytes"], 3010);
  const Json residencies = parsed(place.read("plan.json"))["ranks"][0]["program"]["residencies"];
  const auto column = [&](const char* name) { return values_of(residencies.at(name)); };
  const std::vector<std::int64_t> space = column("space"), storage = column("storage"), first = column("first_task"),
                                  last_after = column("last_task_after"), acquire = column("acquire"),
                                  release_after = column("release_after");
  EXPECT_EQ(std::ranges::count(space, 0), 8 + std::ssize(captured["swaps"]));  // eight storages, what was away twice
  std::vector<std::size_t> twice;
  for (std::size_t r = 0; r < space.size(); ++r)
    if (space[r] == 0 && storage[r] == 0) twice.push_back(r);
  ASSERT_EQ(twice.size(), 2U);
  EXPECT_LT(first[twice[0]] + last_after[twice[0]], first[twice[1]]);
  EXPECT_LE(acquire[twice[0]] + release_after[twice[0]], acquire[twice[1]]);  // gone before it is back
  const Ran text = place.run({"plan", "--graph", "step.json", "--budget", "2020B", "--effort", "0.01"});
  for (const char* said : {"FITS", "bytes live ", "(simulated)", "for which ops wait"})
    EXPECT_NE(text.out.find(said), std::string::npos) << said << " is not in\n" << text.out;
}

/// `x` is out of the way of `a` and of `c`. CHANGED is what the op between them writes of it.
constexpr const char* kPaged = R"({"tidemark_graph": 1,
 "storages": [{"bytes": 100, "page_out_cost": 3, "page_in_cost": 2}, {"bytes": 100}, {"bytes": 10}, {"bytes": 10},
              {"bytes": 100}, {"bytes": 10}, {"bytes": 10}],
 "ops": [{"cost": 10, "recompute": "never", "reads": [], "writes": [0]}, {"cost": 10, "reads": [], "writes": [1]},
         {"cost": 10, "reads": [1], "writes": [2]}, {"cost": 10, "reads": [0, 2], "writes": [CHANGED 3]},
         {"cost": 10, "reads": [3], "writes": [4]}, {"cost": 10, "reads": [4], "writes": [5]},
         {"cost": 10, "reads": [0, 5], "writes": [6]}]})";

/// From what is printed alone: what each storage occupies, less its swaps, whose copies take no time. REQUIRES:
/// storages with one run of a writer.
std::int64_t peak_of(const Json& step, const Json& captured) {
  std::vector<std::int64_t> live(captured.at("order").size());
  for (std::size_t s = 0; s < step.at("storages").size(); ++s) {
    std::vector<std::size_t> touched;
    for (std::size_t p = 0; p < live.size(); ++p)
      for (const char* list : {"reads", "writes"})
        for (const Json& one : step.at("ops").at(captured["order"][p].get<std::size_t>()).at(list))
          if (one == s) touched.push_back(p);
    const std::int64_t bytes = step["storages"][s]["bytes"];
    for (std::size_t p = touched.front(); p <= touched.back(); ++p) live[p] += bytes;
    for (const Json& swap : captured.at("swaps"))
      for (std::size_t p = swap.at("after").get<std::size_t>() + 1; swap.at("storage") == s && p < swap.at("before");
           ++p)
        live[p] -= bytes;
  }
  return *std::ranges::max_element(live);
}

TEST(PlanGraph, SwapsAreToldWithoutALinkAndPayForEveryVersion) {
  const Workplace place;
  for (const bool changes : {false, true}) {
    const std::int64_t added = changes ? 3 + 2 + 3 + 2 : 3 + 2 + 2;
    const std::string text = with_matches_as(kPaged, "CHANGED", changes ? "0," : "");
    place.write("step.json", text);
    const Json json = json_of(place, {"--graph", "step.json", "--budget", "130B"});
    const Json& captured = json.at("captured");
    EXPECT_EQ(captured["status"], "optimal");
    EXPECT_EQ(captured["added_cost"], added);
    Json swaps = parsed(R"([{"storage": 0, "after": 0, "before": 3, "copied_out": true},
                                 {"storage": 0, "after": 3, "before": 6, "copied_out": true}])");
    swaps[1]["copied_out"] = changes;  // else the first copy serves again
    EXPECT_EQ(captured["swaps"], swaps);
    EXPECT_EQ(captured["live_peak_bytes"], peak_of(parsed(text), captured));
    EXPECT_EQ(captured["waited_cost"], 0);
  }
}

TEST(PlanGraph, NoScheduleIsWrittenWhereNoneFits) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--budget", "2B", "--schedule-out", "order"}, 1);
  EXPECT_EQ(json["captured"]["status"], "infeasible");
  EXPECT_FALSE(place.files().contains("order"));
}

TEST(PlanGraph, ObjectivesCountWhatTheySay) {
  const Workplace place;
  place.write("s.swapgraph", kSwaps);
  // In joules a page of `a` is cheaper than its run; in seconds pages have no cost to go by, and there are none.
  const Json energy =
      json_of(place, {"--graph", "s.swapgraph", "--budget", "40B", "--objective", "energy"}).at("captured");
  EXPECT_EQ(energy["swapped"], 1);
  EXPECT_EQ(energy["recomputed"], 0);
  EXPECT_NEAR(energy["added_cost"].get<double>(), 0.75, 1e-6);
  const Json time = json_of(place, {"--graph", "s.swapgraph", "--budget", "40B", "--objective", "time"}).at("captured");
  EXPECT_EQ(time["swapped"], 0);
  EXPECT_EQ(time["recomputed"], 1);
  EXPECT_NEAR(time["added_cost_percent"].get<double>(), 40, 1e-6);
}

TEST(PlanGraph, FrontiersFallAndEndAtKeepingAll) {
  const Workplace place;
  place.write("chain.graph", kChain);
  const Json json = json_of(place, {"--graph", "chain.graph", "--frontier"});
  const Json& points = json.at("captured").at("frontier");
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

/// Without the frontier a budget is searched by itself, which is no worse; of one too low the whole search knows more.
TEST(PlanGraph, FrontiersAgreeWithTheAnswerBesideThem) {
  const Workplace place;
  place.write("ladder.graph", ladder(50));
  place.write("longer.graph", ladder(60));
  std::string graph = "ladder.graph";
  const auto planned = [&](const std::string& budget, int status, bool frontier) {
    std::vector<std::string> arguments{"--graph", graph, "--budget", budget, "--effort", "0.02"};
    if (frontier) arguments.emplace_back("--frontier");
    Json json = json_of(place, arguments, status);
    json.erase("seconds");
    return json;
  };
  const Json too_low = planned("40B", 1, true), points = too_low["captured"]["frontier"];
  EXPECT_GT(too_low["captured"]["lower_bound_bytes"], 40);  // proven
  EXPECT_GE(too_low["ranks"][0]["smallest_budget_bytes"], points.front()["peak_bytes"]);
  EXPECT_LE(too_low["ranks"][0]["smallest_budget_bytes"],
            planned("40B", 1, false)["ranks"][0]["smallest_budget_bytes"]);
  const Json& point = points[points.size() / 2];
  const std::string budget = std::to_string(point["peak_bytes"].get<std::int64_t>()) + "B";
  const Json with = planned(budget, 0, true);
  EXPECT_GE(with["captured"]["added_cost"], point["added_cost"]);  // addresses may take more than what is live
  EXPECT_EQ(with["captured"]["frontier"], points);
  EXPECT_LE(planned(budget, 0, false)["captured"]["added_cost"], with["captured"]["added_cost"]);
  graph = "longer.graph";
  for (const char* longer : {"930B", "1500B"})
    EXPECT_LE(planned(longer, 0, false)["captured"]["added_cost_percent"].get<double>(),
              planned(longer, 0, true)["captured"]["added_cost_percent"].get<double>() + 0.1);
}

/// Layers of 4,096 B there and back over a link, a weight that is changed in place, an input that is freed, workspace.
constexpr const char* kStep = R"({"tidemark_graph": 1, "name": "layers", "cost_unit": "ns",
 "link": {"out_bytes_per_second": 4e9, "in_bytes_per_second": 4e9, "latency_ns": 5},
 "storages": [{"name": "input", "bytes": 4096}, {"name": "weight", "bytes": 512, "until_end": true, "swappable": false},
              {"name": "f0", "bytes": 4096, "swappable": false}, {"name": "f1", "bytes": 4096}, {"name": "f2", "bytes": 4096},
              {"name": "f3", "bytes": 4096, "pinned_until": 4}, {"name": "b3", "bytes": 4096}, {"name": "b2", "bytes": 4096},
              {"name": "b1", "bytes": 4096}, {"name": "gradient", "bytes": 512}],
 "ops": [{"name": "F0", "cost": 400, "reads": [0, 1], "writes": [2], "transient_bytes": 512},
         {"name": "F1", "cost": 3000, "reads": [1, 2], "writes": [3], "recompute": "random"},
         {"name": "F2", "cost": 300, "reads": [1, 3], "writes": [4]},
         {"name": "F3", "cost": 3000, "reads": [1, 4], "writes": [5]},
         {"name": "B3", "cost": 2000, "reads": [1, 4, 5], "writes": [6], "phase": "backward"},
         {"name": "B2", "cost": 2000, "reads": [1, 3, 6], "writes": [7], "phase": "backward"},
         {"name": "B1", "cost": 2000, "reads": [1, 2, 7], "writes": [8], "phase": "backward"},
         {"name": "B0", "cost": 2000, "reads": [0, 8], "writes": [9], "phase": "backward"},
         {"name": "step", "cost": 10, "reads": [1, 9], "writes": [1], "phase": "optimizer", "recompute": "never"}]})";
constexpr const char* kStepBudget = "17408B";  // four layers and a few small ones; seven are live at once

TEST(PlanGraph, APlanIsTakenByEveryVerb) {
  const Workplace place;
  place.write("step.json", kStep);
  const Ran plan = place.run({"plan", "--graph", "step.json", "--budget", kStepBudget, "--effort", "0.05", "--out",
                              "plan.json", "--report", "plan.html", "--trace", "trace.json"});
  ASSERT_EQ(plan.status, 0) << plan.out << plan.err;
  const Json json = parsed(place.read("plan.json"));
  EXPECT_EQ(json["schema_version"], 9);
  EXPECT_FALSE(json.contains("job"));
  EXPECT_EQ(json["step_name"], "layers");
  const std::vector<std::int64_t> kinds = values_of(json["ranks"][0]["program"]["tasks"]["kind"]);
  EXPECT_GT(std::ranges::count(kinds, 1) + std::ranges::count(kinds, 2), 0);
  EXPECT_NE(place.read("plan.html").find("layers"), std::string::npos);
  EXPECT_TRUE(parsed(place.read("trace.json")).contains("traceEvents"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"check", "plan.json"},
                                             {"show", "plan.json"},
                                             {"diff", "plan.json", "plan.json"},
                                             {"run", "plan.json", "--device", "sim"},
                                             {"run", "plan.json", "--device", "sim", "--verify"},
                                             {"run", "plan.json", "--device", "host", "--verify"}}) {
    const Ran ran = place.run(arguments);
    EXPECT_EQ(ran.status, 0) << arguments[0] << ": " << ran.out << ran.err;
    EXPECT_FALSE(ran.out.empty()) << arguments[0];
  }
}

/// Layers there and back, each with two byte counts: more ops than are searched for all budgets at once.
std::string many_layers() {
  constexpr int kLayers = 60;
  std::string storages, ops;
  for (int v = 0; v < 2 * kLayers; ++v) {
    const bool forward = v < kLayers;
    const int of = forward ? v : 2 * kLayers - 1 - v;
    std::string reads = v > 0 ? std::to_string(v - 1) : "";
    if (!forward && of + 1 != v) reads += ", " + std::to_string(of);
    storages +=
        (v > 0 ? ", " : "") + std::string(R"({"name": "s", "bytes": )") + std::to_string(4096 + 1024 * (of % 2)) + "}";
    ops += (v > 0 ? ", " : "") + std::string(R"({"name": "o", "cost": )") + std::to_string(100 + 10 * (of % 3)) +
           R"(, "reads": [)" + reads + R"(], "writes": [)" + std::to_string(v) + "]" +
           (forward ? "}" : R"(, "phase": "backward", "recompute": "never"})");
  }
  return R"({"tidemark_graph": 1, "name": "many", "cost_unit": "ns", "storages": [)" + storages + R"(], "ops": [)" +
         ops + "]}";
}

TEST(PlanGraph, ATimeLimitEndsWithAPlanOrSaysThatThereIsNone) {
  const Workplace place;
  place.write("step.json", many_layers());
  const auto plan = [&](const char* budget, const char* limit) {
    return place.run({"plan", "--graph", "step.json", "--budget", budget, "--time-limit", limit, "--format", "json"});
  };
  const Ran fits = plan("200KiB", "0.000001");
  ASSERT_EQ(fits.status, 0) << fits.out << fits.err;
  EXPECT_NE(fits.err.find("--time-limit ended the search: the plan is the best found by then"), std::string::npos)
      << fits.err;
  EXPECT_TRUE(parsed(fits.out)["captured"]["stopped"]);
  const Ran none = plan("9KiB", "0.000001");
  EXPECT_EQ(none.status, 1) << none.out << none.err;
  const Ran ample = plan("200KiB", "1000");
  ASSERT_EQ(ample.status, 0) << ample.err;
  EXPECT_FALSE(parsed(ample.out)["captured"].contains("stopped"));
  EXPECT_LE(parsed(ample.out)["captured"]["added_cost"].get<double>(),
            parsed(fits.out)["captured"]["added_cost"].get<double>());
  EXPECT_EQ(plan("200KiB", "0").status, 2);
  EXPECT_EQ(plan("200KiB", "-1").status, 2);
}

TEST(PlanGraph, TheSameBytesForAnyThreads) {
  const Workplace place;
  place.write("step.json", kStep);
  place.write("many.json", many_layers());
  for (const auto& [step, budget] : {std::pair("step.json", kStepBudget), std::pair("many.json", "150KiB")}) {
    for (const char* threads : {"1", "2"}) {
      const Ran plan = place.run({"plan", "--graph", step, "--budget", budget, "--effort", "0.05", "--threads", threads,
                                  "--out", std::string("plan") + threads + ".json"});
      ASSERT_EQ(plan.status, 0) << plan.err;
    }
    EXPECT_EQ(place.read("plan1.json"), place.read("plan2.json"));
  }
}

/// Waits of a task, as rows of wait_back.
struct Waits {
  explicit Waits(const Json& program)
      : of_task(values_of(program["tasks"]["waits"])), back(values_of(program["wait_back"])) {}
  /// Drops the first wait for a task of that kind: 3 is a swap in.
  void drop_wait_for(const std::vector<std::int64_t>& kinds, std::int64_t kind) {
    std::size_t wait = 0;
    for (std::size_t t = 0; t < of_task.size(); ++t)
      for (std::int64_t n = 0; n < of_task[t]; ++n, ++wait) {
        if (kinds[t - static_cast<std::size_t>(back[wait])] != kind) continue;
        --of_task[t];
        back.erase(back.begin() + static_cast<std::ptrdiff_t>(wait));
        return;
      }
    ADD_FAILURE() << "no task waits for one of kind " << kind;
  }
  std::vector<std::int64_t> of_task, back;
};

TEST(PlanGraph, EditedPlansAreRefused) {
  const Workplace place;
  place.write("step.json", kStep);
  const Ran plan =
      place.run({"plan", "--graph", "step.json", "--budget", kStepBudget, "--effort", "0.05", "--out", "plan.json"});
  ASSERT_EQ(plan.status, 0) << plan.err;
  const Json sound = parsed(place.read("plan.json"));
  const auto refused = [&](const std::string& what, auto edit) {
    Json bad = sound;
    edit(bad);
    ASSERT_NE(bad, sound) << what;
    place.write("bad.json", bad.dump());
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"check", "bad.json"}, {"run", "bad.json", "--device", "sim"}}) {
      const Ran ran = place.run(arguments);
      EXPECT_TRUE(ran.status == 1 || ran.status == 2) << what << ": " << arguments[0] << ": " << ran.out << ran.err;
      // `check` says what is wrong with a program on stdout: that is its answer.
      const std::string& said = ran.err.empty() ? ran.out.substr(0, ran.out.find('\n') + 1) : ran.err;
      EXPECT_TRUE(is_one_line(said)) << what << ": " << arguments[0] << ": " << ran.out << ran.err;
      EXPECT_FALSE(said.starts_with("FITS")) << what << ": " << arguments[0] << ": " << said;
    }
  };
  const auto bump = [](Json& column, std::size_t at, std::int64_t by) {
    std::vector<std::int64_t> values = values_of(column);
    values.at(at) += by;
    column = column_of(values);
  };
  for (const char* column : {"bytes", "cost", "recipe_op"})
    refused(column, [&](Json& bad) { bump(bad["graph"][column], 0, 1); });
  for (const char* column : {"storage_bits", "access_kind"})
    refused(column,
            [&](Json& bad) { bump(bad["graph"][column], 0, values_of(bad["graph"][column])[0] == 0 ? 1 : -1); });
  refused("recipe_bits", [&](Json& bad) { bump(bad["graph"]["recipe_bits"], 0, 2); });
  refused("held_until", [&](Json& bad) { bump(bad["graph"]["held_until"], 5, 1); });
  refused("copies", [&](Json& bad) { bump(bad["graph"]["copies"]["out_link"], 0, 1); });
  refused("transients", [&](Json& bad) { bad["graph"]["transients"] = 0; });
  const auto program = [](Json& bad) -> Json& { return bad["ranks"][0]["program"]; };
  // Another residency's place, of which there is one that is needed at the same time.
  refused("offset", [&](Json& bad) {
    Json& column = program(bad)["residencies"]["offset"];
    std::vector<std::int64_t> offsets = values_of(column);
    offsets[1] = offsets[0];  // the input and the weight
    column = column_of(offsets);
  });
  const std::vector<std::int64_t> kinds = values_of(sound["ranks"][0]["program"]["tasks"]["kind"]);
  for (const std::int64_t kind : {2, 3})
    refused("wait for a copy", [&](Json& bad) {
      Waits waits(program(bad));
      waits.drop_wait_for(kinds, kind);
      program(bad)["tasks"]["waits"] = column_of(waits.of_task);
      program(bad)["wait_back"] = column_of(waits.back);
    });
  const auto recomputed = std::ranges::find(kinds, 1);
  ASSERT_NE(recomputed, kinds.end());
  refused("recipe of a recompute", [&](Json& bad) {
    bump(program(bad)["tasks"]["op_template"], static_cast<std::size_t>(recomputed - kinds.begin()), 1);
  });
  for (const std::int64_t by : {1, 1000})
    refused("an op that is not there", [&](Json& bad) {
      const auto behind_last = std::find(kinds.rbegin(), kinds.rend(), 0).base();
      bump(program(bad)["tasks"]["op"], static_cast<std::size_t>(behind_last - kinds.begin()) - 1, by);
    });
}

}  // namespace
}  // namespace tidemark::testing
