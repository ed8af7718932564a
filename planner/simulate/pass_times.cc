#include "planner/simulate/pass_times.h"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/pipeline_schedule.h"
#include "planner/graph_build/step_graph.h"
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
std::string key_of(const graph_build::ParallelSpec& p) {
  std::string key;
  for (const std::int64_t number :
       {std::int64_t{p.tensor}, std::int64_t{p.context}, std::int64_t{p.expert}, p.micro_batch,
        std::int64_t{p.expert_exchange_parts}, std::int64_t{p.tensor_extends_expert},
        std::int64_t{p.hierarchical_expert_communication}, std::int64_t{p.overlap_forward_backward},
        std::int64_t{p.sequence_parallel},
        std::int64_t{p.sharded_gradients ? p.data : 0}})  // whole weights and gradients cross all of them in every pass
    key += std::to_string(number) + ' ';
  return key;
}

/// And what a chunk holds.
std::string key_of(const graph_build::JobSpec& job, const std::string& degrees, std::size_t rank, std::size_t chunk) {
  const graph_build::ParallelSpec& p = job.parallel;
  std::string key = degrees;
  if (rank == 0 && chunk == 0) key += 'f';
  const auto stage = static_cast<std::int64_t>(chunk * p.slots.size() + rank);
  if (stage + 1 == p.stages()) key += 'l';
  if (stage == p.main_head_stage()) key += 'h';
  for (const graph_build::Slot& slot : p.slots[rank][chunk]) {
    if (slot.kind == graph_build::Slot::Kind::mtp) key += 'm';
    if (slot.kind != graph_build::Slot::Kind::layer) continue;
    const auto layer = static_cast<std::size_t>(slot.layer);
    const bool moe = job.model.layers[layer] == graph_build::LayerKind::moe;
    key += job.model.is_windowed(layer) ? (moe ? 'E' : 'D') : (moe ? 'e' : 'd');
  }
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

/// Every chunk a rank of its own, and one micro-batch.
graph_build::JobSpec stages_of(const graph_build::JobSpec& job) {
  graph_build::JobSpec stages = job;
  graph_build::ParallelSpec& p = stages.parallel;
  p.pipeline = job.parallel.pipeline * job.parallel.virtual_pipeline;
  p.virtual_pipeline = 1;
  p.global_batch = p.micro_batch * p.data;
  p.slots.clear();
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(job.parallel.virtual_pipeline); ++chunk)
    for (const auto& rank : job.parallel.slots) p.slots.push_back({rank[chunk]});
  return stages;
}

/// The passes of one rank played against those of its neighbours.
class ScheduleClock {
 public:
  /// `proven`: a bound; otherwise interleaved passes also wait for each other's communication.
  ScheduleClock(const StageTimes& times, const graph_build::ParallelSpec& parallel, bool proven)
      : times_(times),
        shape_{.ranks = parallel.pipeline,
               .chunks = parallel.virtual_pipeline,
               .micro_batches = static_cast<std::int32_t>(parallel.micro_batches()),
               .overlap = parallel.overlap_forward_backward},
        proven_(proven),
        ranks_(parallel.pipeline),
        chunks_(parallel.virtual_pipeline),
        micro_batches_(parallel.micro_batches()),
        lane_free_(static_cast<std::size_t>(ranks_), 0),
        next_(static_cast<std::size_t>(ranks_), 0) {
    const auto stages = static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(chunks_);
    for (auto& ready : ready_) ready.assign(stages * static_cast<std::size_t>(micro_batches_), kNever);
    for (std::size_t mb = 0; mb < static_cast<std::size_t>(micro_batches_); ++mb) {
      ready_[0][mb * stages] = 0;                        // the first stage's input
      ready_[1][mb * stages + stages - 1] = kAfterLoss;  // the last stage's gradient is its own
    }
  }

