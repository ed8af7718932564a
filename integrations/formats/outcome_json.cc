#include "integrations/formats/outcome_json.h"

#include <nlohmann/json.hpp>

#include "integrations/formats/balance_text.h"
#include "integrations/formats/captured_report.h"
#include "integrations/formats/estimate_table.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/step_band.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

double added_percent(const plan::RankFigures& f, const plan::StepFigures& step) {
  return step.keep_all_step_ns > 0
             ? 100.0 * static_cast<double>(f.added_ns) / static_cast<double>(step.keep_all_step_ns)
             : 0;
}

Json rank_json(const plan::RankFigures& f, const plan::StepFigures& step) {
  return {{"rank", f.rank},
          {"peak_bytes", f.peak_bytes},
          {"budget_bytes", f.budget_bytes},
          {"static_bytes", f.static_bytes},
          {"activation_peak_bytes", f.activation_peak_bytes},
          {"reserve_bytes", f.reserve_bytes},
          {"offloaded_bytes", f.offloaded_bytes},
          {"offload_ms", to_ms(f.offload_ns)},
          {"host_bytes", f.host_bytes},
          {"swapped_bytes_per_step", f.swapped_bytes_per_step},
          {"recompute_ms", to_ms(f.recompute_ns)},
          {"hidden_recompute_ms", to_ms(f.hidden_recompute_ns)},
          {"exposed_copy_ms", to_ms(f.exposed_copy_ns)},
          {"added_ms", to_ms(f.added_ns)},
          {"paid_ms", to_ms(f.paid_ns)},
          {"lower_bound_percent", f.lower_bound_percent},
          {"worst_load_f", f.worst_load_f},
          {"fits", f.fits},
          {"exposed_communication_ms", to_ms(f.exposed_communication_ns)},
          {"copy_overhead_ms", to_ms(f.copy_overhead_ns)},
          {"added_percent", added_percent(f, step)},
          {"lower_bound_ms", to_ms(f.lower_bound_ns)},
          {"load", f.load},
          {"load_quantile", f.load_quantile},
          {"load_held_ms", to_ms(f.load_held_ns)},
          {"load_short_ms", to_ms(f.load_short_ns)},
          {"peak_op", f.peak_op},
          {"rule", f.rule},
          {"reason", f.reason},
          {"smallest_budget_bytes", f.smallest_budget_bytes},
          {"smallest_host_budget_bytes", f.smallest_host_budget_bytes}};
}

Json outcome_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, double seconds) {
  const plan::StepFigures& step = outcome.step;
  Json json = {{"fits", outcome.fits()}, {"ranks", Json::array()}};
  for (const plan::RankPlan& rank : outcome.ranks) json["ranks"].push_back(rank_json(rank.figures, step));
  json.update({{"step_ms", to_ms(step.step_ns)},
               {"bubble_percent", step.bubble_percent},
               {"mfu_percent", step.mfu_percent},
               {"mfu_causal_percent", step.mfu_causal_percent},
               {"tokens_per_s", step.tokens_per_s},
               {"fullest_load", step.fullest_load},
               {"parameters", outcome.parameters.total},
               {"active_parameters", outcome.parameters.active},
               {"parameters_with_input_embedding", outcome.parameters.total_both},
               {"seconds", seconds},
               {"keep_all_step_ms", to_ms(step.keep_all_step_ns)},
               {"exposed_communication_percent", step.exposed_communication_percent},
               {"exposed_copy_percent", step.exposed_copy_percent},
               {"recompute_percent", step.recompute_percent},
               {"balance", balance_json(request, outcome)},
               {"band_percent", band_json(request)},
               {"policy", request.policy == nullptr ? "" : std::string(request.policy->name)},
               {"model", step_name_of(request)},
               {"device", request.machine.name},
               {"host_budget_bytes", host_budget_of(request)},
               {"verdict", outcome.fits() ? "FITS" : "OVER"},
               {"line", verdict_text(request, outcome)},
               {"times", "modelled"}});
  if (request.step) json["captured"] = captured_json(request, outcome);
  return json;
}

Json contributor_json(const plan::Contributor& c) {
  return {{"storage", c.name},    {"chunk", c.chunk}, {"layer", c.layer},
          {"in_flight", c.count}, {"bytes", c.bytes}, {"category", std::string(role_text(c.role))}};
}

Json estimate_json_of(const RankEstimate& e) {
  const auto at = [&](StorageRole role) { return e.bytes[static_cast<std::size_t>(role)]; };
  Json json = {{"parameter_bytes", at(StorageRole::parameter)},
               {"gradient_bytes", at(StorageRole::gradient)},
               {"optimizer_bytes", at(StorageRole::optimizer_state)},
               {"activation_bytes", at(StorageRole::activation)},
               {"passes_in_flight", e.passes_in_flight},
               {"transient_bytes", at(StorageRole::temporary)},
               {"communication_bytes", at(StorageRole::communication)},
               {"context_bytes", e.reserve.context_bytes},
               {"workspace_bytes", e.reserve.workspace_bytes},
               {"collective_buffer_bytes", e.reserve.collective_bytes},
               {"framework_bytes", e.reserve.framework_bytes},
               {"unused_bytes", e.unused_bytes},
               {"contributors", Json::array()}};
  for (const plan::Contributor& c : e.contributors) json["contributors"].push_back(contributor_json(c));
  return json;
}

/// Text from a model file may hold bytes that are not UTF-8; they are shown as the replacement character.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string plan_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, double seconds) {
  return dump(outcome_json(request, outcome, seconds));
}

std::string estimate_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, double seconds) {
  Json json = outcome_json(request, outcome, seconds);
  const std::vector<RankEstimate> estimates = estimate_ranks(request, outcome);
  for (std::size_t i = 0; i < estimates.size(); ++i) json["ranks"][i]["estimate"] = estimate_json_of(estimates[i]);
  return dump(json);
}

}  // namespace tidemark::formats
