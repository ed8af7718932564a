#include "planner/search/layout_space.h"

#include <algorithm>
#include <utility>

#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/layer_placement.h"

namespace tidemark::search {
namespace {

constexpr std::int32_t kMostTensor = 64;
constexpr std::int32_t kMostContext = 4;
constexpr std::int64_t kMostMicroBatch = 8;
constexpr std::int32_t kMostChunks = 8;
/// More empty slots than layers are no layout anybody runs.
constexpr std::int64_t kMostEmptyShare = 4;  ///< at most a fourth of the slots

std::vector<std::int32_t> powers_of_two(std::int64_t most) {
  std::vector<std::int32_t> list;
  for (std::int32_t value = 1; value <= most; value *= 2) list.push_back(value);
  return list;
}

std::vector<std::int32_t> divisors(std::int64_t of, std::int64_t most) {
  std::vector<std::int32_t> list;
  for (std::int32_t value = 1; value <= std::min(of, most); ++value)
    if (of % value == 0) list.push_back(value);
  return list;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? std::move(otherwise) : given;
}

std::int64_t empty_slots(const graph_build::ModelSpec& model, std::int64_t stages, bool mtp_slot) {
  const std::int64_t filled = static_cast<std::int64_t>(model.layers.size()) + (mtp_slot ? 1 : 0);
  return (stages - filled % stages) % stages;
}

using Slots = std::vector<std::vector<std::vector<graph_build::Slot>>>;

/// Empty: too many slots would be, or the module finds no place.
Slots spread_layers(const graph_build::ModelSpec& model, const graph_build::ParallelSpec& parallel, Spread spread) {
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_pipeline;
  const bool mtp = model.mtp_layers > 0 && spread != Spread::tail;
  const std::int64_t empty = empty_slots(model, stages, mtp);
  const std::int64_t total = static_cast<std::int64_t>(model.layers.size()) + (mtp ? 1 : 0) + empty;
  const std::int64_t per_stage = total / stages;
  if (empty * kMostEmptyShare > total) return {};
  graph_build::SlotChoice choice;
  if (mtp) choice.mtp_slot = total - 1;
  for (std::int64_t i = 0; i < empty; ++i) {
    if (spread == Spread::tail) choice.noop_slots.push_back(total - 1 - i);
    if (spread == Spread::back) choice.noop_slots.push_back((stages - i) * per_stage - 1);
    if (spread == Spread::front) choice.noop_slots.push_back(i * per_stage);
  }
  // The last stage's last slot may be wanted twice: the module then sits before the empty slot.
  if (mtp && std::ranges::find(choice.noop_slots, *choice.mtp_slot) != choice.noop_slots.end()) {
    if (per_stage < 2) return {};
    --*choice.mtp_slot;
  }
  return graph_build::place_layers(model, parallel, choice).slots;
}

/// Empty slots do nothing, so layouts that differ in them alone are one.
Slots without_empty(Slots slots) {
  for (auto& rank : slots)
    for (auto& chunk : rank)
      std::erase_if(chunk, [](const graph_build::Slot& slot) { return slot.kind == graph_build::Slot::Kind::noop; });
  return slots;
}

class Enumerator {
 public:
  Enumerator(const graph_build::JobSpec& job, const Machine& machine, std::int64_t devices, const LayoutRanges& ranges)
      : machine_(machine),
        job_(job),
        given_(job.parallel),
        devices_(devices),
        ranges_(ranges),
        layers_(static_cast<std::int64_t>(job.model.layers.size())) {}

  LayoutSpace run() {
    given_.slots = without_empty(given_.slots);
    given_.auto_placement = job_.parallel.auto_placement = false;
    if (!given_.is_head_apart()) given_.head_stage = -1;
    if (given_.devices() == devices_) {
      space_.groups = 1;
      consider(Spread::given);
      space_.has_given = !space_.layouts.empty();
    }
    const std::int64_t tensor =
        std::min<std::int64_t>(kMostTensor, std::max<std::int64_t>(1, 2 * machine_.devices_per_node()));
    for (const std::int32_t t : chosen(ranges_.tensor, powers_of_two(std::min(tensor, devices_))))
      for (const std::int32_t c :
           chosen(ranges_.context, powers_of_two(std::min<std::int64_t>(kMostContext, devices_))))
        for (const std::int32_t p : chosen(ranges_.pipeline, divisors(devices_, layers_))) pipelines(t, c, p);
    return std::move(space_);
  }

