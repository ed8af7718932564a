// Measured memory on the command line: scores, verdicts with an error band, and corrections that come back.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using nlohmann::json;

constexpr const char* kArguments =
    "num-layers: 12\nhidden-size: 512\nnum-attention-heads: 8\nseq-length: 1024\nmax-position-embeddings: 1024\n"
    "micro-batch-size: 4\nglobal-batch-size: 32\nbf16: true\nattention-backend: unfused\n";

class Measured : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("run.yaml", kArguments);
    place.write("runs.json", text_of(source_path("tests/data/measured_runs.json")));
  }

  [[nodiscard]] json answer(std::vector<std::string> words, int status = 0) const {
    words.insert(words.end(), {"--format", "json"});
    const Ran ran = place.run(words);
    EXPECT_EQ(ran.status, status) << ran.err;
    return parsed(ran.out);
  }

  [[nodiscard]] double peak_of(const json& answered) const {
    return answered.at("stages").at(0).at("running_peak_bytes").get<double>();
  }

  const std::vector<std::string> estimate = {"estimate", "--megatron-args", "run.yaml", "--world-size", "8"};
  const std::vector<std::string> check = {"check", "--megatron-args", "run.yaml", "--world-size", "8"};
  Workplace place;
};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Measured, RunsAreScored) {
  const json score = answer({"estimate", "--truth", "runs.json", "--rival"});
  EXPECT_EQ(score["summary"]["peak"]["count"], 4);
  EXPECT_EQ(score["summary"]["refused"], 2);
  EXPECT_EQ(score["rows"].size(), 7U);
  const Ran text = place.run({"estimate", "--truth", "runs.json"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("refused without arguments: no arguments are stored"), std::string::npos);
  EXPECT_EQ(place.run({"estimate", "--truth", "runs.json"}).out, text.out);
}

TEST_F(Measured, TermsOfAStageAddUpToItsFigures) {
  const json stage = answer(estimate).at("stages").at(0);
  double steady = 0, peak = 0;
  for (const json& term : stage.at("terms")) {
    (term.at("when") == "steady" ? steady : peak) += term.at("bytes").get<double>();
    EXPECT_FALSE(term.at("source").get<std::string>().empty()) << term;
  }
  EXPECT_NEAR(steady, stage.at("steady_bytes").get<double>(), 64);
  EXPECT_NEAR(steady + peak, stage.at("peak_bytes").get<double>(), 64);
}

TEST_F(Measured, TheAcceleratorTakenIsNamed) {
  const Ran assumed = place.run(estimate);
  EXPECT_NE(assumed.out.find("modelled on H100, 8 devices\n"), std::string::npos) << assumed.out;
  EXPECT_NE(assumed.err.find("accelerator taken as H100, which nothing says; --accelerator or --device would say"),
            std::string::npos)
      << assumed.err;
  const json other = answer(with(estimate, {"--accelerator", "ascend"}));
  EXPECT_EQ(other.at("accelerator"), "Ascend");
  EXPECT_EQ(other.at("world_size"), 8);
  EXPECT_NE(peak_of(other), peak_of(answer(estimate)));
  const Ran verdict = place.run(with(check, {"--accelerator", "a100", "--budget", "8GiB", "--explain"}));
  EXPECT_NE(verdict.out.find("run.yaml on A100"), std::string::npos) << verdict.out;
  EXPECT_EQ(verdict.err.find("accelerator"), std::string::npos) << verdict.err;
  expect_refused(place, with(estimate, {"--accelerator", "h10"}), "unknown accelerator 'h10'.*did you mean 'h100'");
}

TEST_F(Measured, LinesLeftOutAreAnErrorWhereAskedFor) {
  place.write("run.sh",
              "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 512 --num-attention-heads 8 "
              "--seq-length 64 --micro-batch-size 1 --fp32-residual-connection --bf16 $MORE\n");
  const Ran lax = place.run({"estimate", "--megatron-args", "run.sh"});
  EXPECT_EQ(lax.status, 0) << lax.err;
  EXPECT_EQ(lax.err.find("did you mean"), std::string::npos) << lax.err;
  expect_refused(place, {"estimate", "--megatron-args", "run.sh", "--strict"},
                 "nothing in the file says what .* holds; it is left out");
}

TEST_F(Measured, AVerdictHoldsTheBandAgainstTheBudget) {
  const auto judged = [&](const std::string& budget, int status) {
    return answer(with(check, {"--budget", budget, "--margin", "0%"}), status)["jobs"][0];
  };
  const json pass = judged("1TiB", 0);
  EXPECT_EQ(pass["verdict"], "PASS");
  const json& finding = pass["findings"][0];
  const auto peak = finding["bytes"].get<std::int64_t>(), band = finding["band_bytes"].get<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(band), pass["band_percent"].get<double>() / 100 * static_cast<double>(peak), 1);
  EXPECT_GE(static_cast<double>(peak) + 1, peak_of(answer(estimate)));
  const auto at = [&](std::int64_t budget, int status) {
    return judged(std::to_string(budget) + "B", status)["verdict"];
  };
  EXPECT_EQ(at(peak + band, 0), "PASS");
  EXPECT_EQ(at(peak + band - 1, 0), "NEAR");
  EXPECT_EQ(at(peak, 0), "NEAR");
  EXPECT_EQ(at(peak - 1, 1), "FAIL");
  const Ran text = place.run(with(check, {"--budget", "1KiB"}));
  EXPECT_EQ(text.status, 1);
  EXPECT_TRUE(text.out.starts_with("FAIL rank 0: estimated peak ")) << text.out;
  EXPECT_NE(text.out.find("error band 6 %, CUDA, dense: "), std::string::npos) << text.out;
}

