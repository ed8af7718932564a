#include "planner/graph_build/layer_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tidemark::graph_build {
namespace {

constexpr const char* kNoopKey = "parallel.placement.noop_slots";
constexpr const char* kMtpKey = "parallel.placement.mtp_slot";

SpecProblem uneven(const ModelSpec& model, const ParallelSpec& parallel, const SlotChoice& choice, std::int64_t total) {
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_pipeline;
  const std::int64_t missing = stages - total % stages;
  const bool described = !choice.noop_slots.empty() || choice.mtp_slot.has_value();
  const std::string have =
      choice.mtp_slot
          ? fmt::format("{} layers, {} no-op slots and the MTP slot", model.layers.size(), choice.noop_slots.size())
          : fmt::format("{} layers and {} no-op slots", model.layers.size(), choice.noop_slots.size());
  return {
      .key = described ? "parallel.placement" : "parallel.pipeline",
      .message = fmt::format("{} do not fill {} ranks x {} chunks evenly; add {} to placement.noop_slots (one for each "
                             "empty slot) or change pipeline or virtual_pipeline",
                             have, parallel.pipeline, parallel.virtual_pipeline,
                             missing == 1 ? "1 slot" : fmt::format("{} slots", missing))};
}

std::vector<SpecProblem> slot_problems(const ModelSpec& model, const SlotChoice& choice, std::int64_t total) {
  std::vector<SpecProblem> problems;
  std::set<std::int64_t> taken;
  for (const std::int64_t slot : choice.noop_slots) {
    if (slot < 0 || slot >= total) {
      problems.push_back({kNoopKey, fmt::format("slot {} does not exist; slots are 0 to {}", slot, total - 1)});
    } else if (!taken.insert(slot).second) {
      problems.push_back({kNoopKey, fmt::format("slot {} is listed twice; list each slot once", slot)});
    }
  }
  if (!choice.mtp_slot) return problems;
  const std::int64_t slot = *choice.mtp_slot;
  if (model.mtp_layers == 0) {
    problems.push_back({kMtpKey, "the model has no MTP layer; drop mtp_slot or set model.mtp_layers"});
  } else if (slot < 0 || slot >= total) {
    problems.push_back({kMtpKey, fmt::format("slot {} does not exist; slots are 0 to {}", slot, total - 1)});
  } else if (taken.contains(slot)) {
    problems.push_back({kMtpKey, fmt::format("slot {} is a no-op slot too; choose one", slot)});
  }
  return problems;
}

void append_mtp(const ModelSpec& model, std::vector<Slot>& chunk) {
  for (std::int32_t module = 0; module < model.mtp_layers; ++module) {
    chunk.push_back({.kind = Slot::Kind::mtp, .layer = module});
  }
}

bool are_in_range(const ModelSpec& model, const ParallelSpec& parallel) {
  return parallel.pipeline >= 1 && parallel.virtual_pipeline >= 1 && !model.layers.empty() && model.mtp_layers >= 0 &&
         model.mtp_layers <= kMostMtpLayers;
}

}  // namespace

LayerPlacement place_layers(const ModelSpec& model, const ParallelSpec& parallel, const SlotChoice& choice) {
  LayerPlacement placement;
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_pipeline;
  if (!are_in_range(model, parallel)) return placement;

  const auto total =
      static_cast<std::int64_t>(model.layers.size() + choice.noop_slots.size()) + (choice.mtp_slot ? 1 : 0);
  placement.problems = slot_problems(model, choice, total);
  if (total % stages != 0) placement.problems.push_back(uneven(model, parallel, choice, total));
  if (!placement.problems.empty()) return placement;

  const std::set<std::int64_t> noops(choice.noop_slots.begin(), choice.noop_slots.end());
  const std::vector<std::vector<Slot>> no_chunks(static_cast<std::size_t>(parallel.virtual_pipeline));
  placement.slots.assign(static_cast<std::size_t>(parallel.pipeline), no_chunks);
  std::int32_t layer = 0;
  for (std::int64_t slot = 0; slot < total; ++slot) {
    const std::int64_t stage = slot / (total / stages);
    auto& chunk = placement.slots[static_cast<std::size_t>(stage % parallel.pipeline)]
                                 [static_cast<std::size_t>(stage / parallel.pipeline)];
    if (noops.contains(slot)) {
      chunk.push_back({.kind = Slot::Kind::noop, .layer = -1});
    } else if (slot == choice.mtp_slot) {
      append_mtp(model, chunk);
    } else {
      chunk.push_back({.kind = Slot::Kind::layer, .layer = layer++});
    }
  }
  if (!choice.mtp_slot) append_mtp(model, placement.slots.back().back());
  return placement;
}

void fill_stages(const ModelSpec& model, const std::vector<std::int32_t>& counts, ParallelSpec& parallel) {
  const auto ranks = static_cast<std::size_t>(parallel.pipeline);
  parallel.slots.assign(ranks, std::vector<std::vector<Slot>>(static_cast<std::size_t>(parallel.virtual_pipeline)));
  std::int32_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage)
    for (std::int32_t i = 0; i < counts[stage]; ++i)
      parallel.slots[stage % ranks][stage / ranks].push_back({.kind = Slot::Kind::layer, .layer = layer++});
  append_mtp(model, parallel.slots.back().back());
}

std::vector<std::int32_t> even_layers(std::int32_t layers, std::int32_t stages) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stages), layers / stages);
  for (std::int32_t stage = 0; stage < layers % stages; ++stage) ++counts[static_cast<std::size_t>(stage)];
  return counts;
}

void fill_stages_evenly(const ModelSpec& model, ParallelSpec& parallel) {
  if (!are_in_range(model, parallel) || parallel.stages() > 2 * kMostLayers) return;
  const auto layers = static_cast<std::int32_t>(std::min<std::size_t>(model.layers.size(), kMostLayers));
  fill_stages(model, even_layers(layers, static_cast<std::int32_t>(parallel.stages())), parallel);
}

std::vector<std::int32_t> stage_layers(const ParallelSpec& parallel) {
  std::vector<std::int32_t> counts;
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(parallel.virtual_pipeline); ++chunk)
    for (const auto& rank : parallel.slots)
      counts.push_back(static_cast<std::int32_t>(std::ranges::count(rank[chunk], Slot::Kind::layer, &Slot::kind)));
  return counts;
}

}  // namespace tidemark::graph_build
