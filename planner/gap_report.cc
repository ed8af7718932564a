#include "planner/gap_report.h"

#include <algorithm>
#include <array>

namespace tidemark::plan {
namespace {

// arXiv 2505.04519: 1.46 M tokens/s at 6144 sequences of 8192 tokens; bubble 10.49 % with two virtual stages; 95 % of
// the communication hidden. The batch is inferred from the published bubble.
constexpr std::array kPublished = {PublishedStep{.model = "pangu-ultra-moe-718b",
                                                 .source = "arXiv 2505.04519",
                                                 .step_ns = 6144.0 * 8192.0 / 1.46e6 * 1e9,
                                                 .bubble_share = 15.0 / (2 * 64 + 15),
                                                 .hidden_communication_share = 0.95}};

double layer_ns(double step_ns, double bubble_ns, double passes) {
  return (step_ns - bubble_ns) / passes;
}

}  // namespace

const PublishedStep* find_published_step(std::string_view model) {
  const auto* const found = std::ranges::find(kPublished, model, &PublishedStep::model);
  return found == kPublished.end() ? nullptr : found;
}

std::vector<std::string_view> published_models() {
  std::vector<std::string_view> models;
  for (const PublishedStep& published : kPublished) models.push_back(published.model);
  return models;
}

GapReport split_gap(const PublishedStep& published, const TimeSplit& mean, double slots_per_rank,
                    double micro_batches) {
  const auto ns = [](std::int64_t value) { return static_cast<double>(value); };
  GapReport report{.published_step_ns = published.step_ns, .modelled_step_ns = ns(mean.step_ns)};
  const double bubble = published.bubble_share * published.step_ns;
  const double exposed = (1 - published.hidden_communication_share) * ns(mean.communication_ns);
  const double compute = published.step_ns - bubble - exposed;
  report.lines = {
      {.cause = "kernel efficiency",
       .basis = "what the lines below leave; recomputation included",
       .published_ns = compute,
       .modelled_ns = ns(mean.compute_ns + mean.recompute_ns)},
      {.cause = "exposed communication",
       .basis = "published hidden share of the modelled communication",
       .published_ns = exposed,
       .modelled_ns = ns(mean.exposed_communication_ns)},
      {.cause = "bubble", .basis = "published", .published_ns = bubble, .modelled_ns = ns(mean.bubble_ns)},
      {.cause = "copies",
       .basis = "not published, taken as hidden",
       .published_ns = 0,
       .modelled_ns = ns(mean.exposed_copy_ns + mean.copy_overhead_ns)},
  };
  const double passes = slots_per_rank * micro_batches;
  report.published_layer_ns = layer_ns(published.step_ns, bubble, passes);
  report.modelled_layer_ns = layer_ns(ns(mean.step_ns), ns(mean.bubble_ns), passes);
  report.kernel_rate_ratio = report.lines.front().modelled_ns / compute;
  return report;
}

GapReport gap_to(const PublishedStep& published, const graph_build::JobSpec& job, const PlanOutcome& outcome) {
  std::vector<TimeSplit> splits;
  for (const RankPlan& rank : outcome.ranks) splits.push_back(split_time(rank, outcome.step.step_ns));
  std::size_t most = 0;
  for (const auto& rank : job.parallel.slots) {
    std::size_t filled = 0;
    for (const auto& chunk : rank)
      filled += chunk.size() - static_cast<std::size_t>(
                                   std::ranges::count(chunk, graph_build::Slot::Kind::noop, &graph_build::Slot::kind));
    most = std::max(most, filled);
  }
  return split_gap(published, mean_split(splits), static_cast<double>(most),
                   static_cast<double>(job.parallel.micro_batches()));
}

}  // namespace tidemark::plan
