#include "planner/prices/schedule_parts.h"

#include <algorithm>
#include <set>

#include "planner/graph_build/layer_placement.h"
#include "planner/graph_build/static_memory.h"
#include "planner/prices/work_balance.h"

namespace tidemark::prices {
namespace {

using graph_build::JobSpec;
using graph_build::Slot;
using graph_build::SplitSchedule;

/// One rank a stage, so that the state of a stage can be told however stages are laid on ranks.
JobSpec rank_per_stage(const JobSpec& job) {
  JobSpec apart = job;
  graph_build::ParallelSpec& p = apart.parallel;
  p.pipeline = static_cast<std::int32_t>(job.parallel.stages());
  p.virtual_pipeline = 1;
  p.slots.clear();
  for (std::int32_t chunk = 0; chunk < job.parallel.virtual_pipeline; ++chunk)
    for (const auto& rank : job.parallel.slots) p.slots.push_back({rank[static_cast<std::size_t>(chunk)]});
  return apart;
}

simulate::ChunkTime time_of(const simulate::StageTimes& times, std::int64_t stage) {
  const auto ranks = static_cast<std::int64_t>(times.size());
  return times[static_cast<std::size_t>(stage % ranks)][static_cast<std::size_t>(stage / ranks)];
}

}  // namespace

ScheduleParts::ScheduleParts(const KeptStep& step) {
  for (std::size_t rank = 0; rank < step.graphs().size(); ++rank) take(step, rank);
  const std::int64_t micro_batches = step.request().job.parallel.micro_batches();
  const auto per_micro_batch = [&](LayerPart& part) {
    part.weight_grad_ns /= micro_batches;
    part.compute_ns /= micro_batches;
  };
  for (auto& [layer, part] : layers_) per_micro_batch(part);
  per_micro_batch(embedding_);
  per_micro_batch(head_);
}

void ScheduleParts::take(const KeptStep& step, std::size_t rank) {
  const Graph& graph = step.graphs()[rank];
  const auto part_of = [&](const Site& site) -> LayerPart& {
    if (site.layer >= 0) return layers_[site.layer];
    return rank == 0 && site.chunk == 0 ? embedding_ : head_;
  };
  for (const Storage& storage : graph.storages) {
    const Site& site = graph.sites[row(storage.site)];
    if (site.micro_batch != 0) continue;
    if (graph.storage_templates[row(storage.storage_template)].saved_for_backward)
      part_of(site).held_bytes += storage.bytes;
  }
  std::set<StorageId> read;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto id = static_cast<OpId>(i);
    const OpTemplate& op = graph.template_of(id);
    if (op.phase == OpPhase::send) hop_ns_ = std::max(hop_ns_, step.op_ns()[rank][i]);
    if (op.lane != Lane::compute || graph.ops[i].site == kNone<SiteId>) continue;
    const Site& site = graph.sites[row(graph.ops[i].site)];
    if (site.micro_batch < 0) continue;
    LayerPart& part = part_of(site);
    part.compute_ns += step.op_ns()[rank][i];
    if (op.phase != OpPhase::weight_gradient) continue;
    part.weight_grad_ns += step.op_ns()[rank][i];
    if (site.micro_batch != 0) continue;
    for (const Access& access : graph.accesses_of(id)) {
      if (access.kind != AccessKind::read || graph.template_of(access.storage).initial) continue;
      if (read.insert(access.storage).second) part.put_off_bytes += graph.storages[row(access.storage)].bytes;
    }
  }
}

LayerPart ScheduleParts::stage(const JobSpec& job, std::int64_t stage) const {
  const graph_build::ParallelSpec& p = job.parallel;
  LayerPart sum;
  const auto add = [&](std::int32_t layer) {
    if (const auto found = layers_.find(layer); found != layers_.end()) sum.add(found->second);
  };
  const auto& chunk =
      p.slots[static_cast<std::size_t>(stage % p.pipeline)][static_cast<std::size_t>(stage / p.pipeline)];
  for (const Slot& slot : chunk) {
    if (slot.kind == Slot::Kind::layer) add(slot.layer);
    if (slot.kind == Slot::Kind::mtp) add(static_cast<std::int32_t>(job.model.layers.size()) + slot.layer);
  }
  if (stage == 0) sum.add(embedding_);
  if (stage == p.main_head_stage()) sum.add(head_);
  return sum;
}

