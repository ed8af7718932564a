#include "planner/graph_build/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::graph_build {
namespace {

/// Forward passes of `rank` before its first backward pass, not capped by the number of passes.
std::int64_t warm_up_passes(const PipelineShape& shape, std::int32_t rank) {
  const std::int64_t behind = shape.ranks - rank - 1;
  const std::int64_t extra = shape.overlap ? 1 : 0;
  if (shape.chunks == 1) return behind + extra;
  return 2 * behind + std::int64_t{shape.chunks - 1} * shape.ranks + extra;
}

std::int64_t pass_count(const PipelineShape& shape) {
  return std::int64_t{shape.micro_batches} * shape.chunks;
}

/// The n-th pass of one direction: groups of p micro-batches walk through all chunks, backward in reverse chunk order.
Pass nth_pass(const PipelineShape& shape, std::int64_t n, bool forward) {
  const std::int64_t group = std::int64_t{shape.ranks} * shape.chunks;
  const std::int64_t in_group = shape.chunks == 1 ? 0 : n % group;
  const auto chunk = static_cast<std::int32_t>(in_group / shape.ranks);
  const std::int64_t micro_batch = shape.chunks == 1 ? n : n / group * shape.ranks + in_group % shape.ranks;
  return {.forward = forward,
          .chunk = forward ? chunk : shape.chunks - 1 - chunk,
          .micro_batch = static_cast<std::int32_t>(micro_batch)};
}

Status check(const PipelineShape& shape, std::int32_t rank) {
  if (shape.ranks < 1 || shape.chunks < 1 || shape.micro_batches < 1) {
    return bad_input(fmt::format("a pipeline needs at least one rank, chunk and micro-batch (got {}, {}, {})",
                                 shape.ranks, shape.chunks, shape.micro_batches));
  }
  if (rank < 0 || rank >= shape.ranks) {
    return bad_input(fmt::format("pipeline rank {} is outside 0..{}", rank, shape.ranks - 1));
  }
  if (shape.chunks > 1 && shape.micro_batches % shape.ranks != 0) {
    return bad_input(fmt::format(
        "an interleaved schedule walks micro-batches in groups of the pipeline size: {} micro-batches are not "
        "a multiple of {} ranks",
        shape.micro_batches, shape.ranks));
  }
  return {};
}

}  // namespace

Result<std::vector<Pass>> pipeline_passes(const PipelineShape& shape, std::int32_t rank) {
  if (const Status status = check(shape, rank); !status) return status.error();
  const std::int64_t total = pass_count(shape);
  const std::int64_t warm_up = std::min(warm_up_passes(shape, rank), total);
  std::vector<Pass> passes;
  passes.reserve(static_cast<std::size_t>(2 * total));
  for (std::int64_t n = 0; n < warm_up; ++n) passes.push_back(nth_pass(shape, n, true));
  for (std::int64_t n = warm_up; n < total; ++n) {
    passes.push_back(nth_pass(shape, n, true));
    passes.back().paired_with_next = shape.overlap;
    passes.push_back(nth_pass(shape, n - warm_up, false));
  }
  for (std::int64_t n = total - warm_up; n < total; ++n) passes.push_back(nth_pass(shape, n, false));
  return passes;
}

std::int64_t in_flight_passes(const PipelineShape& shape, std::int32_t rank) {
  return std::min(warm_up_passes(shape, rank) + 1, pass_count(shape));
}

double bubble_share(const PipelineShape& shape) {
  const double idle = shape.ranks - 1;
  return idle / (static_cast<double>(pass_count(shape)) + idle);
}

}  // namespace tidemark::graph_build
