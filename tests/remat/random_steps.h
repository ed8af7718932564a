#pragma once
// Small random steps with everything a step can have: several outputs, changes in place, pins, ops that must not run
// again, pages.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/op_list.h"

namespace tidemark::testing {

struct ListShape {
  int ops = 10;
  bool pages = false;
  bool awkward = true;  ///< more than one pure op per storage
};

/// A portable draw from [0, count).
inline std::int32_t draw(std::mt19937_64& random, std::int32_t count) {
  return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(count));
}

inline void sort_once_each(std::vector<std::int32_t>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

inline OpList random_list(std::uint64_t seed, const ListShape& shape) {
  std::mt19937_64 random(seed);
  OpList list{.name = "random"};
  const auto add_storage = [&] {
    list.storages.push_back({.name = "s" + std::to_string(list.storages.size()), .bytes = 1 + draw(random, 9)});
    OpList::Storage& row = list.storages.back();
    if (shape.pages && draw(random, 3) > 0) {
      row.swappable = true;
      row.page_out_cost = draw(random, 6);
      row.page_in_cost = draw(random, 6);
    }
    return static_cast<std::int32_t>(list.storages.size()) - 1;
  };
  if (shape.awkward) add_storage();  // may be read before it is written
  for (int v = 0; v < shape.ops; ++v) {
    OpList::Op op{.name = "o" + std::to_string(v), .cost = draw(random, 10)};
    const auto known = static_cast<std::int32_t>(list.storages.size());
    for (int i = 0; i < 3 && known > 0; ++i)
      if (draw(random, 3) > 0) op.reads.push_back(i == 0 ? known - 1 : draw(random, known));
    op.writes.push_back(add_storage());
    if (shape.awkward) {
      if (draw(random, 6) == 0) op.writes.push_back(add_storage());
      if (draw(random, 8) == 0) op.writes.push_back(draw(random, known));
      if (draw(random, 8) == 0) op.recompute = OpList::Recompute::never;
      if (draw(random, 8) == 0) op.transient_bytes = 1 + draw(random, 4);
    }
    sort_once_each(op.reads);
    sort_once_each(op.writes);
    list.ops.push_back(std::move(op));
  }
  if (shape.awkward)
    for (OpList::Storage& row : list.storages) {
      if (draw(random, 12) == 0) row.until_end = true;
      if (draw(random, 12) == 0) row.pinned_until = draw(random, shape.ops);
    }
  return list;
}

inline OpList::Storage random_row(std::mt19937_64& random, std::int32_t most_bytes, bool pages) {
  OpList::Storage row{.name = "s", .bytes = 1 + draw(random, most_bytes)};
  if (pages && draw(random, 3) > 0) {
    row.swappable = true;
    row.page_out_cost = draw(random, 6);
    row.page_in_cost = draw(random, 6);
  }
  return row;
}

/// The same with a link: pages take time, and ops lose a little to each.
inline OpList with_link(OpList list, std::uint64_t seed, std::int32_t most_time) {
  std::mt19937_64 random(seed * 31 + 7);
  list.cost_unit = OpList::CostUnit::ns;
  list.link = OpList::Link{};
  for (OpList::Storage& row : list.storages) {
    row.page_out_time = draw(random, most_time + 1);
    row.page_in_time = draw(random, most_time + 1);
    row.page_out_cost = std::min<std::int64_t>(row.page_out_cost, 1);
    row.page_in_cost = std::min<std::int64_t>(row.page_in_cost, 1);
  }
  return list;
}

/// A chain of layers with some skips, and the way back over the same edges.
inline OpList forward_and_back(std::uint64_t seed, std::int32_t layers, bool pages) {
  std::mt19937_64 random(seed * 77 + 5);
  OpList list{.name = "forward and back"};
  const auto count = static_cast<std::size_t>(layers);
  std::vector<std::vector<std::int32_t>> inputs(count), readers(count);
  for (std::int32_t v = 1; v < layers; ++v) {
    inputs[static_cast<std::size_t>(v)].push_back(v - 1);
    if (v > 1 && draw(random, 3) == 0) inputs[static_cast<std::size_t>(v)].push_back(draw(random, v - 1));
    sort_once_each(inputs[static_cast<std::size_t>(v)]);
    for (const std::int32_t i : inputs[static_cast<std::size_t>(v)]) readers[static_cast<std::size_t>(i)].push_back(v);
  }
  for (std::int32_t v = 0; v < 2 * layers; ++v) {
    list.storages.push_back(random_row(random, 12, pages));
    const std::int32_t layer = v < layers ? v : 2 * layers - 1 - v;
    OpList::Op op{.name = "o" + std::to_string(v), .cost = draw(random, 20), .writes = {v}};
    op.reads = inputs[static_cast<std::size_t>(layer)];
    if (v >= layers) {
      op.phase = OpList::Phase::backward;
      op.reads.push_back(layer);
      for (const std::int32_t reader : readers[static_cast<std::size_t>(layer)])
        op.reads.push_back(2 * layers - 1 - reader);
    }
    sort_once_each(op.reads);
    list.ops.push_back(std::move(op));
  }
  return list;
}

struct LayeredShape {
  std::int32_t layers = 4, wide = 3;
  int degree = 3;          ///< reads of an op; three of four from the layer before
  std::int32_t most = 15;  ///< bytes and costs
  bool pages = false;
};

/// Layers of ops that read from the layer before, and now and then from any earlier one.
inline OpList layered_list(std::uint64_t seed, const LayeredShape& shape) {
  std::mt19937_64 random(seed * 131 + 9);
  OpList list{.name = "layered"};
  for (std::int32_t v = 0; v < shape.layers * shape.wide; ++v) {
    list.storages.push_back(random_row(random, shape.most, shape.pages));
    OpList::Op op{.name = "o" + std::to_string(v), .cost = 1 + draw(random, shape.most), .writes = {v}};
    const std::int32_t layer = v / shape.wide;
    for (int i = 0; layer > 0 && i < shape.degree; ++i)
      op.reads.push_back(draw(random, 4) == 0 ? draw(random, layer * shape.wide)
                                              : (layer - 1) * shape.wide + draw(random, shape.wide));
    sort_once_each(op.reads);
    list.ops.push_back(std::move(op));
  }
  return list;
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
inline OpList training_list(std::uint64_t seed, const TrainingShape& shape) {
  std::mt19937_64 random(seed * 59 + 3);
  OpList list{.name = "training"};
  const std::int32_t forward = shape.layers * shape.wide;
  std::vector<std::vector<std::int32_t>> readers(static_cast<std::size_t>(forward));
  const auto add = [&](std::int32_t v, OpList::Op op, Bytes bytes) {
    op.name = "o" + std::to_string(v);
    op.cost = 1 + draw(random, shape.most);
    op.writes = {v};
    sort_once_each(op.reads);
    list.storages.push_back({.name = "s" + std::to_string(v), .bytes = bytes});
    list.ops.push_back(std::move(op));
  };
  for (std::int32_t v = 0; v < forward; ++v) {
    OpList::Op op;
    const std::int32_t layer = v / shape.wide;
    for (int i = 0; layer > 0 && i < shape.degree; ++i) {
      const std::int32_t back = draw(random, shape.skips) == 0 ? 1 + draw(random, std::min(layer, shape.reach)) : 1;
      op.reads.push_back((layer - back) * shape.wide + draw(random, shape.wide));
    }
    add(v, std::move(op), 1 + draw(random, shape.most));
    for (const std::int32_t r : list.ops.back().reads) readers[static_cast<std::size_t>(r)].push_back(v);
  }
  for (std::int32_t v = forward; v < 2 * forward; ++v) {
    const std::int32_t of = 2 * forward - 1 - v;
    OpList::Op op{.phase = OpList::Phase::backward, .reads = list.ops[static_cast<std::size_t>(of)].reads};
    op.reads.push_back(of);
    for (const std::int32_t reader : readers[static_cast<std::size_t>(of)])
      op.reads.push_back(2 * forward - 1 - reader);
    add(v, std::move(op), list.storages[static_cast<std::size_t>(of)].bytes);
  }
  return list;
}

/// Once it is full, memory stays full for so many ops: two storages go, one or two take their bytes, wherever those
/// were.
inline OpList always_full(std::uint64_t seed, std::int32_t ops) {
  std::mt19937_64 random(seed);
  OpList list{.name = "full"};
  std::vector<std::int32_t> alive;
  const auto add = [&](OpList::Op& op, Bytes bytes) {
    alive.push_back(static_cast<std::int32_t>(list.storages.size()));
    op.writes.push_back(alive.back());
    list.storages.push_back({.name = "s",
                             .bytes = bytes,
                             .swappable = true,
                             .page_out_cost = draw(random, 6),
                             .page_in_cost = draw(random, 6)});
  };
  const auto leave = [&](OpList::Op& op) {
    const auto old = static_cast<std::int32_t>(alive.size() - op.writes.size());
    if (old == 0) return Bytes{0};
    const auto one = alive.begin() + draw(random, old);
    op.reads.push_back(*one);
    alive.erase(one);
    return list.storages[static_cast<std::size_t>(op.reads.back())].bytes;
  };
  OpList::Op op;
  for (int i = 0; i < 6; ++i) {
    op = {.name = "in", .cost = 1};
    add(op, 2 + draw(random, 4));
    list.ops.push_back(std::move(op));
  }
  op = {.name = "o", .cost = 1};
  for (std::int32_t v = 1; v < ops; ++v) {
    const Bytes room = leave(op) + leave(op);
    std::ranges::sort(op.reads);
    list.ops.push_back(std::move(op));
    op = {.name = "o", .cost = 1 + draw(random, 9)};
    const Bytes first = room < 2 || draw(random, 3) == 0 ? room : 1 + draw(random, static_cast<std::int32_t>(room) - 1);
    add(op, first);
    if (first < room) add(op, room - first);
  }
  list.ops.push_back(std::move(op));
  for (const std::int32_t s : alive) list.ops.push_back({.name = "out", .cost = 1, .reads = {s}});
  return list;
}

/// x_0 .. x_{steps-1}, a loss, and the way back; all of a byte, forward steps of cost 1, the input and the way back
/// free.
inline OpList uniform_chain(std::int32_t steps) {
  OpList list{.name = "chain"};
  for (std::int32_t v = 0; v <= 2 * steps; ++v) {
    list.storages.push_back({.name = std::to_string(v), .bytes = 1});
    OpList::Op op{.name = std::to_string(v), .cost = v > 0 && v < steps ? 1 : 0, .writes = {v}};
    if (v > steps) op.reads = {2 * steps - v, v - 1};
    if (v > 0 && v <= steps) op.reads = {v - 1};
    std::ranges::sort(op.reads);
    list.ops.push_back(std::move(op));
  }
  return list;
}

constexpr int kSmallSteps = 6;

/// Of one of so many shapes, small enough for the exact path.
inline OpList small_step(int shape, std::uint64_t seed, bool pages) {
  switch (shape) {
    case 0:
      return random_list(seed, {.ops = 12, .pages = pages, .awkward = false});
    case 1:
      return random_list(seed, {.ops = 12, .pages = pages});
    case 2:
      return random_list(seed, {.ops = 16, .pages = pages, .awkward = false});
    case 3:
      return forward_and_back(seed, 7, pages);
    case 4:
      return layered_list(seed, {.layers = 5, .wide = 3, .pages = pages});
    default:
      return layered_list(seed, {.layers = 3, .wide = 5, .degree = 2, .pages = pages});
  }
}

}  // namespace tidemark::testing
