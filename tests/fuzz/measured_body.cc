// Measured runs with other arguments and figures in them, scored: every rank has finite figures or a reason, and the
// report of them is whole. And valid overlays of corrections.

#include <cmath>
#include <string>
#include <vector>

#include "integrations/formats/accuracy_report.h"
#include "integrations/formats/calibration_file.h"
#include "tests/fuzz/input_bodies.h"
#include "tests/support/data.h"

namespace tidemark::testing {
namespace {

std::vector<std::string> truth_seeds() {
  return {text_of(source_path("tests/data/measured_runs.json"))};
}

std::vector<std::string> truth_words() {
  return {"0",
          "1",
          "-1",
          "null",
          "true",
          "false",
          "\"8\"",
          "[]",
          "{}",
          "1e300",
          "\"variant\"",
          "8",
          "1048576",
          "\"gpt\"",
          "3",
          "1073741824",
          "\"swiglu\": true, ",
          "\"num-experts\": 8, ",
          "\"use-distributed-optimizer\": true, ",
          "\"sequence-parallel\": true, ",
          "\"recompute-granularity\": \"full\", "};
}

bool is_figure(double bytes) {
  return std::isfinite(bytes) && bytes >= 0;
}

Verdict check_rank(const estimate::ScoredRank& at, Reached& reached) {
  if (at.predicted.has_value() != at.refused.empty()) return "a rank has both or neither of figures and a reason";
  ++reached[at.predicted ? "predicted" : "reason"];
  if (!at.predicted) return std::nullopt;
  if (!is_figure(at.predicted->steady_bytes) || !is_figure(at.predicted->peak_bytes))
    return "a prediction is no figure";
  if (at.predicted->peak_bytes < at.predicted->steady_bytes * (1 - 1e-9)) return "a peak is below what is always held";
  if (*at.checked_peak_bytes < at.predicted->peak_bytes * (1 - 1e-9)) return "a cautious peak is below the plain one";
  return std::nullopt;
}

Verdict check_runs(const std::vector<estimate::MeasuredRun>& runs, Reached& reached) {
  for (const bool calibrate : {false, true}) {
    const auto ranks = estimate::score_runs(runs, {.calibrate_per_model = calibrate, .rival = true});
    for (const estimate::ScoredRank& at : ranks)
      if (Verdict wrong = check_rank(at, reached)) return wrong;
    const formats::AccuracyReport report{.what = "fuzz", .runs = runs, .ranks = ranks};
    if (formats::accuracy_text(report).empty() || formats::accuracy_json(report).empty()) return "a report is empty";
    for (const estimate::ScoredRank& at : ranks) reached["calibrates"] += at.calibrates ? 1 : 0;
  }
  return std::nullopt;
}

std::vector<std::string> time_seeds() {
  return {text_of(source_path("tests/data/step_times.json"))};
}

std::vector<std::string> step_time_words() {
  return {"0",       "1",          "-1",         "null",        "true",     "false",    "\"8\"",   "[]",
          "{}",      "1e300",      "16777216",   "1048576",     "\"full\"", "\"A\"",    "\"fp8\"", "\"block\"",
          "\"sft\"", "\"[4, 4]\"", "\"moe\": 1", "\"mla\": {}", "\"fp16\"", "\"h100\"", "2",       "64"};
}

std::vector<std::string> calibration_seeds() {
  return {formats::write_calibration({.sources = {"a run"},
                                      .memory = estimate::MemoryCorrection{.model = "gpt", .static_offset_bytes = 1e8},
                                      .op_time_scale = 1.07,
                                      .d2h_bytes_per_s = 2.3e10})};
}

std::vector<std::string> calibration_words() {
  return {"0", "1", "2", "null", "-1", "1e300", "{}", "\"gpt\""};
}

}  // namespace

std::vector<FuzzTarget> measured_targets() {
  checked_beyond().runs = check_runs;
  return {
      {.name = "measured_runs",
       .seeds = truth_seeds,
       .words = truth_words,
       .places = {"predicted", "reason", "calibrates"},
       .rounds = 6'000},
      {.name = "time_truth",
       .seeds = time_seeds,
       .words = step_time_words,
       .places = {"a run", "reason", "noted"},
       .rounds = 3'000},
      {.name = "calibration", .seeds = calibration_seeds, .words = calibration_words, .places = {}, .rounds = 20'000}};
}

}  // namespace tidemark::testing
