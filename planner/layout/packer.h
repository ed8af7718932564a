#pragma once
// Addresses for intervals: the seam behind which packers live, one a file. A packer sees numbers only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/layout/pack_problem.h"

namespace tidemark::layout {

struct Packing {
  std::vector<Bytes> offsets;  ///< per item; 0 for items that take part in no packing
  Bytes height_bytes = 0;      ///< the highest byte used, sizes rounded up to the alignment
};

/// How far a packer may go. The result depends on nothing else: with the same work, and nobody stopping it, the same
/// bytes come out whatever the thread count.
struct PackLimits {
  /// Placements of one block and nodes of a search, about a microsecond each on a current core. Orders spend none.
  std::int64_t work = 100'000;
  /// Asked every few hundred units, from any thread. The best so far is returned; being stopped later never makes it
  /// higher. An order that is stopped piles up what is left in O(n log n).
  std::function<bool()> should_stop;
  /// A height that satisfies: the search ends there. 0: as low as possible.
  Bytes enough_bytes = 0;
  /// From here on a height is of no use: an order that comes there piles up what is left.
  Bytes useless_bytes = std::numeric_limits<Bytes>::max();
  /// Of the table, from its top: best_order() leaves the others out.
  std::size_t most_orders = std::numeric_limits<std::size_t>::max();
};

enum class PackStatus : std::uint8_t {
  optimal,     ///< the height is the lower bound
  best_found,  ///< the least height lies between the bound and this one
  infeasible,  ///< no packing is as low as `enough_bytes`: `cannot_fit` are items that cannot fit together
};

struct PackAnswer {
  Packing packing;        ///< valid whatever the status
  Bytes bound_bytes = 0;  ///< no packing is lower
  PackStatus status = PackStatus::best_found;
  std::string_view packer;  ///< whose packing it is
  std::vector<std::int32_t> cannot_fit;

  [[nodiscard]] double excess_percent() const {
    return bound_bytes > 0
               ? 100.0 * static_cast<double>(packing.height_bytes - bound_bytes) / static_cast<double>(bound_bytes)
               : 0.0;
  }
};

/// REQUIRES of every packer: no find_contradiction(problem).
struct Packer {
  std::string_view name;
  std::string_view help;
  bool is_order = false;  ///< about one pass over the blocks; of the limits, heeds no work
  PackAnswer (*pack)(const PackProblem& problem, const PackLimits& limits);
};

/// Every packer, in the order of planner/layout/files.cmake.
[[nodiscard]] std::span<const Packer> packers();
[[nodiscard]] const Packer* find_packer(std::string_view name);

/// Max over the clock of the bytes needed (rounded to the alignment), or where the highest fixed block ends: no packing
/// is lower.
[[nodiscard]] Bytes packing_load(const PackProblem& problem);

/// The lowest packing of all orders, or of the first in the table that is as low as the load or `enough_bytes`.
/// Never asks to stop where the set is so small that orders take some tens of milliseconds. In larger ones the cheapest
/// order goes first, and whatever has no time left is missing.
[[nodiscard]] PackAnswer best_order(const PackProblem& problem, const PackLimits& limits);

/// An answer whose bound is the load: packing_load of the problem.
[[nodiscard]] PackAnswer answer_of(Bytes load_bytes, Packing packing, std::string_view packer);
[[nodiscard]] PackAnswer answer_of(const PackProblem& problem, Packing packing, std::string_view packer);

}  // namespace tidemark::layout
