// `tidemark loads` and `tidemark run --loads` as a user runs them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "integrations/formats/unit_text.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark {
namespace {

using testing::is_one_line;
using testing::Ran;
using testing::small_model;
using testing::Workplace;

constexpr std::string_view kHeader = "step,layer,micro_batch,device,rows\n";

class CliLoads : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(place.run({"plan", small_model(), "--imbalance", "1.1", "--out", "plan.json", "--quiet"}).status, 0);
  }
  /// Lines of drawn loads, with the header.
  std::string drawn(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"loads", small_model()};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = place.run(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.out;
  }
  void write(const std::string& text) { std::ofstream(place.path("loads.csv")) << text; }
  Ran run(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"run", "plan.json", "--loads", "loads.csv"});
    return place.run(more);
  }
  Workplace place;
};

TEST_F(CliLoads, DrawnLoadsRunAndSayWhatTheyTook) {
  const std::string lines = drawn({"--steps", "2", "--seed", "5"});
  EXPECT_EQ(lines, drawn({"--steps", "2", "--seed", "5"}));
  EXPECT_EQ(lines.substr(0, kHeader.size()), kHeader);
  write(lines);
  const Ran ran = run({"--format", "json", "--races"});
  ASSERT_EQ(ran.status, 0) << ran.err;  // no routing is too much
  const auto json = testing::parsed(ran.out);
  const std::size_t steps = json["steps"];
  EXPECT_EQ(steps % 2, 0U);
  EXPECT_EQ(json["steps_detail"].size(), steps);
  EXPECT_EQ(json["time_is"], "simulated");
  for (const auto& step : json["steps_detail"]) {
    EXPECT_TRUE(step["refused"].is_null()) << step;
    EXPECT_EQ(step["races"], 0);
    EXPECT_GT(step["step_ms"], 0);
  }
  EXPECT_EQ(json["refused"], 0);
  EXPECT_GT(json["rungs"]["room"], 0);
  EXPECT_EQ(json["rungs"]["chunks"], 0);  // there is much to spare
  EXPECT_EQ(run({"--format", "json", "--races"}).out, ran.out);
  const Ran one = run({"--group-device", "1", "--rank", "0"});
  EXPECT_NE(one.out.find("2 steps with the loads of device 1: 2 device-steps of rank 0"), std::string::npos) << one.out;
}

/// Rows by step, layer and micro-batch of drawn lines, those of `per_device` holders that follow each other added up.
std::map<std::string, std::vector<std::int64_t>> sites_of(const std::string& lines, std::size_t per_device) {
  std::map<std::string, std::vector<std::int64_t>> sites;
  std::map<std::string, std::size_t> holders;
  std::istringstream in(lines);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::string site = line.substr(0, line.rfind(',', line.rfind(',') - 1));
    if (holders[site]++ % per_device == 0) sites[site].push_back(0);
    sites[site].back() += std::stoll(line.substr(line.rfind(',') + 1));
  }
  return sites;
}

/// Experts of the small model: 16 on 4 devices. They run as their devices do.
TEST_F(CliLoads, DrawnExpertsShareTheRowsOfTheirDevices) {
  for (const char* family : {"own", "hotspot", "cold-start"}) {
    const std::string devices = drawn({"--family", family}), experts = drawn({"--family", family, "--by", "expert"});
    EXPECT_EQ(experts.substr(0, experts.find('\n')), "step,layer,micro_batch,expert,rows");
    EXPECT_EQ(sites_of(devices, 1), sites_of(experts, 4)) << family;
    write(devices);
    const std::string played = run({"--format", "json"}).out;
    write(experts);
    EXPECT_EQ(run({"--format", "json"}).out, played) << family;
  }
}

