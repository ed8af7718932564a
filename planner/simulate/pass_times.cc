#include "planner/simulate/pass_times.h"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/layer_placement.h"
#include "planner/graph_build/step_graph.h"
#include "planner/simulate/pass_clock.h"
#include "planner/simulate/simulator.h"

namespace tidemark::simulate {
namespace {

enum class Part : std::uint8_t { forward, backward, end };

/// Which pass each op of a stage with one micro-batch belongs to.
std::vector<Part> parts_of(const Graph& graph) {
  std::vector<Part> parts;
  Part now = Part::forward;
  bool computed = false;
  for (const Op& op : graph.ops) {
    const OpPhase phase = graph.op_templates[row(op.op_template)].phase;
    computed = computed || phase == OpPhase::forward || phase == OpPhase::send;
    if (phase == OpPhase::backward || phase == OpPhase::weight_gradient || (phase == OpPhase::receive && computed))
      now = Part::backward;
    if (phase == OpPhase::gradient_reduction || phase == OpPhase::optimizer) now = Part::end;
    parts.push_back(now);
  }
  return parts;
}

/// Plays the ops of one part on idle lanes.
PassTime play(const Graph& graph, const RankWork& work, const std::vector<Part>& parts, Part part) {
  PassTime time;
  std::vector<std::int64_t> end(parts.size(), 0);
  std::vector<char> after_compute(parts.size(), 0), after_input(parts.size(), 0);
  std::array<std::int64_t, kLaneCount> lane_end{};
  std::array<char, kLaneCount> lane_computed{}, lane_input{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != part) continue;
    const auto lane = static_cast<std::size_t>(work.lanes[i]);
    const OpPhase phase = graph.op_templates[row(graph.ops[i].op_template)].phase;
    std::int64_t start = lane_end[lane];
    bool computed = work.lanes[i] == Lane::compute || lane_computed[lane] != 0;
    bool input = phase == OpPhase::receive || lane_input[lane] != 0;
    for (auto w = static_cast<std::size_t>(work.first_wait[i]); w < static_cast<std::size_t>(work.first_wait[i + 1]);
         ++w) {
      const auto before = static_cast<std::size_t>(work.waits[w]);
      if (parts[before] != part) continue;
      start = std::max(start, end[before]);
      computed = computed || after_compute[before] != 0;
      input = input || after_input[before] != 0;
    }
    const std::int64_t duration = computed ? work.duration_ns[i] : 0;
    end[i] = lane_end[lane] = start + duration;
    after_compute[i] = lane_computed[lane] = computed ? 1 : 0;
    after_input[i] = lane_input[lane] = input ? 1 : 0;
    if (work.lanes[i] == Lane::compute) {
      time.compute_ns += duration;
      if (!input) time.early_ns += duration;
      time.lane_ns = std::max(time.lane_ns, end[i]);
    }
    if (phase == OpPhase::send) time.out_ns = end[i];
    if (work.lanes[i] == Lane::intra_comm) time.intra_ns += work.duration_ns[i];
    if (work.lanes[i] == Lane::inter_comm) time.inter_ns += work.duration_ns[i];
    time.end_ns = std::max(time.end_ns, end[i]);
  }
  return time;
}

/// What tells apart the degrees that op times depend on.
std::string key_of(const graph_build::ParallelSpec& p, const Machine& machine) {
  std::string key;
  const bool sends_inside_node = std::int64_t{p.tensor} * p.context * p.data < machine.devices_per_node();
  for (const std::int64_t number :
       {std::int64_t{p.tensor}, std::int64_t{p.context}, std::int64_t{p.expert}, p.micro_batch,
        std::int64_t{p.expert_exchange_parts}, std::int64_t{p.tensor_extends_expert},
        std::int64_t{p.hierarchical_expert_communication}, std::int64_t{p.overlap_forward_backward},
        std::int64_t{p.sequence_parallel}, std::int64_t{sends_inside_node},
        std::int64_t{p.sharded_gradients ? p.data : 0}})  // whole weights and gradients cross all of them in every pass
    key += std::to_string(number) + ' ';
  return key;
}

/// And what a chunk holds.
std::string key_of(const graph_build::JobSpec& job, const std::string& degrees, const ChunkContent& content) {
  std::string key = degrees;
  if (content.is_first) key += 'f';
  if (content.is_last) key += 'l';
  if (content.has_head) key += 'h';
  for (std::int32_t i = 0; i < content.layers; ++i) {
    const auto layer = static_cast<std::size_t>(content.first_layer + i);
    const bool moe = job.model.layers[layer] == graph_build::LayerKind::moe;
    key += job.model.is_windowed(layer) ? (moe ? 'E' : 'D') : (moe ? 'e' : 'd');
  }
  key.append(static_cast<std::size_t>(content.is_last ? job.model.mtp_layers : 0), 'm');
  return key;
}

/// Of a layer or an MTP module.
ChunkTime LayerTimes::*time_of(const graph_build::JobSpec& job, const graph_build::Slot& slot) {
  if (slot.kind == graph_build::Slot::Kind::mtp) return &LayerTimes::mtp;
  const auto layer = static_cast<std::size_t>(slot.layer);
  const bool moe = job.model.layers[layer] == graph_build::LayerKind::moe;
  if (job.model.is_windowed(layer)) return moe ? &LayerTimes::windowed_moe : &LayerTimes::windowed_dense;
  return moe ? &LayerTimes::moe : &LayerTimes::dense;
}

/// One stage and one micro-batch with a layer of each kind.
graph_build::JobSpec single_layers(const graph_build::JobSpec& job) {
  graph_build::JobSpec single = job;
  graph_build::ParallelSpec& p = single.parallel;
  p.pipeline = p.virtual_pipeline = 1;
  p.head_stage = -1;
  p.global_batch = p.micro_batch * p.data;
  std::vector<graph_build::Slot> slots;
  for (const graph_build::LayerKind kind : {graph_build::LayerKind::dense, graph_build::LayerKind::moe})
    for (const bool windowed : {false, true})
      for (std::size_t layer = 0; layer < job.model.layers.size(); ++layer) {
        if (job.model.layers[layer] != kind || job.model.is_windowed(layer) != windowed) continue;
        slots.push_back({.layer = static_cast<std::int32_t>(layer)});
        break;
      }
  if (job.model.mtp_layers > 0) slots.push_back({.kind = graph_build::Slot::Kind::mtp, .layer = 0});
  p.slots = {{slots}};
  return single;
}

/// One micro-batch on as many ranks as `job` has stages, one of which holds `content`; its neighbours hold the rest.
struct LoneChunk {
  graph_build::JobSpec job;
  std::int32_t rank = 0;
};

LoneChunk lone_chunk(const graph_build::JobSpec& job, const ChunkContent& content) {
  LoneChunk lone{.job = job};
  graph_build::ParallelSpec& p = lone.job.parallel;
  const std::int64_t stages = job.parallel.stages();
  p.pipeline = static_cast<std::int32_t>(stages);
  p.virtual_pipeline = 1;
  p.global_batch = p.micro_batch * p.data;
  lone.rank = content.is_first ? 0 : content.is_last ? p.pipeline - 1 : 1;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stages), 0);
  const auto at = static_cast<std::size_t>(lone.rank);
  const std::int32_t behind = static_cast<std::int32_t>(job.model.layers.size()) - content.first_layer - content.layers;
  if (content.first_layer > 0) counts[at - 1] = content.first_layer;
  counts[at] = content.layers;
  if (behind > 0) counts[at + 1] = behind;
  graph_build::fill_stages(job.model, counts, p);
  const bool is_apart = content.has_head != content.is_last;
  p.head_stage = is_apart ? static_cast<std::int32_t>(p.last_layer_stage()) : -1;
  return lone;
}