// What was measured beside the prediction comes back in the next one.
TEST_F(Measured, ACorrectionComesBack) {
  const json before = answer(estimate).at("stages").at(0);
  const double steady = before.at("steady_bytes").get<double>() + 300e6;
  const double peak = before.at("peak_bytes").get<double>() * 1.2;
  place.write("memory.csv", "rank,allocated_mib,max_allocated_mib\n7," + std::to_string(steady / 1048576) + "," +
                                std::to_string(peak / 1048576) + "\n");
  const Ran calibrate = place.run({"calibrate", "--megatron-args", "run.yaml", "--world-size", "8", "--measured",
                                   "memory.csv", "--out", "mine.json"});
  ASSERT_EQ(calibrate.status, 0) << calibrate.err;
  EXPECT_NE(calibrate.out.find("corrects: memory between steps x 1.0000 + "), std::string::npos) << calibrate.out;
  const json after = answer(with(estimate, {"--calibration", "mine.json"}));
  EXPECT_NEAR(after.at("stages").at(0).at("steady_bytes").get<double>(), steady, 16);
  EXPECT_NEAR(after.at("stages").at(0).at("peak_bytes").get<double>(), peak, 16);
  EXPECT_NE(after.at("notes").dump().find("calibrated by mine.json"), std::string::npos);
  const auto checked = [&](const std::vector<std::string>& more) {
    return answer(with(with(check, {"--budget", "1TiB"}), more))["jobs"][0]["findings"][0]["bytes"].get<double>();
  };
  EXPECT_GT(checked({"--calibration", "mine.json"}), checked({}));
  // Of another model it corrects nothing, and says so.
  place.write("run.yaml", std::string(kArguments) + "ffn-hidden-size: 4096\n");
  const json other = answer(with(estimate, {"--calibration", "mine.json"}));
  EXPECT_EQ(other.at("stages"), answer(estimate).at("stages"));
  EXPECT_NE(other.at("notes").dump().find("not corrected"), std::string::npos);
}

TEST_F(Measured, ARowOfMeasuredRunsCorrectsItsModel) {
  ASSERT_EQ(place
                .run({"calibrate", "--truth", "runs.json", "--case", "small", "--variant", "dev_dgx_h100", "--out",
                      "mine.json"})
                .status,
            0);
  const json score = answer({"estimate", "--truth", "runs.json", "--calibration", "mine.json"});
  const auto error = [&](std::size_t row, const char* kind) {
    const json& at = score["rows"][row];
    return std::abs(at[std::string("predicted_") + kind + "_bytes"].get<double>() /
                        at[std::string("measured_") + kind + "_bytes"].get<double>() -
                    1);
  };
  EXPECT_LT(error(0, "steady"), 1e-6);
  EXPECT_LT(error(0, "peak"), 1e-6);
  const json plain = answer({"estimate", "--truth", "runs.json"});
  EXPECT_EQ(score["rows"][5], plain["rows"][5]);  // another model
}

