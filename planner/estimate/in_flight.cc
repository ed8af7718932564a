#include "planner/estimate/in_flight.h"

#include <algorithm>

namespace tidemark::estimate {
namespace {

/// Micro-batches that go through a chunk before the next chunk's turn.
std::int64_t group_size(const TrainingRun& run) {
  return run.parallel.micro_batch_group > 0 ? run.parallel.micro_batch_group : run.parallel.pipeline;
}

/// Chunks a rank of an interleaved schedule runs forward before its first backward is done: the warm-up and one more.
/// MindSpeed's forward-backward overlap starts the next forward before that backward frees anything; Megatron's frees
/// layer by layer beside it, so its longer warm-up does not add to the most.
std::int64_t interleaved_total(const TrainingRun& run, std::int64_t stage, std::int64_t chunks) {
  const std::int64_t warm_up = 2 * (run.parallel.pipeline - stage - 1) + (chunks - 1) * group_size(run);
  const std::int64_t total = warm_up + 1 + (run.parallel.overlap_forward_backward ? 1 : 0);
  return std::min(total, run.batch.micro_batches * chunks);
}

/// Groups of micro-batches walk through all chunks in turn.
std::vector<std::int64_t> fill_in_groups(const TrainingRun& run, std::int64_t total, std::size_t chunks) {
  std::vector<std::int64_t> kept(chunks);
  std::int64_t first = 0;  // micro-batch of the group
  while (total > 0 && first < run.batch.micro_batches) {
    const std::int64_t group = std::min(group_size(run), run.batch.micro_batches - first);
    for (std::int64_t& of_chunk : kept) {
      const std::int64_t taken = std::min(group, total);
      of_chunk += taken;
      total -= taken;
    }
    first += group;
  }
  return kept;
}

}  // namespace

std::vector<std::int64_t> in_flight(const TrainingRun& run, std::int64_t stage, std::size_t chunks) {
  const std::int64_t pipeline = run.parallel.pipeline;
  const std::int64_t micro_batches = run.batch.micro_batches;
  if (chunks <= 1) return {std::min(pipeline - stage, micro_batches)};
  if (run.parallel.schedule == Schedule::dualpipev)
    return {std::min(2 * pipeline - stage, micro_batches), std::min(stage + 1, micro_batches)};
  const std::int64_t total = interleaved_total(run, stage, static_cast<std::int64_t>(chunks));
  return fill_in_groups(run, total, chunks);
}

}  // namespace tidemark::estimate
