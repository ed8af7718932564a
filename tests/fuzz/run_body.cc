// Plans with other numbers in them, carried out: what passes the reader and the checker runs with the right bytes in
// the right places, without a race and without a leak, as planned and at the worst load that its figures promise. So
// the checker knows of everything that can go wrong in a run.

#include <algorithm>
#include <string>
#include <utility>

#include "integrations/formats/plan_restore.h"
#include "integrations/formats/program_file.h"
#include "integrations/run/sim_run.h"
#include "tests/fuzz/input_bodies.h"
#include "tests/support/planned_step.h"

namespace tidemark::testing {
namespace {

constexpr std::string_view kFile = "fuzz";

/// Steps that swap, recompute and have layers that can run in chunks; of many the shortest files.
std::vector<std::string> seeds() {
  constexpr int kTried = 5;
  constexpr std::size_t kKept = 2;
  StepGenerator generator(20'240'502);
  std::vector<std::string> texts;
  for (int i = 0; i < kTried; ++i) {
    const PlannedStep step = generator.next_routed(1.2, 60);
    const StepContent content = content_of(step);
    if (content.swaps > 0 && content.recomputes > 0 && content.sections > 0)
      texts.push_back(formats::write_plan_file(step.request, step.outcome));
  }
  std::ranges::sort(texts, {}, &std::string::size);
  texts.resize(std::min(texts.size(), kKept));
  return texts;
}

std::vector<std::string> words() {
  return {"0"};
}

Verdict find_harm(const run::SimRun& run) {
  for (const run::SimRankRun& rank : run.ranks) {
    if (rank.races != 0) return "a sound plan raced: " + rank.race_texts.front();
    if (rank.report.mismatches != 0) return "a sound plan read wrong bytes: " + rank.report.first_mismatch;
    if (!rank.leaks.empty()) return "a sound plan leaks: " + rank.leaks;
  }
  return std::nullopt;
}

Verdict check_run(const formats::PlanFile& file, const plan::PlanOutcome& outcome, Reached& reached) {
  run::SimRunRequest request{
      .ranks = outcome.ranks, .machine = file.machine, .verify = true, .match_messages = false, .measure_stall = false};
  const Result<run::SimRun> run = run::run_on_sim(request);
  if (!run) {
    ++reached["refused by the run"];
    return run.error().code == Error::Code::internal ? std::optional(run.error().message) : std::nullopt;
  }
  ++reached["ran"];
  if (Verdict harm = find_harm(run.value())) return harm;
  double worst = 1000;
  for (const plan::RankPlan& rank : outcome.ranks)
    if (!rank.program.routed.empty()) worst = std::min(worst, rank.figures.worst_load_f);
  if (worst == 0 || worst == 1000) return std::nullopt;  // nothing is promised, or nothing routed
  request.load = [worst](std::int32_t, SiteId) { return worst; };
  const Result<run::SimRun> loaded = run::run_on_sim(request);
  if (!loaded) return "a sound plan breaks its promise: " + loaded.error().message;
  for (const run::SimRankRun& rank : loaded.value().ranks)
    if (!rank.report.sections.empty()) ++reached["ran in chunks"];
  return find_harm(loaded.value());
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
  const plan::PlanRequest request = formats::request_of(file.value());
  for (const plan::RankPlan& rank : outcome.value().ranks) {
    if (!formats::find_fault(request, rank)) continue;
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
          .places = {"refused by the checker", "ran", "ran in chunks"},
          .rounds = 300,
          .wounds = Wounds::numbers};
}

}  // namespace tidemark::testing
