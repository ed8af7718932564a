#include "planner/estimate/optimizer_step.h"

#include <algorithm>
#include <limits>

namespace tidemark::estimate {
namespace {

/// Buffers are flat and cut into equal shards; offsets go past 2^53 only for absurd sizes, which double rounds.
using Pieces = std::vector<std::int64_t>;

/// Largest overlap of one parameter of a bucket with shard `shard` of `shards`.
std::int64_t largest_overlap(const Pieces& bucket, std::int64_t shard, std::int64_t shards) {
  std::int64_t total = 0;
  for (const std::int64_t elements : bucket) total += elements;
  // total * shard / shards without overflow
  const auto cut = [&](std::int64_t at) { return total / shards * at + total % shards * at / shards; };
  const std::int64_t low = cut(shard);
  const std::int64_t high = cut(shard + 1);
  std::int64_t best = 0;
  std::int64_t at = 0;
  for (const std::int64_t elements : bucket) {
    best = std::max(best, std::min(at + elements, high) - std::max(at, low));
    at += elements;
  }
  return best;
}

/// Buckets fill up in order until one has at least `size` elements.
std::int64_t largest_in_buckets(const Pieces& parameters, std::int64_t size, std::int64_t shard, std::int64_t shards) {
  std::int64_t best = 0;
  std::int64_t filled = 0;
  Pieces bucket;
  for (const std::int64_t elements : parameters) {
    bucket.push_back(elements);
    filled += elements;
    if (filled < size) continue;
    best = std::max(best, largest_overlap(bucket, shard, shards));
    bucket.clear();
    filled = 0;
  }
  return std::max(best, largest_overlap(bucket, shard, shards));
}

/// Gradient reduction overlaps in buckets on the first stage and its first chunk only: elsewhere one bucket holds all.
std::int64_t bucket_elements(const RankView& view, std::size_t chunk, std::int64_t shards) {
  constexpr std::int64_t kLeast = 40'000'000;
  constexpr std::int64_t kEach = 1'000'000;
  const OptimizerState& optimizer = view.run.optimizer;
  const bool bucketed = optimizer.overlap_grad_reduce && view.place.stage == 0 && chunk == 0;
  if (!bucketed) return std::numeric_limits<std::int64_t>::max();
  if (optimizer.bucket_elements > 0) return optimizer.bucket_elements;
  if (optimizer.buckets > 0)
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(count_elements(view.chunks[chunk])) / optimizer.buckets);
  return std::max(kLeast, kEach * shards);
}

/// State on the host comes back in parts: master copy and two moments of a share of the rank's elements at once.
double swapped_part(const RankView& view) {
  constexpr double kState = 4 + 4 + 4;
  const OptimizerState& optimizer = view.run.optimizer;
  if (!optimizer.on_host) return 0;
  double elements = 0;
  for (const Parameter& parameter : view.parameters)
    elements += static_cast<double>(parameter.elements) / optimizer_shards(view.run, parameter.expert);
  return kState * elements / static_cast<double>(std::max<std::int64_t>(1, optimizer.swap_times));
}

/// The bf16 weights are rebuilt from the master copy: at once where it is whole, through three work tensors otherwise.
double reuse_step_bytes(const RankView& view) {
  constexpr double kWorkTensors = 3.0 * 4096 * 4096 * 4;
  double bytes = 0;
  for (const Parameter& parameter : view.parameters) {
    const double whole = 4 * static_cast<double>(parameter.elements);
    const bool sharded = optimizer_shards(view.run, parameter.expert) > 1;
    bytes = std::max(bytes, sharded ? std::min(whole, kWorkTensors) : whole);
  }
  return view.run.optimizer.moments_16bit ? 3 * bytes : bytes;
}

}  // namespace

double largest_piece(const RankView& view) {
  std::int64_t best = 0;
  for (std::size_t chunk = 0; chunk < view.chunks.size(); ++chunk) {
    for (const bool expert : {false, true}) {
      const auto shards = static_cast<std::int64_t>(optimizer_shards(view.run, expert));
      const std::int64_t shard = (expert ? view.place.expert_shard : view.place.dense_shard) % shards;
      Pieces pieces;  // gradients arrive, and buffers fill, from the last parameter to the first
      for (auto it = view.chunks[chunk].rbegin(); it != view.chunks[chunk].rend(); ++it)
        if (it->expert == expert) pieces.push_back(it->elements);
      best = std::max(best, largest_in_buckets(pieces, bucket_elements(view, chunk, shards), shard, shards));
    }
  }
  return static_cast<double>(best);
}

double most_step_bytes(const RankView& view) {
  double whole = 0;  // no piece is larger than the parameter it is cut from
  for (const Parameter& parameter : view.parameters) whole = std::max(whole, static_cast<double>(parameter.elements));
  const double rule = view.run.optimizer.reuse_fp32_parameter ? reuse_step_bytes(view) : 4 * whole;
  return std::max({view.knobs.step_floor_bytes, rule, swapped_part(view)});
}

Term optimizer_step_ascend(const RankView& view) {
  const bool reuse = view.run.optimizer.reuse_fp32_parameter;
  const double rule = reuse ? reuse_step_bytes(view) : 4 * largest_piece(view);
  Term term{"optimizer_step", std::max(view.knobs.step_floor_bytes, rule), Origin::fitted,
            "measured: fp32 temporary of the largest piece of a parameter in the rank's shard"};
  if (reuse) {
    term.origin = Origin::code;
    term.source = "mindspeed/core/memory/reuse_param/reuse_distrib_optimizer.py: TRANSPOSE_BF16_BLOCK_SIZE";
  }
  if (const double swapped = swapped_part(view); swapped > term.bytes) {
    term.bytes = swapped;
    term.origin = Origin::code;
    term.source = "mindspeed/core/optimizer/swap_optimizer: elements over swap-optimizer-times at once";
  }
  return term;
}

}  // namespace tidemark::estimate