  Result<std::int64_t> run() {
    std::vector<std::vector<graph_build::Pass>> passes;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      auto list = graph_build::pipeline_passes(shape_, rank);
      if (!list) return list.error();
      passes.push_back(std::move(list).value());
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < passes.size(); ++rank)
        while (next_[rank] < passes[rank].size() && step(rank, passes[rank])) moved = true;
    }
    for (std::size_t rank = 0; rank < passes.size(); ++rank)
      if (next_[rank] < passes[rank].size()) return internal_fault("the schedule of passes waits for itself");
    return *std::ranges::max_element(lane_free_);
  }

 private:
  static constexpr std::int64_t kNever = -2, kAfterLoss = -1;

  [[nodiscard]] std::size_t index(std::size_t rank, const graph_build::Pass& pass, std::int64_t stage_step) const {
    const std::int64_t stage = std::int64_t{pass.chunk} * ranks_ + static_cast<std::int64_t>(rank) + stage_step;
    return static_cast<std::size_t>(std::int64_t{pass.micro_batch} * ranks_ * chunks_ + stage);
  }
  [[nodiscard]] const PassTime& time_of(std::size_t rank, const graph_build::Pass& pass) const {
    const ChunkTime& time = times_[rank][static_cast<std::size_t>(pass.chunk)];
    return pass.forward ? time.forward : time.backward;
  }
  [[nodiscard]] std::int64_t ready_ns(std::size_t rank, const graph_build::Pass& pass) const {
    return ready_[pass.forward ? 0 : 1][index(rank, pass, 0)];
  }
  /// When its first compute op may start.
  [[nodiscard]] std::int64_t start_of(std::size_t rank, const graph_build::Pass& pass) const {
    return std::max(lane_free_[rank], ready_ns(rank, pass) - time_of(rank, pass).early_ns);
  }
  void send(std::size_t rank, const graph_build::Pass& pass, std::int64_t sent_ns) {
    const std::int64_t to =
        std::int64_t{pass.chunk} * ranks_ + static_cast<std::int64_t>(rank) + (pass.forward ? 1 : -1);
    if (to < 0 || to >= std::int64_t{ranks_} * chunks_) return;
    ready_[pass.forward ? 0 : 1][index(rank, pass, pass.forward ? 1 : -1)] = sent_ns;
  }

  [[nodiscard]] std::int64_t together_ns(const PassTime& a, const PassTime& b) const {
    const std::int64_t compute = a.compute_ns + b.compute_ns;
    return proven_ ? compute : std::max({compute, a.intra_ns + b.intra_ns, a.inter_ns + b.inter_ns});
  }

  /// Plays the next pass, or the next two where they run interleaved. False: an input is not there yet.
  bool step(std::size_t rank, const std::vector<graph_build::Pass>& passes) {
    const graph_build::Pass& pass = passes[next_[rank]];
    const bool pair = pass.paired_with_next;
    if (ready_ns(rank, pass) == kNever) return false;
    if (pair && ready_ns(rank, passes[next_[rank] + 1]) == kNever) return false;
    const std::int64_t start = start_of(rank, pass);
    if (!pair) {
      send(rank, pass, start + time_of(rank, pass).out_ns);
      lane_free_[rank] = start + time_of(rank, pass).lane_ns;
      ++next_[rank];
      return true;
    }
    const graph_build::Pass& other = passes[next_[rank] + 1];
    const PassTime &time = time_of(rank, pass), &other_time = time_of(rank, other);
    const std::int64_t other_start = start_of(rank, other);
    const std::int64_t both_end = std::min(start, other_start) + together_ns(time, other_time);
    // Interleaved to their ends, both rather send when both are done.
    const std::int64_t earliest = proven_ ? 0 : both_end;
    send(rank, pass, std::max(start + time.out_ns, earliest));
    send(rank, other, std::max(other_start + other_time.out_ns, earliest));
    lane_free_[rank] = std::max({start + time.lane_ns, other_start + other_time.lane_ns, both_end});
    next_[rank] += 2;
    return true;
  }

  const StageTimes& times_;
  graph_build::PipelineShape shape_;
  bool proven_;
  std::int32_t ranks_, chunks_;
  std::int64_t micro_batches_;
  std::array<std::vector<std::int64_t>, 2> ready_;  ///< forward, backward: by micro-batch, then stage
  std::vector<std::int64_t> lane_free_;
  std::vector<std::size_t> next_;
};

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

Result<StageTimes> PassTimeTable::times_of(const graph_build::JobSpec& job) {
  std::optional<graph_build::JobSpec> stages;
  StageTimes times;
  const std::string degrees = key_of(job.parallel);
  for (std::size_t rank = 0; rank < job.parallel.slots.size(); ++rank) {
    std::vector<ChunkTime>& of_rank = times.emplace_back();
    for (std::size_t chunk = 0; chunk < job.parallel.slots[rank].size(); ++chunk) {
      const std::string key = key_of(job, degrees, rank, chunk);
      if (const auto known = find(chunks_, mutex_, key)) {
        of_rank.push_back(*known);
        continue;
      }
      if (!stages) stages = stages_of(job);
      const auto stage = static_cast<std::int32_t>(chunk * job.parallel.slots.size() + rank);
      const Result<Graph> graph = graph_build::build_step_graph(*stages, machine_, stage, load_);
      if (!graph) return graph.error();
      const RankWork work = work_of(graph.value(), cost::op_durations(graph.value(), machine_, time_scale_));
      of_rank.push_back(play_both(graph.value(), work, parts_of(graph.value())));
      const std::scoped_lock lock(mutex_);
      chunks_.try_emplace(key, of_rank.back());
    }
  }
  return times;
}

Result<LayerTimes> PassTimeTable::layers_of(const graph_build::JobSpec& job) {
  const std::string key = key_of(job.parallel);
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
  StepGuess guess;
  for (const bool proven : {true, false}) {
    const Result<std::int64_t> end = ScheduleClock(times, parallel, proven).run();
    if (!end) return end.error();
    (proven ? guess.bound_ns : guess.estimate_ns) = end.value();
  }
  return guess;
}

}  // namespace tidemark::simulate