 private:
  void pipelines(std::int32_t tensor, std::int32_t context, std::int32_t pipeline) {
    const std::int64_t stage = std::int64_t{tensor} * context * pipeline;
    if (devices_ % stage != 0) return;
    graph_build::ParallelSpec& parallel = job_.parallel;
    parallel.tensor = tensor;
    parallel.context = context;
    parallel.pipeline = pipeline;
    parallel.data = static_cast<std::int32_t>(devices_ / stage);
    parallel.sequence_parallel = tensor > 1;
    for (const std::int32_t v : chosen(ranges_.virtual_pipeline, chunks(pipeline))) {
      parallel.virtual_pipeline = v;
      std::vector<Slots> seen;
      for (const Spread spread : spreads(parallel)) {
        parallel.slots = spread_layers(job_.model, parallel, spread);
        Slots filled = without_empty(parallel.slots);
        if (parallel.slots.empty() || std::ranges::find(seen, filled) != seen.end()) continue;
        for (const std::int32_t head_stage : head_stages(parallel)) {
          parallel.head_stage = head_stage;
          micro_batches(spread, filled == given_.slots && parallel.main_head_stage() == given_.main_head_stage());
        }
        seen.push_back(std::move(filled));
      }
    }
  }

  /// The last, and that of the last layer where an MTP module has the last to itself.
  [[nodiscard]] std::vector<std::int32_t> head_stages(const graph_build::ParallelSpec& parallel) const {
    const std::int64_t layer_stage = parallel.last_layer_stage();
    if (job_.model.mtp_layers == 0 || parallel.pipeline == 1 || layer_stage + 1 == parallel.stages()) return {-1};
    return {-1, static_cast<std::int32_t>(layer_stage)};
  }

  /// One chunk, or as many as leave every stage a layer.
  [[nodiscard]] std::vector<std::int32_t> chunks(std::int32_t pipeline) const {
    std::vector<std::int32_t> list = {1};
    for (std::int32_t v = 2;
         pipeline > 1 && v <= kMostChunks && std::int64_t{pipeline} * v <= layers_ + job_.model.mtp_layers; ++v)
      list.push_back(v);
    return list;
  }

  /// Those that differ: without an empty slot to place there is one way.
  [[nodiscard]] std::vector<Spread> spreads(const graph_build::ParallelSpec& parallel) const {
    const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_pipeline;
    if (stages == 1) return {Spread::tail};
    std::vector<Spread> list;
    if (empty_slots(job_.model, stages, false) * kMostEmptyShare <= layers_ + stages) list.push_back(Spread::tail);
    const bool mtp = job_.model.mtp_layers > 0;
    if (!mtp && empty_slots(job_.model, stages, false) == 0) return {Spread::tail};
    list.push_back(Spread::back);
    if (empty_slots(job_.model, stages, mtp) > 0) list.push_back(Spread::front);
    return list;
  }

  /// `as_given`: layers sit where the job has them.
  void micro_batches(Spread spread, bool as_given) {
    graph_build::ParallelSpec& parallel = job_.parallel;
    std::vector<std::int64_t> sizes = ranges_.micro_batch;
    for (std::int64_t size = 1; ranges_.micro_batch.empty() && size <= kMostMicroBatch; size *= 2)
      sizes.push_back(size);
    const bool experts = job_.model.has_experts();
    const auto degrees =
        experts ? chosen(ranges_.expert, powers_of_two(job_.model.moe.experts)) : std::vector<std::int32_t>{1};
    for (const std::int32_t expert : degrees)
      for (const bool extends : {false, true}) {
        if (extends && (!experts || parallel.tensor == 1)) continue;
        ++space_.groups;
        parallel.expert = expert;
        parallel.tensor_extends_expert = extends;
        for (const std::int64_t size : sizes) passes(spread, size, as_given);
      }
  }