LayerPart ScheduleParts::modules(const graph_build::ModelSpec& model) const {
  LayerPart sum;
  for (std::int64_t module = 0; module < model.mtp_layers; ++module) {
    const auto layer = static_cast<std::int32_t>(static_cast<std::int64_t>(model.layers.size()) + module);
    if (const auto found = layers_.find(layer); found != layers_.end()) sum.add(found->second);
  }
  return sum;
}

JobSpec ScheduleParts::balanced(JobSpec job, std::int32_t chunks, graph_build::StagePlacement placement) const {
  graph_build::ParallelSpec& p = job.parallel;
  p.virtual_pipeline = chunks;
  p.head_stage = -1;
  const SplitSchedule shape{.ranks = p.pipeline, .chunks = chunks, .placement = placement};
  const auto stages = static_cast<std::size_t>(shape.stages());
  StageWork work{.fixed = std::vector<std::int64_t>(stages, 0)};
  for (std::size_t layer = 0; layer < job.model.layers.size(); ++layer) {
    const auto found = layers_.find(static_cast<std::int32_t>(layer));
    work.layers.push_back(found == layers_.end() ? 0 : found->second.compute_ns);
  }
  work.fixed.front() += embedding_.compute_ns;
  StageWork apart = work;
  const std::int64_t modules_ns = modules(job.model).compute_ns;
  work.fixed.back() += modules_ns + head_.compute_ns;
  const std::vector<std::int32_t> together = balanced_counts(work, shape, false);
  graph_build::fill_stages(job.model, together, p);
  if (job.model.mtp_layers == 0 || stages < 2) return job;
  apart.fixed.back() += modules_ns;
  apart.fixed[stages - 2] += head_.compute_ns;
  const std::vector<std::int32_t> counts = balanced_counts(apart, shape, true);
  if (counts[stages - 2] == 0) return job;  // the head stands behind the last layer
  if (busiest_rank(apart, shape, counts) >= busiest_rank(work, shape, together)) return job;
  graph_build::fill_stages(job.model, counts, p);
  p.head_stage = static_cast<std::int32_t>(stages) - 2;
  return job;
}

Result<StagedJob> staged(const JobSpec& job, const Machine& machine, graph_build::StagePlacement placement,
                         const ScheduleParts& parts, simulate::ChunkTimes& chunk_times) {
  const Result<simulate::StageTimes> times = chunk_times.times_of(job);
  if (!times) return times.error();
  const graph_build::ParallelSpec& p = job.parallel;
  const SplitSchedule shape{.ranks = p.pipeline, .chunks = p.virtual_pipeline, .placement = placement};
  const JobSpec apart = rank_per_stage(job);
  StagedJob staged{.times = graph_build::uniform_times(p.pipeline, p.virtual_pipeline, {}, parts.hop_ns())};
  staged.bytes.assign(static_cast<std::size_t>(p.pipeline),
                      std::vector<simulate::PassBytes>(static_cast<std::size_t>(p.virtual_pipeline)));
  staged.fixed_bytes.assign(static_cast<std::size_t>(p.pipeline), graph_build::reserve_memory(machine, p).total());
  for (std::int32_t rank = 0; rank < p.pipeline; ++rank)
    for (std::int32_t chunk = 0; chunk < p.virtual_pipeline; ++chunk) {
      const auto r = static_cast<std::size_t>(rank), c = static_cast<std::size_t>(chunk);
      const std::int32_t stage = shape.stage_of(rank, chunk);
      const LayerPart part = parts.stage(job, stage);
      const simulate::ChunkTime time = time_of(times.value(), stage);
      const std::int64_t weights_ns = std::min(part.weight_grad_ns, time.backward.lane_ns);
      staged.times.chunks[r][c] = {.forward_ns = time.forward.lane_ns,
                                   .input_grad_ns = time.backward.lane_ns - weights_ns,
                                   .weight_grad_ns = weights_ns};
      staged.bytes[r][c] = {.held_bytes = part.held_bytes, .put_off_bytes = part.put_off_bytes};
      staged.fixed_bytes[r] += graph_build::static_memory(apart, stage).total();
    }
  return staged;
}

Result<SwitchSide> played(const SplitSchedule& schedule, const StagedJob& job) {
  const Result<simulate::SplitStepRun> run = simulate::run_split_step(schedule, job.times);
  if (!run) return run.error();
  SwitchSide side{.step_ns = run.value().step_ns, .bubble_share = run.value().bubble_share};
  const std::vector<Bytes> peaks = simulate::peak_pass_bytes(schedule, job.bytes);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank)
    side.peak_bytes = std::max(side.peak_bytes, peaks[rank] + job.fixed_bytes[rank]);
  return side;
}

}  // namespace tidemark::prices
