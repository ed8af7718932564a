#include "integrations/formats/capacity_drops.h"

#include <fmt/format.h>

#include <span>

#include "integrations/formats/import_expert_counts.h"
#include "integrations/formats/unit_text.h"
#include "planner/graph_build/dropped_rows.h"

namespace tidemark::formats {
namespace {

using Level = graph_build::MoeSpec::CapacityLevel;

constexpr const char* kSenders =
    "a capacity is that of an expert group's rows together; a framework that applies it to each sender's drops as many "
    "or more";

std::int64_t experts_of_device(const graph_build::JobSpec& job) {
  return job.model.moe.experts / job.parallel.expert_ranks();
}

}  // namespace

CapacityDrops modelled_drops(const graph_build::JobSpec& job, const std::vector<plan::CapacityChoice>& choices) {
  const graph_build::ExpertLoadSpec& spec = job.expert_load;
  const std::int64_t experts = experts_of_device(job);
  graph_build::LoadModel of_devices = graph_build::load_model(spec);
  if (job.parallel.expert_ranks() == 1) of_devices.variance = {};  // one device has all rows
  const graph_build::LoadModel of_experts =
      graph_build::model_of_experts(of_devices, experts, job.parallel.expert_ranks());
  CapacityDrops drops{.loads = fmt::format("expert_load of the job: mean {:.4g}, coefficient of variation {:.4g}",
                                           spec.mean, spec.coefficient_of_variation)};
  // Of a device that has all experts, or whose load does not vary, the model does not know how experts share it.
  const bool are_experts_known = of_devices.variance.sum() > 0 || experts == 1;
  for (const plan::CapacityChoice& choice : choices) {
    DroppedShare& share = drops.shares.emplace_back();
    if (choice.factor <= 0) continue;
    const bool by_expert = choice.level == Level::expert;
    share.share = graph_build::mean_dropped_share(by_expert ? of_experts : of_devices, choice.factor);
    share.is_bound = by_expert && !are_experts_known;
  }
  if (are_experts_known && experts > 1)
    drops.notes.push_back(fmt::format(
        "of experts the load model knows nothing: the {} of a device are assumed to vary apart from each other; alike, "
        "they drop as much as their device",
        experts));
  drops.notes.emplace_back(kSenders);
  return drops;
}

Result<CapacityDrops> counted_drops(std::string_view csv_text, std::string_view file_name,
                                    const graph_build::JobSpec& job, const std::vector<plan::CapacityChoice>& choices) {
  const std::int64_t devices = job.parallel.expert_ranks(), own = experts_of_device(job);
  std::vector<graph_build::DroppedRows> dropped(choices.size());
  std::int64_t steps = 0;
  const auto take = [&](const CountedLayout& layout, const std::vector<std::int64_t>& rows) -> Status {
    const std::int64_t counted = std::ssize(layout.devices),
                       expected = layout.is_by_expert ? job.model.moe.experts : devices;
    if (counted != expected)
      return bad_input(fmt::format("{}:1: {} {}s are counted; an expert group of this job has {}", file_name, counted,
                                   layout.is_by_expert ? "expert" : "device", expected));
    ++steps;
    for (std::size_t first = 0; first < rows.size(); first += layout.devices.size())
      for (std::size_t i = 0; i < choices.size(); ++i)
        if (choices[i].factor > 0)
          graph_build::add_dropped(std::span(rows).subspan(first, layout.devices.size()),
                                   layout.is_by_expert && choices[i].level == Level::device ? own : 1,
                                   choices[i].factor, dropped[i]);
    return {};
  };
  const Result<CountedLayout> layout = each_counted_step(csv_text, file_name, take);
  if (!layout) return layout.error();
  const bool by_expert = layout.value().is_by_expert;
  CapacityDrops drops{.is_counted = true,
                      .loads = fmt::format("{}: {} of {} and {}, by {}", file_name, counted_text(steps, "step"),
                                           counted_text(std::ssize(layout.value().layers), "layer"),
                                           counted_text(std::ssize(layout.value().micro_batches), "micro-batch"),
                                           by_expert ? "expert" : "device")};
  const bool experts_unknown = !by_expert && own > 1;
  for (std::size_t i = 0; i < choices.size(); ++i)
    drops.shares.push_back({.share = dropped[i].share(),
                            .is_bound = choices[i].factor > 0 && choices[i].level == Level::expert && experts_unknown});
  if (experts_unknown)
    drops.notes.emplace_back(
        "devices are counted: experts drop at least what their device would; counts of experts say how much");
  drops.notes.emplace_back(kSenders);
  return drops;
}

}  // namespace tidemark::formats