ChunkTime play_both(const Graph& graph, const RankWork& work, const std::vector<Part>& parts) {
  return {.forward = play(graph, work, parts, Part::forward), .backward = play(graph, work, parts, Part::backward)};
}

template <class Value>
std::optional<Value> find(const std::map<std::string, Value>& table, std::mutex& mutex, const std::string& key) {
  const std::scoped_lock lock(mutex);
  const auto found = table.find(key);
  return found == table.end() ? std::nullopt : std::optional<Value>(found->second);
}

/// Lanes of one rank and micro-batch.
struct Busy {
  std::int64_t compute = 0, intra = 0, inter = 0;
  std::int64_t alone = 0;  ///< layer after layer, nothing beside them

  void add(const ChunkTime& time) {
    for (const PassTime* pass : {&time.forward, &time.backward}) {
      compute += pass->compute_ns;
      intra += pass->intra_ns;
      inter += pass->inter_ns;
      alone += pass->end_ns;
    }
  }
  [[nodiscard]] std::int64_t longest_lane() const { return std::max({compute, intra, inter}); }
};

}  // namespace

Result<ChunkTime> PassTimeTable::chunk_of(const graph_build::JobSpec& job, const ChunkContent& content) {
  const std::string key = key_of(job, key_of(job.parallel, machine_), content);
  if (const auto known = find(chunks_, mutex_, key)) return *known;
  const LoneChunk lone = lone_chunk(job, content);
  const Result<Graph> graph = graph_build::build_step_graph(lone.job, machine_, lone.rank, load_);
  if (!graph) return graph.error();
  const RankWork work = work_of(graph.value(), cost::op_durations(graph.value(), machine_, time_scale_));
  const ChunkTime time = play_both(graph.value(), work, parts_of(graph.value()));
  const std::scoped_lock lock(mutex_);
  return chunks_.try_emplace(key, time).first->second;
}