// A profile that began between two steps: what was live before its first row is what a rank holds between steps.
TEST_F(Measured, AProfileOfMemoryCorrects) {
  place.write("operator_memory.csv",
              "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB)\n"
              "first,1024,10.0\t,90.0\t,1301\nlarge,3145728,20.0\t,80.0\t,4373\n");
  const Ran calibrate = place.run({"calibrate", "--megatron-args", "run.yaml", "--world-size", "8", "--operator-memory",
                                   "operator_memory.csv", "--rank", "3", "--out", "mine.json"});
  ASSERT_EQ(calibrate.status, 0) << calibrate.err;
  const json stage = answer(with(estimate, {"--calibration", "mine.json"})).at("stages").at(0);
  EXPECT_NEAR(stage.at("steady_bytes").get<double>(), 1300.0 * 1048576, 16);
  EXPECT_NEAR(stage.at("running_peak_bytes").get<double>(), 4373.0 * 1048576, 16);
}

TEST_F(Measured, ASnapshotOfAnotherRunIsRefused) {
  const auto snapshot = data_path("snapshots/snapshot_expandable.pkl");
  if (!snapshot) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
  expect_refused(place,
                 {"calibrate", "--megatron-args", "run.yaml", "--world-size", "8", "--snapshot", snapshot->string(),
                  "--out", "mine.json"},
                 "rank 7 measured 9[0-9.]+ MiB between steps where 1.17 GiB are predicted: too far apart");
}

TEST_F(Measured, TimesAndLinksReachThePlan) {
  place.write("steps.csv", "Step,Computing,Free\n1,90000,1\n2,110000,1\n");
  const Ran calibrate = place.run(
      {"calibrate", small_model(), "--step-trace-time", "steps.csv", "--d2h", "7.5GB/s", "--out", "mine.json"});
  ASSERT_EQ(calibrate.status, 0) << calibrate.err;
  const json overlay = parsed(text_of(place.path("mine.json")));
  EXPECT_EQ(overlay["d2h_bytes_per_s"], 7.5e9);
  EXPECT_TRUE(overlay["memory"].is_null());
  ASSERT_TRUE(overlay["op_time_scale"].is_number());
  const auto step = [&](const std::vector<std::string>& more) {
    const Ran ran = place.run(with({"estimate", small_model(), "--format", "json"}, more));
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran;
  };
  const Ran corrected = step({"--calibration", "mine.json"});
  EXPECT_NE(corrected.err.find("calibrated by mine.json: compute times x "), std::string::npos) << corrected.err;
  EXPECT_NE(corrected.err.find("D2H 7.50 GB/s"), std::string::npos) << corrected.err;
  const Ran scaled = step({"--op-time-scale", std::to_string(overlay["op_time_scale"].get<double>())});
  const auto step_ms = [](const Ran& ran) { return parsed(ran.out).at("step_ms").get<double>(); };
  EXPECT_NEAR(step_ms(corrected), step_ms(scaled), 1e-4 * step_ms(scaled));
  EXPECT_NE(step_ms(corrected), step_ms(step({})));
}

/// Nothing measured says how far off a prediction is that leaves an argument out.
TEST_F(Measured, NoPassWhereAnArgumentIsNotUnderstood) {
  place.write("odd.yaml", text_of(place.path("run.yaml")) + "\nfp32-residual-connection: true\n");
  const json odd = answer({"check", "--megatron-args", "odd.yaml", "--world-size", "8", "--budget", "1TiB"});
  EXPECT_EQ(odd["verdict"], "NEAR");
  const std::string line = odd["jobs"][0]["findings"][0]["line"];
  EXPECT_NE(line.find("not all of its input was understood"), std::string::npos) << line;
}

