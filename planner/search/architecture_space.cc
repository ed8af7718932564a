#include "planner/search/architecture_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "planner/graph_build/layer_placement.h"

namespace tidemark::search {
namespace {

using graph_build::LayerKind;
using graph_build::ModelSpec;

/// The lists in a fixed order, each with the model's own value where it is empty.
std::array<std::vector<std::int64_t>, 10> lists_of(const ModelSpec& model, const ArchitectureRanges& ranges) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t dense = std::ranges::count(model.layers, LayerKind::dense);
  const std::int64_t shared = model.moe.width > 0 ? model.moe.shared_width / model.moe.width : 0;
  const auto or_own = [](const std::vector<std::int64_t>& list, std::int64_t own) {
    return list.empty() ? std::vector<std::int64_t>{own} : list;
  };
  return {or_own(ranges.layers, layers),
          or_own(ranges.dense_layers, dense),
          or_own(ranges.hidden, model.hidden),
          or_own(ranges.heads, model.attention.heads),
          or_own(ranges.dense_width, model.dense_width),
          or_own(ranges.experts, model.moe.experts),
          or_own(ranges.top_k, model.moe.top_k),
          or_own(ranges.expert_width, model.moe.width),
          or_own(ranges.shared_experts, shared),
          or_own(ranges.mtp_layers, model.mtp_layers)};
}

/// The model with one value of each list. A shared width that is no multiple of the experts' stays as it is where
/// neither is varied.
ModelSpec model_of(const ModelSpec& base, const ArchitectureRanges& ranges,
                   const std::array<std::int64_t, 10>& values) {
  ModelSpec model = base;
  const auto [layers, dense, hidden, heads, dense_width, experts, top_k, width, shared, mtp] = values;
  model.layers.assign(static_cast<std::size_t>(layers), LayerKind::moe);
  std::fill_n(model.layers.begin(), base.has_experts() ? dense : layers, LayerKind::dense);
  if (ranges.layers.empty() && ranges.dense_layers.empty()) model.layers = base.layers;
  model.hidden = hidden;
  if (base.attention.kind == graph_build::AttentionSpec::Kind::gqa && base.attention.heads > 0)
    model.attention.kv_heads = base.attention.kv_heads * heads / base.attention.heads;
  model.attention.heads = heads;
  model.dense_width = dense_width;
  model.moe.experts = experts;
  model.moe.top_k = top_k;
  model.moe.width = width;
  if (!ranges.expert_width.empty() || !ranges.shared_experts.empty()) model.moe.shared_width = shared * width;
  model.mtp_layers = mtp;
  return model;
}

bool is_outside(const graph_build::ParameterCount& count, const ArchitectureBounds& bounds) {
  const auto above = [](double value, const std::optional<double>& most) { return most && value > *most; };
  const auto below = [](double value, const std::optional<double>& least) { return least && value < *least; };
  return above(count.total_with_mtp, bounds.most_parameters) || below(count.total_with_mtp, bounds.least_parameters) ||
         above(count.active, bounds.most_active) || below(count.active, bounds.least_active);
}

/// Combinations that are no architecture of their own; empty: it is one.
std::string contradiction_in(const ModelSpec& base, const std::array<std::int64_t, 10>& values) {
  const auto [layers, dense, hidden, heads, dense_width, experts, top_k, width, shared, mtp] = values;
  if (base.has_experts() && dense > layers) return "dense_layers";
  // What a model does not use makes no other model of it.
  if (base.has_experts() && dense == 0 && dense_width != base.dense_width) return "dense_width";
  if (!base.has_experts() && (experts != base.moe.experts || top_k != base.moe.top_k || width != base.moe.width ||
                              shared * width != base.moe.shared_width))
    return "experts";
  const bool is_gqa = base.attention.kind == graph_build::AttentionSpec::Kind::gqa && base.attention.heads > 0;
  return is_gqa && base.attention.kv_heads * heads % base.attention.heads != 0 ? "heads" : "";
}

/// Rules that no layout can mend: those of a layout of one device.
std::string broken_rule(const graph_build::JobSpec& job, const ModelSpec& model) {
  graph_build::JobSpec alone{.model = model, .device = job.device};
  alone.parallel.parameter_bytes = job.parallel.parameter_bytes;
  alone.parallel.gradient_bytes = job.parallel.gradient_bytes;
  alone.parallel.optimizer_bytes = job.parallel.optimizer_bytes;
  graph_build::fill_stages_evenly(model, alone.parallel);
  const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(alone);
  return problems.empty() ? "" : problems.front().key;
}

}  // namespace

std::int64_t combinations_of(const ArchitectureRanges& ranges) {
  std::int64_t product = 1;
  for (const auto* list :
       {&ranges.layers, &ranges.dense_layers, &ranges.hidden, &ranges.heads, &ranges.dense_width, &ranges.experts,
        &ranges.top_k, &ranges.expert_width, &ranges.shared_experts, &ranges.mtp_layers}) {
    const auto size = static_cast<std::int64_t>(std::max<std::size_t>(list->size(), 1));
    if (product > std::numeric_limits<std::int64_t>::max() / size) return std::numeric_limits<std::int64_t>::max();
    product *= size;
  }
  return product;
}

ArchitectureSpace enumerate_architectures(const graph_build::JobSpec& job, const ArchitectureRanges& ranges,
                                          const ArchitectureBounds& bounds) {
  const auto lists = lists_of(job.model, ranges);
  ArchitectureSpace space;
  space.combinations = combinations_of(ranges);
  for (std::int64_t number = 0; number < space.combinations; ++number) {
    std::array<std::int64_t, 10> values{};
    std::int64_t rest = number;
    for (std::size_t i = lists.size(); i-- > 0;) {
      const auto size = static_cast<std::int64_t>(lists[i].size());
      values[i] = lists[i][static_cast<std::size_t>(rest % size)];
      rest /= size;
    }
    if (const std::string key = contradiction_in(job.model, values); !key.empty()) {
      ++space.refused[key];
      continue;
    }
    Architecture architecture{.model = model_of(job.model, ranges, values), .parameters = {}};
    // Counted first: bounds leave most of a space out, and rules cost more.
    architecture.parameters = graph_build::count_parameters(architecture.model);
    if (is_outside(architecture.parameters, bounds)) {
      ++space.outside;
      continue;
    }
    if (const std::string key = broken_rule(job, architecture.model); !key.empty()) {
      ++space.refused[key];
      continue;
    }
    if (architecture.model == job.model) space.given = space.architectures.size();
    space.architectures.push_back(std::move(architecture));
  }
  return space;
}

std::string architecture_text(const ModelSpec& model) {
  const std::int64_t dense = std::ranges::count(model.layers, LayerKind::dense);
  std::string text = fmt::format("{} layers", model.layers.size());
  if (dense > 0 && model.has_experts()) text += fmt::format(" ({} dense)", dense);
  text += fmt::format(", hidden {}, {} heads", model.hidden, model.attention.heads);
  if (dense > 0) text += fmt::format(", dense width {}", model.dense_width);
  if (model.has_experts()) {
    text += fmt::format(", {} experts top-{} of {}", model.moe.experts, model.moe.top_k, model.moe.width);
    if (model.moe.shared_width > 0) text += fmt::format(", shared {}", model.moe.shared_width);
  }
  if (model.mtp_layers > 0) text += fmt::format(", MTP {}", model.mtp_layers);
  return text;
}

}  // namespace tidemark::search