Result<StageTimes> ChunkTimes::times_of(const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  const std::vector<std::int32_t> counts = graph_build::stage_layers(p);
  StageTimes times(p.slots.size());
  ChunkContent content;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    content.first_layer += content.layers;
    content.layers = counts[stage];
    content.is_first = stage == 0;
    content.is_last = stage + 1 == counts.size();
    content.has_head = static_cast<std::int64_t>(stage) == p.main_head_stage();
    const Result<ChunkTime> time = chunk_of(job, content);
    if (!time) return time.error();
    times[stage % p.slots.size()].push_back(time.value());
  }
  return times;
}

Result<LayerTimes> PassTimeTable::layers_of(const graph_build::JobSpec& job) {
  const std::string key = key_of(job.parallel, machine_);
  if (const auto known = find(layers_, mutex_, key)) return *known;
  const graph_build::JobSpec single = single_layers(job);
  const Result<Graph> graph = graph_build::build_step_graph(single, machine_, 0, load_);
  if (!graph) return graph.error();
  const RankWork work = work_of(graph.value(), cost::op_durations(graph.value(), machine_, time_scale_));
  const std::vector<Part> parts = parts_of(graph.value());
  const auto of_layer = [&](std::int32_t layer) {
    std::vector<Part> chosen = parts;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (graph.value().sites[row(graph.value().ops[i].site)].layer != layer) chosen[i] = Part::end;
    return play_both(graph.value(), work, chosen);
  };
  LayerTimes times;
  for (const graph_build::Slot& slot : single.parallel.slots.front().front()) {
    const bool mtp = slot.kind == graph_build::Slot::Kind::mtp;
    const auto layer = mtp ? static_cast<std::int32_t>(job.model.layers.size()) : slot.layer;
    times.*time_of(job, slot) = of_layer(layer);
  }
  const std::scoped_lock lock(mutex_);
  return layers_.try_emplace(key, times).first->second;
}

const ChunkTime& LayerTimes::of(const graph_build::JobSpec& job, const graph_build::Slot& slot) const {
  return this->*time_of(job, slot);
}

StepGuess guess_by_layers(const LayerTimes& times, const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  std::int64_t most_compute = 0, most = 0, sum = 0;
  for (const auto& rank : p.slots) {
    Busy busy;
    for (const auto& chunk : rank)
      for (const graph_build::Slot& slot : chunk) {
        if (slot.kind == graph_build::Slot::Kind::noop) continue;
        busy.add(times.of(job, slot));
      }
    const std::int64_t rank_ns = p.overlap_forward_backward ? busy.longest_lane() : busy.alone;
    most_compute = std::max(most_compute, busy.compute);
    most = std::max(most, rank_ns);
    sum += rank_ns;
  }
  const std::int64_t fill = sum / p.pipeline * (p.pipeline - 1) / p.virtual_pipeline;
  return {.bound_ns = most_compute * p.micro_batches(), .estimate_ns = most * p.micro_batches() + fill};
}

Result<StepGuess> guess_by_passes(const StageTimes& times, const graph_build::ParallelSpec& parallel) {
  Result<PassClock> clock = PassClock::of(parallel);
  if (!clock) return clock.error();
  const Result<std::int64_t> bound = clock.value().bound_ns(times);
  if (!bound) return bound.error();
  const Result<std::int64_t> estimate = clock.value().step_ns(times);
  if (!estimate) return estimate.error();
  return StepGuess{.bound_ns = bound.value(), .estimate_ns = estimate.value()};
}

}  // namespace tidemark::simulate
