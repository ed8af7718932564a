#pragma once
// What `auto` does after the orders: one piece of a problem, better and better, in a sequence of attempts that depends
// on nothing but the piece. More work is a longer prefix of the sequence.

#include <functional>
#include <string_view>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/effort.h"

namespace tidemark::layout {

struct Piece {
  PackProblem problem;
  Blocks blocks;
  std::vector<Bytes> addresses;  ///< per block: a packing to begin with, then the lowest found
  Bytes height_bytes = 0;
  Bytes bound_bytes = 0;  ///< raised where a proof is found
  Bytes enough_bytes = 0;
  std::string_view packer;               ///< whose packing it is
  std::vector<std::int32_t> cannot_fit;  ///< rows of the problem, where `enough_bytes` is proved too low
  std::function<bool()> should_stop;

  [[nodiscard]] Bytes goal() const { return std::max(bound_bytes, enough_bytes); }
  [[nodiscard]] bool done() const { return height_bytes <= goal() || !cannot_fit.empty(); }
};

/// Lowers the packing of the piece for as long as the effort lasts. Deterministic whatever the thread count.
void improve(Piece& piece, Effort& effort);

}  // namespace tidemark::layout