  void passes(Spread spread, std::int64_t micro_batch, bool as_given) {
    graph_build::ParallelSpec& parallel = job_.parallel;
    parallel.micro_batch = micro_batch;
    parallel.expert_exchange_parts = parallel.exchanges_rows() ? given_.expert_exchange_parts : 1;
    for (const bool hierarchical : {false, true})
      for (const bool overlap : {false, true}) {
        if (hierarchical && parallel.expert == 1) continue;
        if (overlap && parallel.pipeline == 1) continue;
        parallel.hierarchical_expert_communication = hierarchical;
        parallel.overlap_forward_backward = overlap;
        if (!(as_given && is_given())) consider(spread);
      }
  }

  /// But for the slots.
  [[nodiscard]] bool is_given() {
    if (!space_.has_given) return false;
    Slots slots = given_.slots;
    std::swap(slots, job_.parallel.slots);
    const bool same = job_.parallel == given_;
    std::swap(slots, job_.parallel.slots);
    return same;
  }

  void consider(Spread spread) {
    ++space_.tried;
    const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(job_);
    if (!problems.empty()) {
      ++space_.refused[problems.front().key];
      return;
    }
    if (spread != Spread::given && is_flat_by_nature()) {
      --space_.tried;
      return;
    }
    Slots slots = std::move(job_.parallel.slots);
    job_.parallel.slots.clear();
    space_.layouts.push_back({.parallel = job_.parallel, .spread = spread, .group = space_.groups - 1});
    job_.parallel.slots = std::move(slots);
  }

  /// Hierarchical exchange of a group within one node is the flat one. REQUIRES: job_ is legal.
  [[nodiscard]] bool is_flat_by_nature() const {
    return job_.parallel.hierarchical_expert_communication &&
           graph_build::device_shapes(job_, machine_).expert_group.nodes == 1;
  }

  const Machine& machine_;
  graph_build::JobSpec job_;  ///< its layout is the one under way
  graph_build::ParallelSpec given_;
  std::int64_t devices_;
  const LayoutRanges& ranges_;
  std::int64_t layers_;
  LayoutSpace space_;
};

}  // namespace

const char* name_of(Spread spread) {
  switch (spread) {
    case Spread::given:
      return "as given";
    case Spread::tail:
      return "tail";
    case Spread::back:
      return "back";
    case Spread::front:
      return "front";
    case Spread::found:
      return "auto";
  }
  return "";
}

LayoutSpace enumerate_layouts(const graph_build::JobSpec& job, const Machine& machine, std::int64_t devices,
                              const LayoutRanges& ranges) {
  return Enumerator(job, machine, devices, ranges).run();
}

graph_build::JobSpec with_layout(const graph_build::JobSpec& job, const SearchLayout& layout) {
  graph_build::JobSpec changed = job;
  changed.parallel = layout.parallel;
  if (layout.spread == Spread::found) {
    place(job.model, layout.placement, changed.parallel);
    return changed;
  }
  changed.parallel.slots =
      layout.spread == Spread::given ? job.parallel.slots : spread_layers(job.model, layout.parallel, layout.spread);
  return changed;
}

std::string degrees_text(const SearchLayout& layout) {
  const graph_build::ParallelSpec& p = layout.parallel;
  std::string text = "TP" + std::to_string(p.tensor);
  if (p.context > 1) text += " CP" + std::to_string(p.context);
  text += " PP" + std::to_string(p.pipeline) + " VPP" + std::to_string(p.virtual_pipeline) + " EP" +
          std::to_string(p.expert) + " MBS" + std::to_string(p.micro_batch) + " DP" + std::to_string(p.data);
  if (p.tensor_extends_expert) text += " TP-extend-EP";
  if (p.hierarchical_expert_communication) text += " hierarchical";
  if (p.overlap_forward_backward) text += " overlap";
  return text;
}

std::string layout_text(const SearchLayout& layout) {
  const std::string text = degrees_text(layout);
  if (layout.spread == Spread::found)
    return text + ", " + name_of(layout.spread) + ": " + placement_text(layout.placement);
  return text + (layout.parallel.is_head_apart() ? " head apart, " : ", ") + name_of(layout.spread);
}

}  // namespace tidemark::search
