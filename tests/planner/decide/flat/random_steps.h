#pragma once
// Small random steps with everything a step can have: several outputs, changes in place, holds, ops that must not be
// recomputed, ops that are not told, swaps.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/planner/decide/flat/reference_step.h"

namespace tidemark::testing {

struct StepShape {
  int ops = 10;
  bool swaps = false;
  bool awkward = true;  ///< more than one pure op per storage
  bool untold = false;  ///< some ops take no recompute right before them
};

/// A portable draw from [0, count).
inline std::int32_t draw(std::mt19937_64& random, std::int32_t count) {
  return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(count));
}

inline void sort_once_each(std::vector<std::int32_t>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

inline ReferenceStep random_step(std::uint64_t seed, const StepShape& shape) {
  std::mt19937_64 random(seed);
  ReferenceStep step{.name = "random"};
  const auto add_storage = [&] {
    step.storages.push_back({.name = "s" + std::to_string(step.storages.size()), .bytes = 1 + draw(random, 9)});
    ReferenceStep::Storage& row = step.storages.back();
    if (shape.swaps && draw(random, 3) > 0) {
      row.swappable = true;
      row.copies.out.compute = draw(random, 6);
      row.copies.in.compute = draw(random, 6);
    }
    return static_cast<std::int32_t>(step.storages.size()) - 1;
  };
  if (shape.awkward) add_storage();  // may be read before it is written
  for (int v = 0; v < shape.ops; ++v) {
    ReferenceStep::Op op{.name = "o" + std::to_string(v), .cost = draw(random, 10)};
    const auto known = static_cast<std::int32_t>(step.storages.size());
    for (int i = 0; i < 3 && known > 0; ++i)
      if (draw(random, 3) > 0) op.reads.push_back(i == 0 ? known - 1 : draw(random, known));
    op.writes.push_back(add_storage());
    if (shape.awkward) {
      if (draw(random, 6) == 0) op.writes.push_back(add_storage());
      if (draw(random, 8) == 0) op.writes.push_back(draw(random, known));
      if (draw(random, 8) == 0) op.recompute = ReferenceStep::Recompute::never;
      if (draw(random, 8) == 0) op.transient_bytes = 1 + draw(random, 4);
    }
    if (shape.untold && draw(random, 4) == 0) op.told = false;
    sort_once_each(op.reads);
    sort_once_each(op.writes);
    step.ops.push_back(std::move(op));
  }
  if (shape.awkward)
    for (ReferenceStep::Storage& row : step.storages) {
      if (draw(random, 12) == 0) row.lasting = true;
      if (draw(random, 12) == 0) row.held_until = draw(random, shape.ops);
    }
  return step;
}

inline ReferenceStep::Storage random_row(std::mt19937_64& random, std::int32_t most_bytes, bool swaps) {
  ReferenceStep::Storage row{.name = "s", .bytes = 1 + draw(random, most_bytes)};
  if (swaps && draw(random, 3) > 0) {
    row.swappable = true;
    row.copies.out.compute = draw(random, 6);
    row.copies.in.compute = draw(random, 6);
  }
  return row;
}

/// The same with copies that take time, and of which ops lose a little to each.
inline ReferenceStep with_link(ReferenceStep step, std::uint64_t seed, std::int32_t most_time) {
  std::mt19937_64 random(seed * 31 + 7);
  for (ReferenceStep::Storage& row : step.storages) {
    row.copies.out.link = draw(random, most_time + 1);
    row.copies.in.link = draw(random, most_time + 1);
    row.copies.out.compute = std::min<std::int64_t>(row.copies.out.compute, 1);
    row.copies.in.compute = std::min<std::int64_t>(row.copies.in.compute, 1);
  }
  return step;
}

/// Layers that are alike, with some ops before and behind, and the way back over the same edges. Every op of a layer
/// reads some of the last four before it.
inline ReferenceStep repeated_layers(std::uint64_t seed, std::int32_t layers, std::int32_t wide, bool swaps) {
  std::mt19937_64 random(seed * 91 + 3);
  ReferenceStep step{.name = "repeated layers"};
  struct Kind {
    ReferenceStep::Storage made, gradient;
    std::int64_t cost = 0;
    std::vector<std::int32_t> back;  ///< how far before it its inputs are
    bool runs_again = true;
  };
  std::vector<Kind> kinds;
  for (std::int32_t i = 0; i < wide; ++i) {
    Kind kind{.made = random_row(random, 12, swaps), .gradient = random_row(random, 12, false)};
    kind.cost = 1 + draw(random, 20);
    kind.back.push_back(1);
    if (draw(random, 3) == 0) kind.back.push_back(2 + draw(random, 3));
    kind.runs_again = draw(random, 6) > 0;
    kinds.push_back(kind);
  }
  const std::int32_t ends = 3, forward = 2 * ends + layers * wide;
  const auto kind_of = [&](std::int32_t v) -> const Kind& {
    return kinds[static_cast<std::size_t>((v - ends) % wide)];
  };
  const auto is_end = [&](std::int32_t v) { return v < ends || v >= forward - ends; };
  std::vector<std::vector<std::int32_t>> inputs(static_cast<std::size_t>(forward)), readers = inputs;
  for (std::int32_t v = 0; v < 2 * forward; ++v) {
    const std::int32_t of = v < forward ? v : 2 * forward - 1 - v;
    ReferenceStep::Op op{.name = "o" + std::to_string(v), .cost = 5 + of % 2, .writes = {v}};
    std::vector<std::int32_t>& in = inputs[static_cast<std::size_t>(of)];
    if (v < forward) {
      for (const std::int32_t back : is_end(v) ? std::vector{1} : kind_of(v).back)
        if (v >= back) in.push_back(v - back);
      sort_once_each(in);
      for (const std::int32_t i : in) readers[static_cast<std::size_t>(i)].push_back(v);
    }
    op.reads = in;
    ReferenceStep::Storage row{.name = "s", .bytes = 3 + of % 2};
    if (!is_end(of)) {
      row = v < forward ? kind_of(of).made : kind_of(of).gradient;
      op.cost = kind_of(of).cost * (v < forward ? 1 : 2);
      if (!kind_of(of).runs_again) op.recompute = ReferenceStep::Recompute::never;
    }
    if (v >= forward) {
      op.phase = OpPhase::backward;
      op.recompute = ReferenceStep::Recompute::never;
      op.reads.push_back(of);
      for (const std::int32_t reader : readers[static_cast<std::size_t>(of)])
        op.reads.push_back(2 * forward - 1 - reader);
    }
    sort_once_each(op.reads);
    step.storages.push_back(row);
    step.ops.push_back(std::move(op));
  }
  return step;
}

/// A chain of layers with some skips, and the way back over the same edges.
inline ReferenceStep forward_and_back(std::uint64_t seed, std::int32_t layers, bool swaps) {
  std::mt19937_64 random(seed * 77 + 5);
  ReferenceStep step{.name = "forward and back"};
  const auto count = static_cast<std::size_t>(layers);
  std::vector<std::vector<std::int32_t>> inputs(count), readers(count);
  for (std::int32_t v = 1; v < layers; ++v) {
    inputs[static_cast<std::size_t>(v)].push_back(v - 1);
    if (v > 1 && draw(random, 3) == 0) inputs[static_cast<std::size_t>(v)].push_back(draw(random, v - 1));
    sort_once_each(inputs[static_cast<std::size_t>(v)]);
    for (const std::int32_t i : inputs[static_cast<std::size_t>(v)]) readers[static_cast<std::size_t>(i)].push_back(v);
  }
  for (std::int32_t v = 0; v < 2 * layers; ++v) {
    step.storages.push_back(random_row(random, 12, swaps));
    const std::int32_t layer = v < layers ? v : 2 * layers - 1 - v;
    ReferenceStep::Op op{.name = "o" + std::to_string(v), .cost = draw(random, 20), .writes = {v}};
    op.reads = inputs[static_cast<std::size_t>(layer)];
    if (v >= layers) {
      op.phase = OpPhase::backward;
      op.reads.push_back(layer);
      for (const std::int32_t reader : readers[static_cast<std::size_t>(layer)])
        op.reads.push_back(2 * layers - 1 - reader);
    }
    sort_once_each(op.reads);
    step.ops.push_back(std::move(op));
  }
  return step;
}

struct LayeredShape {
  std::int32_t layers = 4, wide = 3;
  int degree = 3;          ///< reads of an op; three of four from the layer before
  std::int32_t most = 15;  ///< bytes and costs
  bool swaps = false;
};

/// Layers of ops that read from the layer before, and now and then from any earlier one.
inline ReferenceStep layered_step(std::uint64_t seed, const LayeredShape& shape) {
  std::mt19937_64 random(seed * 131 + 9);
  ReferenceStep step{.name = "layered"};
  for (std::int32_t v = 0; v < shape.layers * shape.wide; ++v) {
    step.storages.push_back(random_row(random, shape.most, shape.swaps));
    ReferenceStep::Op op{.name = "o" + std::to_string(v), .cost = 1 + draw(random, shape.most), .writes = {v}};
    const std::int32_t layer = v / shape.wide;
    for (int i = 0; layer > 0 && i < shape.degree; ++i)
      op.reads.push_back(draw(random, 4) == 0 ? draw(random, layer * shape.wide)
                                              : (layer - 1) * shape.wide + draw(random, shape.wide));
    sort_once_each(op.reads);
    step.ops.push_back(std::move(op));
  }
  return step;
}

struct TrainingShape {
  std::int32_t layers = 5, wide = 4;  ///< of forward ops
  int degree = 3;                     ///< reads of a forward op from others
  int skips = 8;                      ///< one in so many of them is a skip connection ...
  std::int32_t reach = 1 << 20;       ///< ... to an op at most so many layers earlier
  std::int32_t most = 15;             ///< bytes and costs
};

/// Layers of forward ops, and the way back: every backward op reads what its forward op read and wrote, and the
/// gradients of all that read it. Gradients are as large as what they belong to.
inline ReferenceStep training_step(std::uint64_t seed, const TrainingShape& shape) {
  std::mt19937_64 random(seed * 59 + 3);
  ReferenceStep step{.name = "training"};
  const std::int32_t forward = shape.layers * shape.wide;
  std::vector<std::vector<std::int32_t>> readers(static_cast<std::size_t>(forward));
  const auto add = [&](std::int32_t v, ReferenceStep::Op op, Bytes bytes) {
    op.name = "o" + std::to_string(v);
    op.cost = 1 + draw(random, shape.most);
    op.writes = {v};
    sort_once_each(op.reads);
    step.storages.push_back({.name = "s" + std::to_string(v), .bytes = bytes});
    step.ops.push_back(std::move(op));
  };
  for (std::int32_t v = 0; v < forward; ++v) {
    ReferenceStep::Op op;
    const std::int32_t layer = v / shape.wide;
    for (int i = 0; layer > 0 && i < shape.degree; ++i) {
      const std::int32_t back = draw(random, shape.skips) == 0 ? 1 + draw(random, std::min(layer, shape.reach)) : 1;
      op.reads.push_back((layer - back) * shape.wide + draw(random, shape.wide));
    }
    add(v, std::move(op), 1 + draw(random, shape.most));
    for (const std::int32_t r : step.ops.back().reads) readers[static_cast<std::size_t>(r)].push_back(v);
  }
  for (std::int32_t v = forward; v < 2 * forward; ++v) {
    const std::int32_t of = 2 * forward - 1 - v;
    ReferenceStep::Op op{.phase = OpPhase::backward, .reads = step.ops[static_cast<std::size_t>(of)].reads};
    op.reads.push_back(of);
    for (const std::int32_t reader : readers[static_cast<std::size_t>(of)])
      op.reads.push_back(2 * forward - 1 - reader);
    add(v, std::move(op), step.storages[static_cast<std::size_t>(of)].bytes);
  }
  return step;
}

/// Once it is full, memory stays full for so many ops: two storages go, one or two take their bytes, wherever those
/// were.
inline ReferenceStep always_full(std::uint64_t seed, std::int32_t ops) {
  std::mt19937_64 random(seed);
  ReferenceStep step{.name = "full"};
  std::vector<std::int32_t> alive;
  const auto add = [&](ReferenceStep::Op& op, Bytes bytes) {
    alive.push_back(static_cast<std::int32_t>(step.storages.size()));
    op.writes.push_back(alive.back());
    step.storages.push_back({.name = "s",
                             .bytes = bytes,
                             .swappable = true,
                             .copies = {.out = {.compute = draw(random, 6)}, .in = {.compute = draw(random, 6)}}});
  };
  const auto leave = [&](ReferenceStep::Op& op) {
    const auto old = static_cast<std::int32_t>(alive.size() - op.writes.size());
    if (old == 0) return Bytes{0};
    const auto one = alive.begin() + draw(random, old);
    op.reads.push_back(*one);
    alive.erase(one);
    return step.storages[static_cast<std::size_t>(op.reads.back())].bytes;
  };
  ReferenceStep::Op op;
  for (int i = 0; i < 6; ++i) {
    op = {.name = "in", .cost = 1};
    add(op, 2 + draw(random, 4));
    step.ops.push_back(std::move(op));
  }
  op = {.name = "o", .cost = 1};
  for (std::int32_t v = 1; v < ops; ++v) {
    const Bytes room = leave(op) + leave(op);
    std::ranges::sort(op.reads);
    step.ops.push_back(std::move(op));
    op = {.name = "o", .cost = 1 + draw(random, 9)};
    const Bytes first = room < 2 || draw(random, 3) == 0 ? room : 1 + draw(random, static_cast<std::int32_t>(room) - 1);
    add(op, first);
    if (first < room) add(op, room - first);
  }
  step.ops.push_back(std::move(op));
  for (const std::int32_t s : alive) step.ops.push_back({.name = "out", .cost = 1, .reads = {s}});
  return step;
}

/// x_0 .. x_{steps-1}, a loss, and the way back; all of a byte, forward steps of cost 1, the input and the way back
/// free.
inline ReferenceStep uniform_chain(std::int32_t steps) {
  ReferenceStep step{.name = "chain"};
  for (std::int32_t v = 0; v <= 2 * steps; ++v) {
    step.storages.push_back({.name = std::to_string(v), .bytes = 1});
    ReferenceStep::Op op{.name = std::to_string(v), .cost = v > 0 && v < steps ? 1 : 0, .writes = {v}};
    if (v > steps) op.reads = {2 * steps - v, v - 1};
    if (v > 0 && v <= steps) op.reads = {v - 1};
    std::ranges::sort(op.reads);
    step.ops.push_back(std::move(op));
  }
  return step;
}

constexpr int kSmallSteps = 6;

/// Of one of so many shapes, small enough for the exact path.
inline ReferenceStep small_step(int shape, std::uint64_t seed, bool swaps) {
  switch (shape) {
    case 0:
      return random_step(seed, {.ops = 12, .swaps = swaps, .awkward = false});
    case 1:
      return random_step(seed, {.ops = 12, .swaps = swaps});
    case 2:
      return random_step(seed, {.ops = 16, .swaps = swaps, .awkward = false});
    case 3:
      return forward_and_back(seed, 7, swaps);
    case 4:
      return layered_step(seed, {.layers = 5, .wide = 3, .swaps = swaps});
    default:
      return layered_step(seed, {.layers = 3, .wide = 5, .degree = 2, .swaps = swaps});
  }
}

}  // namespace tidemark::testing
