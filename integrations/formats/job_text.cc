#include "integrations/formats/job_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"

namespace tidemark::formats {
namespace {

std::string load_text(const plan::PlanOutcome& outcome) {
  double low = outcome.ranks.front().figures.load, high = low;
  for (const plan::RankPlan& rank : outcome.ranks) {
    low = std::min(low, rank.figures.load);
    high = std::max(high, rank.figures.load);
  }
  const std::string least = fmt::format("{:.2f}", low), most = fmt::format("{:.2f}", high);
  return least == most ? least : fmt::format("{} to {} by rank", least, most);
}

}  // namespace

std::string step_name_of(const plan::PlanRequest& request) {
  return request.step ? request.step->name : request.job.model.name;
}

std::string layout_text(const plan::PlanRequest& request) {
  if (request.step)
    return fmt::format("a captured step of {} ops over {} storages", request.step->graph->ops.size(),
                       request.step->graph->storages.size());
  const graph_build::JobSpec& job = request.job;
  const graph_build::ParallelSpec& p = job.parallel;
  std::string text = fmt::format("TP{} PP{}", p.tensor, p.pipeline);
  if (p.virtual_pipeline > 1) text += fmt::format(" VPP{}", p.virtual_pipeline);
  if (p.context > 1) text += fmt::format(" CP{}", p.context);
  if (p.expert > 1) text += fmt::format(" EP{}", p.expert);
  text += fmt::format(" DP{}", p.data);
  if (p.overlap_forward_backward) text += ", forward/backward overlap";
  if (p.is_head_apart()) text += fmt::format(", main head on stage {}", p.head_stage);
  if (p.expert_exchange_parts > 1) text += fmt::format(", expert exchange in {} parts", p.expert_exchange_parts);
  return text +
         fmt::format(", {} micro-batches of {} x {} tokens", p.micro_batches(), p.micro_batch, job.model.sequence);
}

Bytes device_budget_of(const plan::PlanRequest& request) {
  return request.budget_bytes.value_or(request.machine.visible_bytes);
}

Bytes host_budget_of(const plan::PlanRequest& request) {
  return request.host_budget_bytes.value_or(request.machine.host_bytes_per_device);
}

std::string limits_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::string text = fmt::format("budget {}, pinned host memory {} per device", format_bytes(device_budget_of(request)),
                                 format_bytes(host_budget_of(request)));
  if (request.policy != nullptr) text += fmt::format(", policy {}", request.policy->name);
  if (!outcome.ranks.empty()) text += fmt::format(", expert load f {}", load_text(outcome));
  if (request.time_scale != 1.0) text += fmt::format(", compute times x {:.3f}", request.time_scale);
  return text;
}

const plan::RankPlan& tightest_rank(const plan::PlanOutcome& outcome) {
  const auto excess = [](const plan::RankPlan& r) { return r.figures.peak_bytes - r.figures.budget_bytes; };
  return *std::max_element(outcome.ranks.begin(), outcome.ranks.end(),
                           [&](const plan::RankPlan& a, const plan::RankPlan& b) { return excess(a) < excess(b); });
}

std::string enough_text(const plan::RankFigures& figures) {
  std::string text;
  if (figures.smallest_budget_bytes > 0)
    text = fmt::format("smallest budget that this policy meets: {}", format_bytes_up(figures.smallest_budget_bytes));
  if (figures.smallest_host_budget_bytes > 0)
    text += fmt::format("{}known to do with this budget: --host-budget '{}'", text.empty() ? "" : "; ",
                        format_bytes_up(figures.smallest_host_budget_bytes));
  if (text.empty() && figures.peak_bytes > figures.budget_bytes)
    text = fmt::format("known to do together: --budget '{}' --host-budget '{}'", format_bytes_up(figures.peak_bytes),
                       format_bytes_up(figures.host_bytes));
  return text;
}

std::string verdict_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  if (outcome.ranks.empty()) return "no rank was planned";
  const auto fitting =
      std::count_if(outcome.ranks.begin(), outcome.ranks.end(), [](const plan::RankPlan& r) { return r.figures.fits; });
  const plan::RankFigures& tightest = tightest_rank(outcome).figures;
  const std::string budget = format_bytes(device_budget_of(request));
  const auto ranks = static_cast<std::ptrdiff_t>(outcome.ranks.size());
  if (fitting == ranks) {
    return fmt::format("{} of {} ranks fit {}; the tightest is rank {} with {} to spare", fitting, ranks, budget,
                       tightest.rank, format_bytes(tightest.budget_bytes - tightest.peak_bytes));
  }
  const Bytes excess = tightest.peak_bytes - tightest.budget_bytes;
  std::string text = fmt::format("{} of {} ranks do not fit {}; ", ranks - fitting, ranks, budget);
  if (excess <= 0) {
    // Within its device memory, so another limit is missed, and not by the tightest rank in particular.
    const plan::RankFigures& over =
        std::ranges::find_if(outcome.ranks, [](const plan::RankPlan& r) { return !r.figures.fits; })->figures;
    return text + fmt::format("rank {}: {}", over.rank, over.reason.empty() ? "does not fit" : over.reason);
  }
  text += fmt::format("rank {}: peak {} exceeds its budget by {}", tightest.rank, format_bytes(tightest.peak_bytes),
                      format_bytes(excess));
  if (tightest.budget_bytes > tightest.reserve_bytes) {
    text +=
        fmt::format(" (+{:.1f} %)", 100.0 * static_cast<double>(excess) / static_cast<double>(tightest.budget_bytes));
  }
  if (!tightest.peak_op.empty()) text += " at " + tightest.peak_op;
  return text;
}

}  // namespace tidemark::formats
