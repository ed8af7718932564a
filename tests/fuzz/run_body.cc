// Plans with other numbers in them, carried out: what passes the reader and the checker runs with the right bytes in
// the right places, without a race and without a leak. So the checker knows of everything that can go wrong in a run.

#include <algorithm>
#include <string>
#include <utility>

#include "core/verify.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/program_file.h"
#include "integrations/run/sim_run.h"
#include "tests/fuzz/input_bodies.h"
#include "tests/support/planned_step.h"

namespace tidemark::testing {
namespace {

constexpr std::string_view kFile = "fuzz";

/// Steps that swap, recompute and carry contingencies; of many the shortest files.
std::vector<std::string> seeds() {
  constexpr int kTried = 5;
  constexpr std::size_t kKept = 2;
  StepGenerator generator(20'240'502);
  std::vector<std::string> texts;
  for (int i = 0; i < kTried; ++i) {
    const PlannedStep step = generator.next_routed(1.2, 60);
    const StepContent content = content_of(step);
    if (content.swaps > 0 && content.recomputes > 0)
      texts.push_back(formats::write_plan_file(step.request, step.outcome));
  }
  std::ranges::sort(texts, {}, &std::string::size);
  texts.resize(std::min(texts.size(), kKept));
  return texts;
}

std::vector<std::string> words() {
  return {"0"};
}

Verdict check_run(const formats::PlanFile& file, const plan::PlanOutcome& outcome, Reached& reached) {
  const Result<run::SimRun> run = run::run_on_sim({.ranks = outcome.ranks,
                                                   .machine = file.machine,
                                                   .verify = true,
                                                   .match_messages = false,
                                                   .measure_stall = false});
  if (!run) {
    ++reached["refused by the run"];
    return run.error().code == Error::Code::internal ? std::optional(run.error().message) : std::nullopt;
  }
  ++reached["ran"];
  for (const run::SimRankRun& rank : run.value().ranks) {
    if (rank.races != 0) return "a sound plan raced: " + rank.race_texts.front();
    if (rank.report.mismatches != 0) return "a sound plan read wrong bytes: " + rank.report.first_mismatch;
    if (!rank.leaks.empty()) return "a sound plan leaks: " + rank.leaks;
  }
  return std::nullopt;
}

Verdict run(std::string_view bytes, Reached& reached) {
  const Result<formats::PlanFile> file = formats::read_plan_file(bytes, kFile);
  ++reached[file ? "accepted" : "refused"];
  if (!file) return std::nullopt;  // what the error says is looked at by the target `plan`
  const Result<plan::PlanOutcome> outcome = formats::restore_outcome(file.value(), {}, kFile);
  if (!outcome) {
    ++reached["of another step"];
    return outcome.error().message.starts_with("fuzz:") ? std::nullopt : std::optional(outcome.error().message);
  }
  for (const plan::RankPlan& rank : outcome.value().ranks) {
    if (!verify_program(rank.graph, rank.program)) continue;
    ++reached["refused by the checker"];
    return std::nullopt;
  }
  return check_run(file.value(), outcome.value(), reached);
}

}  // namespace

FuzzTarget run_target() {
  return {.name = "plan_run",
          .seeds = seeds,
          .words = words,
          .run = run,
          .places = {"refused by the checker", "ran"},
          .rounds = 150,
          .wounds = Wounds::numbers};
}

}  // namespace tidemark::testing
