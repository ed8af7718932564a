#pragma once
// Pinned memory for planned copies, by what their storages hold: in their slots, and in pieces of kHostPiece
// (core/spare_host.h) what exceeds them. Pieces are what the plan leaves of the pinned memory, what stands empty in it
// by the plan for a while, and what smaller copies leave of their slots.
//
// Threads: none. Cost: O(log n) a run of pieces.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "swap/bound_program.h"
#include "swap/granule_pool.h"
#include "swap/host_memory.h"
#include "swap/plan_gaps.h"

namespace tidemark::swap {

class HostPieces {
 public:
  /// `spare`: an arena of `count` pieces beside those of the Program; kNone: none.
  HostPieces(const BoundProgram& bound, ArenaId spare, std::int64_t count);

  /// Where a copy of `actual` bytes (true size) into this residency stands; nothing: there are not pieces enough.
  /// REQUIRES: acquire is not below that of earlier calls.
  [[nodiscard]] std::optional<std::vector<HostPiece>> place(ResidencyId host, Bytes actual, std::int32_t acquire);
  struct Taken {
    std::vector<HostPiece> pieces;
    std::vector<GranulePool::Run> runs;
  };
  /// Pieces for `bytes` (true size) that the plan has no slot for, from half-step `acquire` until `until` at most; to
  /// be given back. REQUIRES: as place().
  [[nodiscard]] std::optional<Taken> take(Bytes bytes, std::int32_t acquire, std::int32_t until);
  /// Every copy that touches them is ordered before half-step `release`.
  void give_back(const Taken& taken, std::int32_t release) { pool_.give_back(taken.runs, release); }
  /// Nothing stands in the residency's slot this step: others may.
  void vacate(ResidencyId host);
  void restart();

 private:
  void lend_slot(ResidencyId host, Bytes filled);
  void append(std::span<const GranulePool::Run> runs, Bytes left, std::vector<HostPiece>& pieces) const;
  /// Of the piece with this number: the spare ones first, then those of the Program's host arena.
  [[nodiscard]] HostPiece at(std::int64_t piece) const;

  const BoundProgram* bound_;
  ArenaId spare_;
  std::int64_t spare_count_;
  ArenaId host_ = kNone<ArenaId>;  ///< the Program's
  std::vector<PlanGap> gaps_;      ///< of the Program's arena, by number
  GranulePool pool_;
};

}  // namespace tidemark::swap
