// Files of measured runs: what is read of them, what is refused in one line, and how the score is printed.

#include "integrations/formats/truth_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "integrations/formats/accuracy_report.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"

namespace tidemark::testing {
namespace {

using estimate::Accelerator;
using estimate::Argument;
using estimate::Framework;
using estimate::MeasuredRun;
using nlohmann::json;

std::vector<MeasuredRun> read(const std::string& text) {
  const Result<std::vector<MeasuredRun>> runs = formats::read_truth(text, "runs.json");
  EXPECT_TRUE(runs.ok()) << runs.error().message;
  return runs.ok() ? runs.value() : std::vector<MeasuredRun>{};
}

std::vector<MeasuredRun> own_runs() {
  return read(text_of(source_path("tests/data/measured_runs.json")));
}

const Argument* find(const std::vector<Argument>& arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments, name, &Argument::name);
  return found == arguments.end() ? nullptr : &*found;
}

TEST(Truth, RowsOfMegatronCarryArgumentsHardwareAndMemory) {
  const std::vector<MeasuredRun> runs = own_runs();
  ASSERT_EQ(runs.size(), 6U);
  const MeasuredRun& run = runs[0];
  EXPECT_EQ(run.suite, "gpt");
  EXPECT_EQ(run.name, "small");
  EXPECT_EQ(run.variant, "dev_dgx_h100");
  EXPECT_EQ(run.hints.platform.framework, Framework::megatron_lm);
  EXPECT_EQ(run.hints.platform.accelerator, Accelerator::h100);
  EXPECT_EQ(run.hints.platform.devices, 0);  // null: not stated
  EXPECT_EQ(run.iterations, 50);
  ASSERT_EQ(run.ranks.size(), 1U);
  EXPECT_FALSE(run.ranks[0].rank.has_value());
  EXPECT_EQ(run.ranks[0].steady_bytes, 1190.0 * kMiB);
  EXPECT_EQ(run.ranks[0].peak_bytes, 5000.0 * kMiB);
  const auto& arguments = run.arguments.arguments;
  ASSERT_NE(find(arguments, "num-layers"), nullptr);
  EXPECT_EQ(find(arguments, "num-layers")->value, "12");
  EXPECT_EQ(find(arguments, "num-layers")->place, "/rows/0/args/num-layers");
  EXPECT_TRUE(find(arguments, "bf16")->is_switch);
  EXPECT_EQ(find(arguments, "use-distributed-optimizer"), nullptr);  // false: not given
  EXPECT_EQ(find(run.arguments.environment, "CUBLAS_WORKSPACE_CONFIG")->value, ":4096:8");
  EXPECT_NE(find(runs[1].arguments.arguments, "num-layers"), nullptr);  // underscores are dashes
}

TEST(Truth, TheVariantNamesHardwareAndSoftware) {
  const auto platform = [](const std::string& variant) {
    return read(json{{"rows", {{{"case", "x"}, {"variant", variant}, {"args", {{"bf16", true}}}}}}}.dump())
        .at(0)
        .hints.platform;
  };
  EXPECT_EQ(platform("dev_dgx_gb200").accelerator, Accelerator::gb200);
  EXPECT_EQ(platform("dev_dgx_a100").accelerator, Accelerator::a100);
  EXPECT_EQ(platform("dev").accelerator, Accelerator::a100);
  EXPECT_FALSE(platform("dev_dgx_h100").lts);
  EXPECT_TRUE(platform("lts_dgx_a100").lts);
  EXPECT_TRUE(platform("dev_dgxa100_dracooci-ord").legacy_attention);
  EXPECT_TRUE(platform("dev_dgx_h100_2nd").resumed);
  EXPECT_FALSE(platform("dev_dgx_h100").resumed);
}

TEST(Truth, OneSuiteIsAModelOfItsOwn) {
  const auto runs = read(R"({"rows": [{"suite": "bert", "case": "x", "args": {"bf16": true}}, {"suite": "gpt"}]})");
  EXPECT_TRUE(runs[0].hints.bert);
  EXPECT_FALSE(runs[1].hints.bert);
}

TEST(Truth, RowsOfMindSpeedCarryARankEach) {
  const MeasuredRun run = own_runs()[5];
  EXPECT_EQ(run.suite, "st");
  EXPECT_EQ(run.hints.platform.framework, Framework::mindspeed_llm);
  EXPECT_EQ(run.hints.platform.accelerator, Accelerator::ascend);
  EXPECT_EQ(run.hints.platform.devices, 8);
  ASSERT_EQ(run.ranks.size(), 2U);
  EXPECT_EQ(run.ranks[1].rank, 4);
  EXPECT_EQ(run.ranks[1].steady_bytes, 3110.0 * kMiB);
  EXPECT_EQ(run.ranks[1].peak_bytes, 3360.0 * kMiB);
  EXPECT_EQ(own_runs()[4].unusable, "no arguments are stored");
}

TEST(Truth, IterationsComeFromTheSeriesWhereNoMemberSaysThem) {
  EXPECT_EQ(own_runs()[2].iterations, 2);
  EXPECT_FALSE(read(R"({"rows": [{"args": {"bf16": true}}]})")[0].iterations.has_value());
}

TEST(Truth, WholeNumbersMayBeWrittenAsRealsAndZeroBytesWereNotMeasured) {
  const auto runs =
      read(R"({"rows": [{"gpus": 16.0, "iters": 50.0, "mem_peak_bytes_final": 0, "args": {"bf16": true}}]})");
  EXPECT_EQ(runs[0].hints.platform.devices, 16);
  EXPECT_EQ(runs[0].iterations, 50);
  EXPECT_FALSE(runs[0].ranks[0].peak_bytes.has_value());
}

TEST(Truth, ListsNumbersAndTextsAreJoinedAsOnACommandLine) {
  const auto runs = read(R"({"rows": [{"args": {"a": [1, "two", 3.5], "b": 1e-05, "c": "x y", "d": null}}]})");
  const auto& arguments = runs[0].arguments.arguments;
  EXPECT_EQ(find(arguments, "a")->value, "1 two 3.5");
  EXPECT_EQ(find(arguments, "b")->value, "1e-05");
  EXPECT_EQ(find(arguments, "c")->value, "x y");
  EXPECT_EQ(find(arguments, "d"), nullptr);
}

// Whatever members a row lacks, it is kept with what it has, and the score says why it has no figures.
TEST(Truth, RowsThatLackMembersAreRefusedNotDropped) {
  const json whole = parsed(text_of(source_path("tests/data/measured_runs.json")));
  for (const std::size_t row : {0U, 5U}) {
    for (const auto& [key, value] : whole["rows"][row].items()) {
      for (const bool null : {false, true}) {
        json cut = {{"rows", {whole["rows"][row]}}};
        if (null)
          cut["rows"][0][key] = nullptr;
        else
          cut["rows"][0].erase(key);
        const std::vector<MeasuredRun> runs = read(cut.dump());
        ASSERT_EQ(runs.size(), 1U) << key;
        for (const estimate::ScoredRank& at : estimate::score_runs(runs, {}))
          EXPECT_NE(at.predicted.has_value(), !at.refused.empty()) << key;
      }
    }
    for (const auto& [key, value] : whole["rows"][row]["args"].items()) {
      json cut = {{"rows", {whole["rows"][row]}}};
      cut["rows"][0]["args"].erase(key);
      const std::vector<estimate::ScoredRank> ranks = estimate::score_runs(read(cut.dump()), {});
      for (const estimate::ScoredRank& at : ranks) EXPECT_NE(at.predicted.has_value(), !at.refused.empty()) << key;
    }
  }
}

struct BadTruth {
  std::string name, text, message;
};

std::ostream& operator<<(std::ostream& out, const BadTruth& bad) {
  return out << bad.name;
}

class BadTruthTest : public ::testing::TestWithParam<BadTruth> {};

TEST_P(BadTruthTest, IsRefusedInOneLine) {
  const Result<std::vector<MeasuredRun>> runs = formats::read_truth(GetParam().text, "runs.json");
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().code, Error::Code::bad_input);
  EXPECT_EQ(runs.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(runs.error().message.starts_with("runs.json:")) << runs.error().message;
  EXPECT_NE(runs.error().message.find(GetParam().message), std::string::npos) << runs.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadTruthTest,
    ::testing::Values(
        BadTruth{"Empty", "", "runs.json:1:1: the text ends in the middle of the rows"},
        BadTruth{"NoJson", "rows:\n - 1\n", "runs.json:1:1: not valid JSON here"},
        BadTruth{"Cut", R"({"rows": [{"case": "x")", "is the file cut short?"},
        BadTruth{"NoRows", R"({"row": []})", "/: has no member 'rows'"},
        BadTruth{"NoObject", "[1]", "must be an object with a member 'rows'"},
        BadTruth{"RowsNoList", R"({"rows": {}})", "/rows: must be a list"},
        BadTruth{"RowNoObject", R"({"rows": [{}, 7]})", "/rows/1: must be an object"},
        BadTruth{"CaseNoText", R"({"rows": [{"case": 3}]})", "/rows/0/case: must be a text"},
        BadTruth{"ArgumentsNoObject", R"({"rows": [{"args": ["--bf16"]}]})", "/rows/0/args: must be an object"},
        BadTruth{"NestedArgument", R"({"rows": [{"args": {"a": {"b": 1}}}]})",
                 "/rows/0/args/a: must be a text, a number"},
        BadTruth{"NestedList", R"({"rows": [{"args": {"a": [[1]]}}]})", "/rows/0/args/a: must be a text, a number"},
        BadTruth{"EnvironmentNoObject", R"({"rows": [{"env": 1}]})", "/rows/0/env: must be an object"},
        BadTruth{"Devices", R"({"rows": [{"gpus": -8}]})", "/rows/0/gpus: must be a whole number from 1"},
        BadTruth{"DevicesAsReal", R"({"rows": [{"gpus": -8.0}]})", "/rows/0/gpus: must be a whole number from 1"},
        BadTruth{"DevicesText", R"({"rows": [{"gpus": "8"}]})", "/rows/0/gpus: must be a whole number"},
        BadTruth{"Memory", R"({"rows": [{"mem_peak_bytes_final": -1}]})",
                 "/rows/0/mem_peak_bytes_final: is -1; it must be at least 0"},
        BadTruth{"MemoryText", R"({"rows": [{"mem_peak_bytes_final": "1GiB"}]})", "must be a number"},
        BadTruth{"HugeMemory", R"({"rows": [{"mem_allocated_end_bytes": 1e300}]})", "at most"},
        BadTruth{"Iterations", R"({"rows": [{"iters": 1.5}]})", "/rows/0/iters: must be a whole number"},
        BadTruth{"RanksNoList", R"({"rows": [{"ranks": 1}]})", "/rows/0/ranks: must be a list"},
        BadTruth{"RankNoObject", R"({"rows": [{"ranks": [1]}]})", "/rows/0/ranks/0: must be an object"},
        BadTruth{"RankNumber", R"({"rows": [{"ranks": [{"rank": -1}]}]})",
                 "/rows/0/ranks/0/rank: must be a whole number from 0"},
        BadTruth{"HugeNumber", R"({"rows": [{"iters": 1e999}]})", "runs.json:1:25: a number in the file is too large"}),
    [](const auto& test) { return test.param.name; });

// The members outsiders script against, spelt out.
TEST(AccuracyJson, HasTheMembersThatAreAContract) {
  const std::vector<MeasuredRun> runs = own_runs();
  const std::vector<estimate::ScoredRank> ranks = estimate::score_runs(runs, {.rival = true});
  const json answer = parsed(formats::accuracy_json({.what = "runs.json", .runs = runs, .ranks = ranks}));
  ASSERT_EQ(answer["rows"].size(), 7U);
  for (const json& row : answer["rows"]) {
    for (const char* member :
         {"case", "variant", "rank", "predicted_steady_bytes", "measured_steady_bytes", "predicted_peak_bytes",
          "measured_peak_bytes", "refused", "suite", "in_summary", "calibrates", "checked_peak_bytes", "band_percent"})
      EXPECT_TRUE(row.contains(member)) << member;
    const bool predicted = row["refused"].is_null();
    EXPECT_EQ(row["predicted_steady_bytes"].is_number_integer(), predicted);
    EXPECT_EQ(row["predicted_peak_bytes"].is_number_integer(), predicted);
    EXPECT_NE(row["refused"].is_string(), predicted);
    EXPECT_TRUE(row["measured_peak_bytes"].is_number_integer());
  }
  EXPECT_EQ(answer["rows"][0]["case"], "small");
  EXPECT_EQ(answer["rows"][0]["rank"], 7);
  EXPECT_EQ(answer["rows"][0]["measured_steady_bytes"], 1190 * kMiB);
  EXPECT_TRUE(answer["rows"][6]["variant"].is_null());
  EXPECT_EQ(answer["rows"][6]["rank"], 4);
  const json& summary = answer["summary"];
  for (const char* kind : {"steady", "peak"}) {
    EXPECT_EQ(summary[kind]["count"], 4);
    for (const char* member : {"median_percent", "p90_percent", "worst_percent"})
      EXPECT_TRUE(summary[kind][member].is_number()) << member;
    EXPECT_LE(summary[kind]["median_percent"], summary[kind]["p90_percent"]);
    EXPECT_LE(summary[kind]["p90_percent"], summary[kind]["worst_percent"]);
  }
  EXPECT_EQ(summary["refused"], 2);
  EXPECT_EQ(answer["suites"]["gpt"]["peak"]["count"], 2);
  EXPECT_TRUE(answer["suites"]["vision"]["peak"]["median_percent"].is_null());
  EXPECT_EQ(summary["megatron_formula"]["peak"]["count"], 4);
}

TEST(AccuracyText, ListsRanksRefusalsAndSuites) {
  const std::vector<MeasuredRun> runs = own_runs();
  const std::vector<estimate::ScoredRank> ranks = estimate::score_runs(runs, {});
  const std::string text = formats::accuracy_text({.what = "runs.json", .runs = runs, .ranks = ranks});
  for (const char* line :
       {"small dev_dgx_h100", "not in the summary", "refused without arguments: no arguments are stored",
        "refused unusual dev_dgx_h100: ", "band of check, CUDA, dense: ", "  all ", "  st "})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

// ---- the reference data ---------------------------------------------------------------------------------------------

struct Target {
  const char* file;
  double steady_median, steady_p90, peak_median, peak_p90;
  double refused_share;  ///< of the runs
};

class ReferenceTruthTest : public ::testing::TestWithParam<Target> {};

TEST_P(ReferenceTruthTest, MeetsTheTargetsAndTheBands) {
  const Target& target = GetParam();
  const auto path = data_path(fmt::format("truth/{}", target.file));
  if (!path) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
  const std::vector<MeasuredRun> runs = read(text_of(*path));
  const estimate::AccuracySummary summary = estimate::summarize(runs, estimate::score_runs(runs, {}));
  EXPECT_GT(summary.peak.count, 100U);
  EXPECT_LE(summary.steady.median_percent, target.steady_median);
  EXPECT_LE(summary.steady.p90_percent, target.steady_p90);
  EXPECT_LE(summary.peak.median_percent, target.peak_median);
  EXPECT_LE(summary.peak.p90_percent, target.peak_p90);
  EXPECT_LE(static_cast<double>(summary.refused_runs), target.refused_share * static_cast<double>(summary.runs));
  for (const estimate::BandFigures& at : summary.bands)
    EXPECT_LE(100.0 * static_cast<double>(at.exceeded), at.band->share_percent * static_cast<double>(at.count))
        << at.band->name;
  const std::vector<estimate::ScoredRank> calibrated = estimate::score_runs(runs, {.calibrate_per_model = true});
  EXPECT_LE(estimate::summarize(runs, calibrated).peak.median_percent, 3);
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceTruthTest,
                         ::testing::Values(Target{"megatron_lm_ci_memory.dev.json", 1, 6, 8, 20, 0.1},
                                           Target{"mindspeed_llm_ascend_ci_memory.dev.json", 1, 4, 8, 20, 1.0 / 3}),
                         [](const auto& test) {
                           return std::string(test.param.file).substr(0, 4) == "mega" ? "Megatron" : "MindSpeed";
                         });

TEST(TruthLimits, RowsAreCountedBeforeTheyAreRead) {
  std::string text = "{\"rows\": [{}";
  for (int i = 0; i < 50'000; ++i) text += ",{}";
  const auto runs = formats::read_truth(text + "]}", "f");
  ASSERT_FALSE(runs.ok());
  EXPECT_EQ(runs.error().message, "f: /rows: holds more than 50000 rows; give fewer");
}

}  // namespace
}  // namespace tidemark::testing
