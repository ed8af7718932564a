#pragma once
// Items shaped like one pipeline rank's step under interleaved 1F1B: activations that live from a forward pass to its
// backward pass, transients within a pass, and storages whose gap has been recomputed or swapped away. Synthetic and
// seeded; sizes are those of one MLA + MoE layer.

#include <cstdint>
#include <vector>

#include "planner/layout/packer.h"

namespace tidemark {

struct PipelineItemsShape {
  int ranks = 16;
  int rank = 2;
  int chunks = 2;
  int layers_per_chunk = 2;
  int micro_batches = 64;
  bool cut_gaps = true;    ///< recompute and swap what the published recipe does, so lives are cut in two
  double load_spread = 0;  ///< relative spread of routed sizes over layers and micro-batches; 0: all alike
  std::uint64_t seed = 1;
};

[[nodiscard]] inline std::vector<layout::PackItem> pipeline_items(const PipelineItemsShape& shape) {
  struct Saved {
    double mib;
    bool routed;
    bool cut;
    int made, used;  // op within the forward, and within the backward, of a layer
  };
  static const Saved kSaved[] = {
      {30, false, false, 0, 46},   {30, false, true, 1, 44},   {8.25, false, false, 2, 43}, {8, false, true, 3, 42},
      {96, false, false, 4, 38},   {96, false, true, 5, 38},   {64, false, true, 5, 38},    {64, false, false, 7, 37},
      {16, false, false, 7, 38},   {30, false, false, 9, 34},  {30, false, false, 10, 32},  {30, false, true, 11, 30},
      {6.5, false, false, 12, 28}, {240, true, true, 15, 20},  {128, true, false, 16, 16},  {64, true, true, 17, 12},
      {240, false, true, 20, 6},   {16, false, false, 13, 24}, {8, false, true, 14, 23},    {30, false, false, 22, 2}};
  constexpr int kForward = 24;
  constexpr int kBackward = 48;
  std::uint64_t state = shape.seed * 0x9E3779B97F4A7C15ULL + 1;
  const auto random = [&state] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<double>(state >> 11) / 9007199254740992.0;
  };

  const int total = shape.micro_batches * shape.chunks;
  int warm_up = (shape.ranks - shape.rank - 1) * (shape.chunks > 1 ? 2 : 1) + (shape.chunks - 1) * shape.ranks + 1;
  if (warm_up > total) warm_up = total;
  std::vector<std::int32_t> forward_at(static_cast<std::size_t>(total)), backward_at(static_cast<std::size_t>(total));
  // Pass k forward belongs to (chunk, micro-batch); its backward is the one with the chunk order reversed.
  const auto key = [&](int k, bool forward) {
    const int group = shape.ranks * shape.chunks;
    const int chunk = k % group / shape.ranks;
    const int micro_batch = k / group * shape.ranks + k % shape.ranks;
    return static_cast<std::size_t>(micro_batch * shape.chunks + (forward ? chunk : shape.chunks - 1 - chunk));
  };
  std::int32_t clock = 0;
  const int f_ops = kForward * shape.layers_per_chunk;
  const int b_ops = kBackward * shape.layers_per_chunk;
  for (int f = 0, b = 0; b < total;) {
    if (f < total && f < warm_up + b) {
      forward_at[key(f++, true)] = clock;
      clock += f_ops;
    } else {
      backward_at[key(b++, false)] = clock;
      clock += b_ops;
    }
  }

  std::vector<layout::PackItem> items;
  const auto add = [&items](std::int32_t begin, std::int32_t end, double mib) {
    items.push_back({begin, end, static_cast<Bytes>(mib * 1048576.0)});
  };
  for (int k = 0; k < total; ++k) {
    for (int layer = 0; layer < shape.layers_per_chunk; ++layer) {
      const double load = 1 + shape.load_spread * (2 * random() - 1);
      const std::int32_t f = forward_at[static_cast<std::size_t>(k)] + layer * kForward;
      const std::int32_t b =
          backward_at[static_cast<std::size_t>(k)] + (shape.layers_per_chunk - 1 - layer) * kBackward;
      for (const Saved& s : kSaved) {
        const double mib = s.routed ? s.mib * load : s.mib;
        if (shape.cut_gaps && s.cut) {
          add(f + s.made, f + s.made + 2 + static_cast<int>(s.mib / 100), mib);
          add(b + (s.used > 6 ? s.used - 6 : 0), b + s.used + 1, mib);
        } else {
          add(f + s.made, b + s.used + 1, mib);
        }
        add(f + s.made, f + s.made + 1, mib / 4);  // workspace of the forward op
        add(b + s.used, b + s.used + 3, mib);      // the gradient
        if (s.mib > 20) add(b + s.used + 1, b + s.used + 2, mib / 2);
      }
    }
  }
  return items;
}

}  // namespace tidemark