/// Three families, each counted by expert: shares are those of a count of its own.
TEST_F(CliLoads, CapacitiesAreTabledForEachFamily) {
  for (const char* family : {"own", "hotspot", "cold-start"}) {
    const std::string lines = drawn({"--family", family, "--by", "expert"});
    write(lines);
    const Ran ran = place.run({"simulate", small_model(), "--capacity-table", "drop-and-pad", "--imbalance-from",
                               "loads.csv", "--format", "json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto json = testing::parsed(ran.out);
    EXPECT_EQ(json["dropped_is"], "counted");
    ASSERT_EQ(json["lines"].size(), 13U);
    EXPECT_TRUE(json["lines"][0]["capacity_factor"].is_null());
    EXPECT_EQ(json["lines"][0]["dropped_percent"], 0);
    for (std::size_t i = 1; i < 13; ++i) {
      const auto& line = json["lines"][i];
      const bool by_device = line["capacity_level"] == "device";
      const double factor = line["capacity_factor"];
      EXPECT_DOUBLE_EQ(factor, 1 + 0.1 * static_cast<double>((i - 1) % 6));
      EXPECT_EQ(by_device, i >= 7);
      std::int64_t all = 0, dropped = 0;
      for (const auto& [site, rows] : sites_of(lines, by_device ? 4 : 1)) {
        std::int64_t sum = 0;
        for (const std::int64_t one : rows) sum += one;
        const std::int64_t tenths = std::llround(10 * factor), parts = 10 * std::ssize(rows);
        for (const std::int64_t one : rows)
          dropped += std::max<std::int64_t>(0, one - (tenths * sum + parts - 1) / parts);
        all += sum;
      }
      EXPECT_DOUBLE_EQ(line["dropped_percent"], 100 * (static_cast<double>(dropped) / static_cast<double>(all)))
          << family << ", line " << i;
      EXPECT_NEAR(line["most_load"], factor, 0.01);
      EXPECT_GT(line["step_ms"], 0);
    }
    EXPECT_GT(json["lines"][1]["dropped_percent"], 1) << family;
  }
}

TEST_F(CliLoads, CapacitiesAreTabledByTheLoadModel) {
  const Ran ran = place.run({"simulate", small_model(), "--capacity-table", "drop"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("dropless beside drops without padding; loads of expert_load of the job: mean 1, coefficient "
                         "of variation 0.1\n"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("\n    none "), std::string::npos);
  EXPECT_NE(ran.out.find("the share dropped is modelled\n"), std::string::npos);
  write(drawn({}));  // by device
  const Ran bound =
      place.run({"simulate", small_model(), "--capacity-table", "drop-and-pad", "--imbalance-from", "loads.csv"});
  EXPECT_NE(bound.out.find("at least "), std::string::npos) << bound.out;
  for (const auto& [more, what] :
       std::map<std::string, std::string>{{"--ranks=0", "every rank"}, {"--against=published", "drop one"}}) {
    const Ran refused = place.run({"simulate", small_model(), "--capacity-table", "drop", more});
    EXPECT_EQ(refused.status, 2);
    EXPECT_TRUE(is_one_line(refused.err)) << refused.err;
    EXPECT_NE(refused.err.find(what), std::string::npos) << refused.err;
  }
  EXPECT_EQ(place.run({"simulate", small_model(), "--capacity-table", "pad"}).status, 2);
  EXPECT_EQ(place.run({"simulate", "plan.json", "--capacity-table", "drop"}).status, 2);
}

/// A job that pads: its plan holds the capacity, and a trace of any loads adds nothing to it.
TEST_F(CliLoads, PaddedJobsRunAsPlannedAtAnyLoad) {
  std::string model = testing::text_of(small_model());
  const std::string experts = "    experts: 16\n";
  model.insert(model.find(experts), "    capacity_factor: 1.25\n    pad_to_capacity: true\n");
  place.write("padded.yaml", model);
  ASSERT_EQ(place.run({"plan", "padded.yaml", "--out", "plan.json", "--quiet"}).status, 0);
  write(drawn({"--family", "worst-step", "--steps", "1"}));
  const Ran ran = run({"--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto json = testing::parsed(ran.out);
  EXPECT_EQ(json["most_load"], 1.25);
  EXPECT_EQ(json["refused"], 0);
  for (const auto& [rung, count] : json["rungs"].items()) EXPECT_EQ(count, 0) << rung;
  const Ran asked = place.run({"plan", "padded.yaml", "--imbalance", "1.1"});
  EXPECT_EQ(asked.status, 2);
  EXPECT_NE(asked.err.find("--imbalance: rows are padded to the capacity, so every device of this job has 1.25 times"),
            std::string::npos)
      << asked.err;
}

/// Chunks in most steps are a reason to plan for higher loads, which is said.
TEST_F(CliLoads, MostStepsInChunksAreAReasonToPlanAgain) {
  write(drawn({"--family", "worst-step", "--steps", "2"}));
  const std::string advice =
      "sections ran in chunks in 2 of 2 steps; plan for higher loads: `tidemark plan MODEL --imbalance-from "
      "loads.csv`, "
      "or, of a plan from these counts, `--imbalance F` with F above 1\n";
  EXPECT_EQ(run().out.find("--imbalance-from"), std::string::npos);  // there is much to spare
  ASSERT_EQ(
      place.run({"plan", small_model(), "--imbalance", "1.0", "--budget", "4.6GiB", "--out", "plan.json", "-q"}).status,
      0);
  const Ran ran = run();
  EXPECT_NE(ran.out.find(advice), std::string::npos) << ran.out;
}

/// What steps took is said beside the plan's step, in the words and figures of the JSON.
TEST_F(CliLoads, StepsAndTheirLoadsAreTimed) {
  write(drawn({"--family", "worst-step", "--steps", "2"}));
  const auto json = testing::parsed(run({"--format", "json"}).out);
  double sum = 0, worst = 0;
  for (const auto& step : json["steps_detail"]) {
    sum += step["step_ms"].get<double>();
    worst = std::max(worst, step["step_ms"].get<double>());
    EXPECT_NEAR(step["step_ms"].get<double>(), step["loads_ms"].get<double>() + step["added_ms"].get<double>(), 1e-6);
  }
  EXPECT_NEAR(json["step_ms"]["mean"].get<double>(), sum / json["steps"].get<double>(), 1e-6);
  EXPECT_EQ(json["step_ms"]["worst"], worst);
  EXPECT_NEAR(json["step_ms"]["mean"].get<double>(),
              json["loads_ms"]["mean"].get<double>() + json["added_ms"]["mean"].get<double>(), 1e-6);
  EXPECT_GT(json["loads_ms"]["mean"], json["planned_ms"]);
  const Ran text = run();
  const auto shown = [](const nlohmann::ordered_json& ms) {
    return formats::duration_text(std::llround(ms.get<double>() * 1e6));
  };
  EXPECT_NE(text.out.find(fmt::format("steps take {} in the mean, {} at worst (simulated), of which these loads by "
                                      "themselves {} in the mean (modelled);\n",
                                      shown(json["step_ms"]["mean"]), shown(json["step_ms"]["worst"]),
                                      shown(json["loads_ms"]["mean"]))),
            std::string::npos)
      << text.out;
  EXPECT_NE(run({"--rank", "0", "--group-device", "0"}).out.find("2 device-steps of rank 0"), std::string::npos);
  write(drawn({}));
  EXPECT_NE(run({"--group-device", "0"}).out.find("1 step with the loads of device 0: 1 device-step;"),
            std::string::npos);
}

/// At the load it was planned for nothing is above the plan, and the step is the planned one.
TEST_F(CliLoads, PlannedLoadsTakeNothingMore) {
  std::istringstream in(drawn({}));
  std::string text, line;
  std::getline(in, line);
  std::map<std::string, std::int64_t> sums;
  std::map<std::string, std::int64_t> devices;
  while (std::getline(in, line)) {
    const std::size_t device = line.rfind(',', line.rfind(',') - 1);
    const std::string site = line.substr(0, device);
    sums[site] += std::stoll(line.substr(line.rfind(',') + 1));
    ++devices[site];
  }
  text = kHeader;
  for (const auto& [site, sum] : sums)
    for (std::int64_t d = 0; d < devices[site]; ++d) text += fmt::format("{},{},{}\n", site, d, sum / devices[site]);
  write(text);
  const Ran ran = run({"--format", "json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto json = testing::parsed(ran.out);
  EXPECT_EQ(json["refused"], 0);
  for (const auto& [rung, count] : json["rungs"].items()) EXPECT_EQ(count, 0) << rung;
  EXPECT_LE(json["added_ms"]["worst"].get<double>(), 1e-6);
  EXPECT_DOUBLE_EQ(json["most_load"], 1);
}

TEST_F(CliLoads, TheWorstStepIsPriced) {
  const Ran text = place.run({"simulate", "plan.json"});
  EXPECT_NE(text.out.find("Any expert load up to 4 completes. With every layer"), std::string::npos) << text.out;
  const auto worst = testing::parsed(place.run({"simulate", "plan.json", "--format", "json"}).out)["worst_step"];
  EXPECT_EQ(worst["load_f"], 4);
  EXPECT_GT(worst["chunked_ms"], worst["whole_ms"]);
  // There is much to spare, so that all rows find room.
  const auto played = testing::parsed(place.run({"run", "plan.json", "--load", "4", "--format", "json"}).out);
  EXPECT_NEAR(played["step_ms"].get<double>() / worst["whole_ms"].get<double>(), 1, 0.01);
}

/// What `simulate --play` says was seen is what `run` plays.
TEST_F(CliLoads, RungsAreForecastBesideThoseSeen) {
  write(drawn({"--steps", "6", "--seed", "5"}));
  const auto simulate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"simulate", "plan.json", "--loads", "loads.csv"});
    return place.run(more);
  };
  const Ran ran = simulate({"--fit-steps", "4", "--play", "5", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto rungs = testing::parsed(ran.out)["rungs"];
  EXPECT_EQ(rungs["time_is"], "simulated");
  EXPECT_EQ(rungs["drawn_steps"], 8);  // four of each truth
  EXPECT_EQ(rungs["seen_steps"], 2);   // behind those fitted there are no more
  EXPECT_EQ(rungs["refused"], 0);
  std::map<std::int64_t, std::int64_t> room;
  const auto played = testing::parsed(run({"--format", "json"}).out);
  for (const auto& step : played["steps_detail"]) room[step["step"]] += step["rungs"]["room"].get<std::int64_t>();
  for (const auto& step : rungs["steps"]) EXPECT_EQ(step["rungs"]["room"], room.at(step["step"]));
  EXPECT_EQ(rungs["steps"][0]["step"], 4);
  for (const char* rung : {"room", "spill", "chunks"}) EXPECT_LE(rungs[rung]["probability"], 1) << rung;
  EXPECT_EQ(rungs["chunks"]["seen"], 0);  // there is much to spare

  const Ran text = simulate({"--fit-steps", "4", "--play", "5"});
  EXPECT_NE(text.out.find("8 drawn from the fitted model, 2 seen."), std::string::npos) << text.out;
  EXPECT_EQ(simulate({"--fit-steps", "4"}).out, text.out.substr(0, text.out.find("\nSteps that take")));
  EXPECT_EQ(place.run({"simulate", "plan.json", "--play", "5"}).status, 2);
  EXPECT_EQ(simulate({"--play", "-1"}).status, 2);
  // What does not fit is forecast, and cannot be played.
  EXPECT_EQ(place.run({"plan", small_model(), "--imbalance", "1.1", "--budget", "4GiB", "--out", "plan.json"}).status,
            1);
  EXPECT_EQ(simulate({}).status, 0);
  const Ran over = simulate({"--play", "2"});
  EXPECT_EQ(over.status, 1);
  EXPECT_EQ(over.out, "");
  EXPECT_NE(over.err.find("does not fit its budget, so its plan cannot run"), std::string::npos) << over.err;
}

/// The page is written where the trace could be played, and replaces nothing else.
TEST_F(CliLoads, AReportShowsTheSteps) {
  write(drawn({"--steps", "3", "--seed", "5"}));
  const Ran plain = run({"--format", "json"});
  const Ran ran = run({"--format", "json", "--report", "loads.html"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, plain.out);
  EXPECT_NE(ran.err.find("wrote loads.html"), std::string::npos) << ran.err;
  const std::string page = place.read("loads.html");
  for (const char* word : {"Expert load", "Step time", "Device memory", "Rung chunks", "imulated", "OK"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
  EXPECT_EQ(page.find("http"), std::string::npos) << "needs nothing but itself";
  EXPECT_EQ(page.find("nan"), std::string::npos);
  const auto json = testing::parsed(ran.out);
  for (const auto& step : json["steps_detail"]) EXPECT_GT(step["peak_bytes"], step["beside_bytes"]);

  EXPECT_EQ(run({"--report", "loads.csv"}).status, 2) << "an input";
  EXPECT_EQ(place.run({"run", "plan.json", "--report", "other.html"}).status, 2) << "there is no trace";
  write("rows\n1\n");
  EXPECT_EQ(run({"--report", "other.html"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(place.path("other.html")));
}

TEST_F(CliLoads, WhatIsWrongWithAFileIsNamedByLine) {
  const std::string lines = drawn({});
  const std::size_t first = lines.find('\n', kHeader.size());
  const std::string line = lines.substr(kHeader.size(), first - kHeader.size());
  const std::string rest = lines.substr(first + 1);
  const auto complaint = [&](const std::string& text) {
    write(text);
    const Ran ran = run();
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    return ran.err;
  };
  const std::string head(kHeader);
  EXPECT_NE(complaint("").find("loads.csv:1: the file is empty"), std::string::npos);
  EXPECT_NE(complaint("rows\n1\n").find("loads.csv:1: the first line is 'rows'"), std::string::npos);
  EXPECT_NE(complaint(head + rest).find("loads.csv:2: step 0 goes on here without layer "), std::string::npos);
  EXPECT_NE(
      complaint(lines.substr(0, lines.rfind('\n', lines.size() - 2) + 1)).find(": step 0 ends here without layer "),
      std::string::npos);
  EXPECT_NE(
      complaint(head + line + "\n1" + line.substr(1) + "\n" + rest).find("loads.csv:4: step 0 stands behind step 1"),
      std::string::npos);
  EXPECT_NE(complaint(head + line + "\n" + line + "\n" + rest).find("loads.csv:3: layer "), std::string::npos);
  EXPECT_NE(complaint(head + "0,0,0,0,-1\n" + rest).find("loads.csv:2: rows is '-1'"), std::string::npos);
  EXPECT_NE(complaint(head + line.substr(0, line.rfind(',')) + ",99999999\n" + rest).find("loads.csv:2: 99999999 rows"),
            std::string::npos);
  EXPECT_NE(complaint(lines + "0,1000,0,0,5\n").find("layer 1000 has no experts in this job"), std::string::npos);
  EXPECT_NE(complaint(lines + "0,3,100000,0,5\n").find(": "), std::string::npos);
  EXPECT_NE(complaint(lines + line.substr(0, line.rfind(',', line.rfind(',') - 1)) + ",99,5\n").find("device 99"),
            std::string::npos);
  EXPECT_NE(complaint(head + "1,3,0,0,5\n0,3,0,0,5\n").find("loads.csv:3: step 0 stands behind step 1"),
            std::string::npos);
}

/// A job that drops nothing routes all its rows, on whichever devices.
TEST_F(CliLoads, RowsThatAreNotAllThereAreRefused) {
  std::istringstream in(drawn({}));
  std::string line, halved(kHeader), none(kHeader);
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::size_t rows = line.rfind(',') + 1;
    halved += line.substr(0, rows) + std::to_string(std::stoll(line.substr(rows)) / 2) + "\n";
    none += line.substr(0, rows) + "0\n";
  }
  for (const std::string& text : {halved, none}) {
    write(text);
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"run", "plan.json", "--loads", "loads.csv", "--report", "page.html"},
                                               {"simulate", "plan.json", "--loads", "loads.csv"}}) {
      const Ran ran = place.run(words);
      EXPECT_EQ(ran.status, 2) << ran.out;
      EXPECT_EQ(ran.out, "");
      EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
      EXPECT_NE(ran.err.find(" rows on all devices together; the job routes "), std::string::npos) << ran.err;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(place.path("page.html")));
  write("\xef\xbb\xbf" + drawn({}));
  EXPECT_EQ(run().status, 0) << "a byte order mark";
}

/// `simulate --loads`: what the first steps say of the others, beside what these show.
TEST_F(CliLoads, SlotsAreHeldAgainstTheTrace) {
  write(drawn({"--family", "persistent", "--steps", "24", "--seed", "2"}));
  const std::vector<std::string> words = {"simulate",    "plan.json", "--loads",  "loads.csv",
                                          "--fit-steps", "8",         "--format", "json"};
  const Ran ran = place.run(words);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(place.run(words).out, ran.out);
  const auto json = testing::parsed(ran.out);
  EXPECT_EQ(json["model"]["steps"], 8);
  EXPECT_EQ(json["steps_seen"], 16);
  EXPECT_EQ(json["seen_behind_fit"], true);
  EXPECT_TRUE(json["model"]["missing"].is_null());
  EXPECT_GT(json["model"]["variance"]["popularity"], json["model"]["variance"]["site"]);
  ASSERT_FALSE(json["ranks"].empty());
  for (const auto& rank : json["ranks"]) {
    EXPECT_NEAR(rank["least_room"].get<double>(), 1.1, 1e-3);
    EXPECT_GE(rank["device_steps_at_most"], rank["device_steps_above"]["seen_interval"][1]);
    for (const char* key : {"device_steps_above", "sites_above"}) {
      const auto& share = rank[key];
      EXPECT_LE(share["probability_interval"][0], share["probability"]);
      EXPECT_GE(share["probability_interval"][1], share["probability"]);
      // With 0.20 by layer, three sites of ten are above 1.1.
      EXPECT_GT(share["seen"], 0.05);
      EXPECT_NEAR(share["seen"].get<double>(), share["probability"].get<double>(), 0.2);
      EXPECT_EQ(share["held"].get<bool>(),
                share["seen"] >= share["seen_interval"][0] && share["seen"] <= share["seen_interval"][1]);
    }
  }
  // What was counted is what the runtime would make room for.
  const Ran run_one = run({"--format", "json", "--rank", "0", "--group-device", "1"});
  const Ran all_fitted = place.run({"simulate", "plan.json", "--loads", "loads.csv", "--fit-steps", "100",
                                    "--group-device", "1", "--format", "json"});
  std::int64_t with_room = 0, steps = 0;
  const auto played = testing::parsed(run_one.out);
  for (const auto& step : played["steps_detail"]) {
    with_room += step["rungs"]["room"] > 0 || step["rungs"]["chunks"] > 0 ? 1 : 0;
    ++steps;
  }
  const auto same = testing::parsed(all_fitted.out);
  EXPECT_EQ(same["seen_behind_fit"], false);
  EXPECT_EQ(same["device_steps"], steps);
  EXPECT_NEAR(same["ranks"][0]["device_steps_above"]["seen"].get<double>() * static_cast<double>(steps),
              static_cast<double>(with_room), 1e-9);
  const Ran text = place.run({"simulate", "plan.json", "--loads", "loads.csv", "--fit-steps", "1"});
  EXPECT_NE(text.out.find("one step: the drift of popularity is missing"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("shares seen lie above what the model said, "), std::string::npos) << text.out;
}

TEST_F(CliLoads, BadTracesAndOptionsOfSimulate) {
  const std::string lines = drawn({});
  const auto complaint = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"simulate"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = place.run(words);
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    return ran.err;
  };
  write(lines + "0,1000,0,0,5\n");
  EXPECT_NE(complaint({"plan.json", "--loads", "loads.csv"}).find("layer 1000 has no experts in this job"),
            std::string::npos);
  write(lines.substr(0, lines.rfind('\n', lines.size() - 2) + 1));
  EXPECT_NE(complaint({"plan.json", "--loads", "loads.csv"}).find(": step 0 ends here without layer "),
            std::string::npos);
  write(lines);
  EXPECT_NE(complaint({"plan.json", "--loads", "absent.csv"}).find("absent.csv: cannot read"), std::string::npos);
  EXPECT_NE(complaint({"plan.json", "--loads", "loads.csv", "--fit-steps", "0"}).find("--fit-steps"),
            std::string::npos);
  EXPECT_NE(complaint({"plan.json", "--loads", "loads.csv", "--group-device", "99"}).find("--group-device: '99' is"),
            std::string::npos);
  EXPECT_NE(complaint({"plan.json", "--fit-steps", "3"}).find("only --loads reads a trace"), std::string::npos);
  EXPECT_NE(complaint({small_model(), "--loads", "loads.csv"}).find("slots of a plan.json"), std::string::npos);
}

/// Counts of several steps reach the plan in three parts.
TEST_F(CliLoads, MeasuredStepsAreFittedInThreeParts) {
  write(drawn({"--family", "persistent", "--steps", "6"}));
  const Ran ran = place.run({"plan", small_model(), "--imbalance-from", "loads.csv", "--out", "fitted.json"});
  EXPECT_NE(ran.err.find("loads.csv: 6 steps, "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("loads vary by popularity 0.1"), std::string::npos) << ran.err;
  const std::string plan = place.read("fitted.json");
  const std::size_t at = plan.find("\"popularity_share\":0.");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::stod(plan.substr(at + 19)), 0.5);
}

TEST_F(CliLoads, BadOptionsAreOneLine) {
  write(drawn({}));
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--group-device", "x"},
                                                                                     {"--group-device", "4096"},
                                                                                     {"--load", "1.2"},
                                                                                     {"--verify"},
                                                                                     {"--scale", "1/2"},
                                                                                     {"--seed", "3"},
                                                                                     {"--rank", "77"},
                                                                                     {"--device", "host"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.status, 2) << words.back() << ran.err;
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--family", "warm"}, {"--steps", "0"}, {"--steps", "x"}}) {
    std::vector<std::string> all = {"loads", small_model()};
    all.insert(all.end(), words.begin(), words.end());
    const Ran ran = place.run(all);
    EXPECT_EQ(ran.status, 2) << words.back() << ran.err;
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  }
  for (const std::string file : {"absent.csv", ".", "/dev/null"}) {
    const Ran ran = place.run({"run", "plan.json", "--loads", file});
    EXPECT_EQ(ran.status, 2) << file;
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    EXPECT_NE(ran.err.find(file + ": "), std::string::npos) << ran.err;
  }
  EXPECT_EQ(place.run({"run", "plan.json", "--group-device", "1"}).status, 2);
  const Ran dense = place.run({"loads", testing::source_path("models/llama-3-70b.yaml").string()});
  EXPECT_EQ(dense.status, 2);
  EXPECT_NE(dense.err.find("no layer with experts"), std::string::npos) << dense.err;
}

}  // namespace
}  // namespace tidemark
