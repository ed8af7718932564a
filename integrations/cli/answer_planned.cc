// Models that are planned first, and plan files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integrations/cli/answered_job.h"
#include "integrations/cli/console.h"
#include "integrations/cli/input_hashes.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/progress.h"
#include "integrations/formats/file.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/key_places.h"
#include "integrations/formats/plan_restore.h"
#include "planner/plan_holdings.h"
#include "planner/plan_remedy.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

/// Of a gate, where neither the job nor the budget file says one: one step of a hundred may need more on some device.
constexpr double kGateQuantile = 0.99;

/// What a plan is judged by, kept for the remedy: it starts from what is there.
struct PlannedJob {
  plan::PlanRequest request;
  plan::PlanOutcome outcome;
};

/// Where the keys of a model file are.
struct ModelKeys {
  std::string file;
  std::map<std::string, formats::KeyPlace, std::less<>> places;
};

Result<ModelKeys> keys_of(const std::filesystem::path& model) {
  const Result<std::string> text = formats::read_file(model, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  auto places = formats::key_places(text.value(), model.string());
  if (!places) return places.error();
  return ModelKeys{.file = model.string(), .places = std::move(places).value()};
}

/// The least that limits on all of a rank's bytes allow; what they do not speak of is as the plan has it.
plan::MemoryLimits memory_limits(const std::vector<budget::Limit>& limits, const PlannedJob& planned,
                                 Bytes left_out_bytes) {
  plan::MemoryLimits least{.device_bytes = formats::device_budget_of(planned.request),
                           .host_bytes = formats::host_budget_of(planned.request)};
  bool has_device = false, has_host = false;
  for (const budget::Limit& limit : limits) {
    if (limit.phase || limit.category || limit.ranks.kind != budget::RankChoice::Kind::all) continue;
    Bytes& most = limit.is_host ? least.host_bytes : least.device_bytes;
    bool& is_set = limit.is_host ? has_host : has_device;
    const Bytes bytes = limit.most_bytes + (limit.is_host ? 0 : left_out_bytes);
    most = is_set ? std::min(most, bytes) : bytes;
    is_set = true;
  }
  return least;
}

/// The first limit that a plan exceeds, held as the verdict holds it: a category against what there is, the rest
/// without the reserve that is left out; nullptr: it keeps all.
const budget::Limit* exceeded_limit(const std::vector<budget::Limit>& limits, Bytes left_out_bytes,
                                    const plan::PlanRemedy& found) {
  const budget::Holdings whole = plan::holdings_of(found.request, found.outcome, "");
  const budget::Holdings judged = left_out_bytes > 0 ? budget::without_reserve(whole) : whole;
  for (const budget::Limit& limit : limits)
    if (budget::judge(limit.category ? whole : judged, {limit}).front().verdict == budget::Verdict::fail) return &limit;
  return nullptr;
}

std::string texts_of(const std::vector<budget::Edit>& edits) {
  constexpr std::size_t most = 3;
  std::vector<std::string> texts;
  for (const budget::Edit& edit : edits)
    if (texts.size() < most) texts.push_back(edit.text);
  const std::string text = fmt::format("{}", fmt::join(texts, ", "));
  return texts.size() < edits.size() ? fmt::format("{} and {} more", text, edits.size() - texts.size()) : text;
}

/// A remedy is of whole ranks: limits on phases, categories and single ranks are held against it afterwards. What does
/// not keep them is said, but is not what to do.
void hold_against_all(const std::vector<budget::Limit>& limits, Bytes left_out_bytes, plan::PlanRemedy& found) {
  if (!found.remedy.clears) return;
  const budget::Limit* exceeded = exceeded_limit(limits, left_out_bytes, found);
  if (exceeded == nullptr) return;
  found.remedy.clears = false;
  found.remedy.reason = fmt::format(
      "what was found ({}) keeps the budget of the device, but not the limit of {}{}; plans are not made to such "
      "limits",
      texts_of(found.remedy.edits), format_bytes(exceeded->most_bytes),
      exceeded->line > 0 ? fmt::format(" on line {}", exceeded->line) : "");
  found.remedy.edits.clear();
  found.remedy.step_percent.reset();
}

Result<budget::Remedy> remedy_of(PlannedJob& planned, Bytes left_out_bytes, const std::vector<budget::Limit>& limits) {
  const plan::MemoryLimits memory = memory_limits(limits, planned, left_out_bytes);
  const bool is_exceeded = std::ranges::any_of(
      planned.outcome.ranks, [&](const plan::RankPlan& rank) { return plan::exceeds(rank.figures, memory); });
  budget::Remedy none;
  none.is_sought = false;
  none.reason = "plans are made to budgets of whole ranks, not to limits on phases, categories or single ranks";
  if (!is_exceeded) return none;
  Result<plan::PlanRemedy> found = plan::find_remedy({.request = planned.request,
                                                      .limits = memory,
                                                      .search = *policies::find_policy("optimal"),
                                                      .changes_job = !planned.request.step,
                                                      .left_out_bytes = left_out_bytes},
                                                     std::move(planned.outcome));
  if (!found) return found.error();
  hold_against_all(limits, left_out_bytes, found.value());
  return std::move(found.value().remedy);
}

/// `is_reserve_left_out`: the limits are of a capacity that has a reserve of its own taken off. `keys`: of a plan file
/// none. Asked once; it may plan the job many times over, so that it is drawn.
void put_remedy(std::shared_ptr<PlannedJob> planned, bool is_reserve_left_out, ModelKeys keys, const Console& console,
                AnsweredJob& job) {
  const Bytes left_out = is_reserve_left_out ? plan::reserve_of(planned->request).total() : 0;
  job.find_remedy = [planned = std::move(planned), left_out, keys = std::move(keys), drawn = console.draws_progress()](
                        const std::vector<budget::Limit>& limits) -> Result<budget::Remedy> {
    Progress progress("looking for what would fit", drawn);
    progress.watch(1);
    Result<budget::Remedy> remedy = remedy_of(*planned, left_out, limits);
    if (remedy && !keys.file.empty()) formats::place_edits(remedy.value(), keys.places, keys.file);
    return remedy;
  };
}

Result<RoleFiles> files_of_model(const JobFile& file, const plan::PlanRequest& request) {
  const std::filesystem::path& model = file.options.model;
  const Result<std::filesystem::path> device = file.options.device.empty()
                                                   ? find_device(request.job.device, model, model.parent_path())
                                                   : find_device(file.options.device, model);
  if (!device) return device.error();
  return RoleFiles{{"model", model},
                   {"device", device.value()},
                   {"calibration", file.options.calibration},
                   {"trace", file.options.imbalance_from}};
}

/// A policy that plans to a budget, or to the device, has to know what else is kept of it.
void plan_below_reserve(const JobFile& file, plan::PlanRequest& request) {
  if (!file.reserve_bytes) return;
  const Bytes reserve = plan::reserve_of(request).total();
  request.budget_bytes = std::max<Bytes>(formats::device_budget_of(request) + reserve - *file.reserve_bytes, 0);
}

/// A verdict is waited for, so a policy that searches does so briefly. What a longer search finds is checked as the
/// plan.json that it wrote.
Result<Planned> plan_for_verdict(plan::PlanRequest& request, const JobFile& file, const Console& console) {
  request.figures_only = true;
  request.is_brief = !request.policy->is_fixed;
  return plan_with_progress(request, file.options.model, console);
}

/// A gate holds a job against more than the mean load, or it would fail in one step of two.
void ask_for_a_quantile(const JobFile& file, plan::PlanRequest& request) {
  const bool is_given = file.options.imbalance.load || file.options.imbalance.quantile;
  graph_build::ExpertLoadSpec& load = request.job.expert_load;
  if (!is_given && load.quantile == 0 && load.coefficient_of_variation > 0) load.quantile = kGateQuantile;
}

/// Ranks that were left out by request are none that the job lacks.
void take_ranks_asked_for(const JobFile& file, budget::Holdings& holdings) {
  if (!file.options.ranks.empty()) holdings.rank_count = 0;
}

/// A plan above its budget has no program that the checker would hold sound: nothing says that a run keeps its figures.
void verify_programs(const std::filesystem::path& path, const PlannedJob& planned, AnsweredJob& job) {
  for (const plan::RankPlan& rank : planned.outcome.ranks) {
    if (!rank.figures.fits) {
      job.holdings.is_understood = false;
      job.holdings.doubts.push_back(
          fmt::format("{}: rank {} was planned over its budget: its figures are checked, its program is not",
                      path.string(), rank.figures.rank));
      job.holdings.notes.push_back(job.holdings.doubts.back());
      continue;
    }
    const std::optional<std::string> fault = formats::find_fault(planned.request, rank);
    if (fault && job.broken_rule.empty())
      job.broken_rule = fmt::format("rank {}: the program breaks a rule: {}", rank.figures.rank, *fault);
  }
}

}  // namespace

