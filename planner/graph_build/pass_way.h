#pragma once
// The way of a micro-batch through a pipeline, as the passes it needs on every rank, in order. A rank runs the
// micro-batches of one way in turn, so "the next of this way" names a pass; a pass waits for the same pass of the
// neighbour it comes from, and for its rank's pass of the way before. Weight gradients are on no way: no stage waits
// for them.
//
//   V, two chunks a rank        rank 0   1   2
//   way 0  forward  chunk 0          F ─► F ─► F      ascending: from rank - 1
//   way 1  forward  chunk 1          F ◄─ F ◄─ F      not: from rank + 1
//   way 2  dX       chunk 1          B ─► B ─► B
//   way 3  dX       chunk 0          B ◄─ B ◄─ B

#include <array>
#include <cstdint>
#include <optional>

#include "planner/graph_build/split_schedule.h"

namespace tidemark::graph_build {

struct PassWay {
  PassKind kind = PassKind::forward;
  std::int32_t chunk = 0;
  bool ascending = true;
};

inline constexpr std::array<PassWay, 4> kVWays{{
    {.kind = PassKind::forward, .chunk = 0, .ascending = true},
    {.kind = PassKind::forward, .chunk = 1, .ascending = false},
    {.kind = PassKind::input_grad, .chunk = 1, .ascending = true},
    {.kind = PassKind::input_grad, .chunk = 0, .ascending = false},
}};

inline constexpr std::array<PassWay, 2> kStraightWays{{
    {.kind = PassKind::forward, .chunk = 0, .ascending = true},
    {.kind = PassKind::input_grad, .chunk = 0, .ascending = false},
}};

/// The neighbour a pass's input comes from; nothing where it comes from the rank itself.
[[nodiscard]] constexpr std::optional<std::int32_t> source_rank(const PassWay& way, std::int32_t rank,
                                                                std::int32_t ranks) {
  const std::int32_t from = way.ascending ? rank - 1 : rank + 1;
  if (from < 0 || from >= ranks) return std::nullopt;
  return from;
}

}  // namespace tidemark::graph_build