TEST_F(Measured, AStepOfAnotherJobCorrectsNothing) {
  for (const char* computing : {"90000000000", "1"}) {
    place.write("steps.csv", fmt::format("Step,Computing,Free\n1,{0},1\n2,{0},1\n", computing));
    expect_refused(place, {"calibrate", small_model(), "--step-trace-time", "steps.csv", "--out", "mine.json"},
                   "^steps\\.csv: a step of .* ms where .* is that of another job");
    EXPECT_FALSE(std::filesystem::exists(place.path("mine.json")));
  }
}

TEST_F(Measured, WhatCannotBeReadIsNamedAndNothingIsWritten) {
  place.write("bad.json", R"({"rows": [{"args": 3}]})");
  place.write("few.csv", "rank,allocated_mib\n");
  const std::vector<std::string> calibrate = {"calibrate", "--out", "mine.json"};
  expect_refused(place, {"estimate", "--truth", "bad.json"}, "^bad\\.json: /rows/0/args: must be an object");
  expect_refused(place, {"estimate", "--truth", "none.json"}, "^none\\.json: cannot read");
  expect_refused(place, {"estimate"}, "MODEL is required");
  expect_refused(place, {"check"}, "tidemark-budget\\.yaml: not found");
  expect_refused(place, {"estimate", "--truth", "runs.json", small_model()}, "excludes");
  expect_refused(place, {"estimate", "--rival", small_model()}, "--truth");
  expect_refused(place, check, "^tidemark check: --budget: needed, the memory the framework may fill");
  expect_refused(place, with(check, {"--budget", "8GiB", "--imbalance", "8"}), "--imbalance: says nothing about");
  expect_refused(place, with(estimate, {"--ranks", "0"}), "--ranks: says nothing about --megatron-args");
  expect_refused(place, with(estimate, {"--imbalance-from", "none.csv"}), "--imbalance-from: says nothing about");
  expect_refused(place, {"estimate", "--truth", "runs.json", "--device", "h100-80g"}, "--device: says nothing about");
  expect_refused(place, with(estimate, {"--calibration", "runs.json"}), "^runs\\.json: /: has no member 'format'");
  expect_refused(place, calibrate, "nothing to calibrate with");
  expect_refused(place, {"calibrate", "--d2h", "7GB/s"}, "--out");
  expect_refused(place, with(calibrate, {"--d2h", "fast"}), "--d2h: ");
  expect_refused(place, with(calibrate, {"--measured", "few.csv"}), "--megatron-args: measured memory needs");
  expect_refused(place, with(calibrate, {"--megatron-args", "run.yaml", "--measured", "few.csv"}),
                 "^few\\.csv: holds no rank");
  expect_refused(place, with(calibrate, {"--megatron-args", "run.yaml", "--measured", "few.csv", "--rank", "3"}),
                 "--rank: few\\.csv names its ranks itself; drop it");
  place.write("cut.sh", "torchrun p.py --num-layers 2 --hidden-size 512 \\\n # --bf16 \\\n  --seq-length 64\n");
  expect_refused(place, {"estimate", "--megatron-args", "cut.sh"},
                 "it is not given.* \\(cut.sh:3: a line begins with '--seq-length'");
  expect_refused(place, with(calibrate, {"--truth", "runs.json", "--case", "smal"}), "did you mean 'small'");
  expect_refused(place, with(calibrate, {"--truth", "runs.json", "--case", "small"}), "--variant");
  expect_refused(place, with(calibrate, {"--truth", "runs.json", "--case", "npu", "--rank", "3"}), "holds no rank 3");
  expect_refused(place, with(calibrate, {"--case", "small"}), "names a row of --truth");
  expect_refused(place, with(calibrate, {"--truth", "runs.json", "--measured", "few.csv"}), "give one of");
  expect_refused(place, with(calibrate, {"--kernel-details", "few.csv"}), "need the MODEL");
  expect_refused(place, {"calibrate", "--truth", "runs.json", "--case", "npu", "--out", "runs.json"}, "runs\\.json");
}

}  // namespace
}  // namespace tidemark::testing