Result<AnsweredJob> answer_model(const JobFile& file, const Console& console) {
  Result<plan::PlanRequest> read = read_request(file.options, &console);
  if (!read) return read.error();
  plan::PlanRequest& request = read.value();
  ask_for_a_quantile(file, request);
  const Bytes device_capacity_bytes = formats::device_budget_of(request);
  plan_below_reserve(file, request);
  Result<Planned> planned = plan_for_verdict(request, file, console);
  if (!planned) return planned.error();
  Result<RoleFiles> files = files_of_model(file, request);
  if (!files) return files.error();
  Result<std::vector<ci::InputHash>> hashes = hash_inputs(files.value());
  if (!hashes) return hashes.error();

  AnsweredJob job;
  job.device_capacity_bytes = device_capacity_bytes;
  job.host_capacity_bytes = formats::host_budget_of(request);
  job.inputs = std::move(hashes).value();
  auto kept = std::make_shared<PlannedJob>(
      PlannedJob{.request = std::move(read).value(), .outcome = std::move(planned).value().outcome});
  job.holdings = plan::holdings_of(kept->request, kept->outcome,
                                   fmt::format("{}, policy {}", file.options.model.string(), file.options.policy));
  take_ranks_asked_for(file, job.holdings);
  Result<ModelKeys> keys = keys_of(file.options.model);
  if (!keys) return keys.error();
  formats::place_controls(job.holdings, keys.value().places, keys.value().file);
  job.holdings.settings = formats::settings_of(keys.value().places, keys.value().file);
  put_remedy(std::move(kept), file.reserve_bytes.has_value(), std::move(keys).value(), console, job);
  return job;
}

