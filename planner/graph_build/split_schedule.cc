#include "planner/graph_build/split_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::graph_build {

Result<SplitSchedule> whole_backward_schedule(const PipelineShape& shape) {
  SplitSchedule schedule{.ranks = shape.ranks, .chunks = shape.chunks, .micro_batches = shape.micro_batches};
  if (shape.ranks < 1) return check_split_counts(shape.ranks, shape.micro_batches).error();
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto passes = pipeline_passes(shape, rank);
    if (!passes) return passes.error();
    auto& list = schedule.passes.emplace_back();
    list.reserve(passes.value().size());
    for (const Pass& pass : passes.value()) {
      list.push_back({.kind = pass.forward ? PassKind::forward : PassKind::backward,
                      .chunk = pass.chunk,
                      .micro_batch = pass.micro_batch});
    }
  }
  return schedule;
}

std::vector<std::int64_t> in_flight_peaks(const SplitSchedule& schedule) {
  std::vector<std::int64_t> peaks;
  for (const auto& passes : schedule.passes) {
    std::int64_t held = 0, peak = 0;
    for (const SplitPass& pass : passes) {
      if (pass.kind == PassKind::forward) peak = std::max(peak, ++held);
      if (pass.kind == PassKind::weight_grad || pass.kind == PassKind::backward) --held;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

Status check_split_counts(std::int32_t ranks, std::int32_t micro_batches) {
  if (ranks >= 1 && micro_batches >= 1) return {};
  return bad_input(
      fmt::format("a pipeline needs at least one rank and micro-batch (got {} and {})", ranks, micro_batches));
}

}  // namespace tidemark::graph_build
