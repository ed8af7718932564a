// Carries plans out as `tidemark run` does, with core/verify left out: what the race checker and the contents find when
// nothing stands in front of them. A test program of tests/regression/mutants_test.py.
//
//   run_unverified [--host] < paths     one path of a plan.json a line; answers with one line of JSON each
//
// Members: `refused`: the reader's words; or `races` (without verification), `mismatches` (with it) and `failed`, the
// words of a step that did not end; with --host, `host_mismatches` and `host_failed` of real bytes. `first`: the first
// finding in words.

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/verify.h"
#include "core/verify_parts.h"
#include "integrations/formats/file.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/program_file.h"
#include "integrations/run/run_plan.h"
#include "integrations/run/sim_run.h"

namespace tidemark {

// The verifier, left out. The linker takes these instead of the library's, so that the reader of plan files goes
// without the check of shape, too.
std::optional<Violation> verify_program(const Graph& /*graph*/, const Program& /*program*/) {
  std::abort();  // nobody here may ask
}
verify::Found verify::check_shape(const Schedule& /*schedule*/) {
  return {};
}

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kHostScale = 64;

void keep_first(Json& answer, const std::string& text) {
  if (!text.empty() && !answer.contains("first")) answer["first"] = text;
}

/// Races and mismatches of all ranks in one virtual time.
void on_sim(const plan::PlanOutcome& plan, const Machine& machine, bool verify, Json& answer) {
  const Result<run::SimRun> run =
      run::run_on_sim({.ranks = plan.ranks, .machine = machine, .verify = verify, .measure_stall = false});
  if (!run.ok()) {
    answer["failed"] = run.error().message;
    keep_first(answer, run.error().message);
    return;
  }
  std::int64_t races = 0, mismatches = 0;
  for (const run::SimRankRun& rank : run.value().ranks) {
    races += rank.races;
    mismatches += rank.report.mismatches;
    keep_first(answer, rank.race_texts.empty() ? rank.report.first_mismatch : rank.race_texts.front());
  }
  if (verify)
    answer["mismatches"] = mismatches;
  else
    answer["races"] = races;
}

void on_host(plan::PlanOutcome plan, const Machine& machine, Json& answer) {
  const Result<run::RunOutcome> run =
      run::run_plan(std::move(plan), machine, {.device = run::RunDevice::host, .scale = kHostScale, .verify = true});
  if (!run.ok()) {
    answer["host_failed"] = run.error().message;
    return;
  }
  std::int64_t mismatches = 0;
  for (const run::RankOutcome& rank : run.value().ranks) mismatches += rank.report.mismatches;
  answer["host_mismatches"] = mismatches;
}

Json carry_out(const std::string& path, bool with_host) {
  const Result<std::string> text = formats::read_file(path);
  if (!text.ok()) return {{"refused", text.error().message}};
  const Result<formats::PlanFile> file = formats::read_plan_file(text.value(), path);
  if (!file.ok()) return {{"refused", file.error().message}};
  Result<plan::PlanOutcome> plan = formats::restore_outcome(file.value(), {}, path);
  if (!plan.ok()) return {{"refused", plan.error().message}};
  Json answer = Json::object();
  on_sim(plan.value(), file.value().machine, false, answer);
  on_sim(plan.value(), file.value().machine, true, answer);
  if (with_host) on_host(std::move(plan).value(), file.value().machine, answer);
  return answer;
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  const bool with_host = argc > 1 && std::string(argv[1]) == "--host";
  for (std::string path; std::getline(std::cin, path);)
    std::cout << tidemark::carry_out(path, with_host).dump() << std::endl;
}