Result<AnsweredJob> answer_plan(const JobFile& file, const Console& console) {
  const std::filesystem::path& path = file.options.model;
  const Result<formats::PlanFile> plan_file = read_plan(path);
  if (!plan_file) return plan_file.error();
  Result<plan::PlanOutcome> outcome = formats::restore_outcome(plan_file.value(), file.options.ranks, path.string());
  if (!outcome) return outcome.error();
  if (outcome.value().ranks.empty()) return bad_input(fmt::format("{}: the plan holds no rank", path.string()));
  Result<std::vector<ci::InputHash>> hashes = hash_inputs({{"plan", path}});
  if (!hashes) return hashes.error();

  auto kept = std::make_shared<PlannedJob>(
      PlannedJob{.request = formats::request_of(plan_file.value()), .outcome = std::move(outcome).value()});
  if (!file.options.ranks.empty()) kept->request.ranks = file.options.ranks;
  AnsweredJob job;
  job.device_capacity_bytes = formats::device_budget_of(kept->request);
  job.host_capacity_bytes = formats::host_budget_of(kept->request);
  job.inputs = std::move(hashes).value();
  job.holdings = plan::holdings_of(kept->request, kept->outcome,
                                   fmt::format("{}, policy {}", path.string(), plan_file.value().policy));
  take_ranks_asked_for(file, job.holdings);
  verify_programs(path, *kept, job);
  put_remedy(std::move(kept), file.reserve_bytes.has_value(), {}, console, job);
  return job;
}

}  // namespace tidemark::cli
