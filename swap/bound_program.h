#pragma once
// A Program at a scale: sizes, places and order as the executor submits them, worked out once for every step.
//
// Scale 1/N divides offsets and sizes: offsets exactly (they are multiples of 8 * N), sizes rounded up, so that ranges
// which were apart stay apart.

#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "core/result.h"
#include "swap/storage_versions.h"
#include "swap/task_streams.h"

namespace tidemark::swap {

/// Where a residency stands: its arena, and bytes there.
struct Place {
  ArenaId arena = kNone<ArenaId>;
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// The message of a p2p task.
struct BoundMessage {
  TaskId task = kNone<TaskId>;
  std::int32_t peer_rank = -1;
  std::int64_t tag = 0;
  bool is_send = false;
};

/// A residency with content before or behind the step. What rests in host memory is filled and checked by way of the
/// device bytes it is swapped to, one storage at a time, as initialisation and checkpoints would.
struct FullResidency {
  ResidencyId residency = kNone<ResidencyId>;
  ResidencyId on_device = kNone<ResidencyId>;  ///< itself, or the last it is copied to or from
};

struct BoundProgram {
  const Program* program = nullptr;
  std::int64_t scale = 1;
  std::vector<Place> places;         ///< per residency, scaled
  std::vector<Bytes> arena_bytes;    ///< per arena, scaled: what planned residencies use (heights)
  std::vector<Bytes> touched_bytes;  ///< per arena, scaled: highest byte of any residency that is touched
  TaskStreams streams;
  std::vector<FullResidency> full_before;  ///< hold content before the step; all others start empty
  std::vector<FullResidency> full_behind;  ///< hold the last version behind the step
  TouchVersions versions;
  std::vector<BoundMessage> messages;  ///< ascending task
  std::vector<std::int32_t> routed;    ///< per residency: index into Program::routed, or -1
  std::vector<std::int32_t> clock;     ///< per task: compute tasks before it

  [[nodiscard]] Bytes scaled(Bytes bytes) const { return (bytes + scale - 1) / scale; }
};

/// Errors (bad_input): a scale that is no power of two or too large for the arenas' alignment; a copy
/// between residencies of two sizes; a task that writes a residency over another that it touches. Ids out of range are
/// for core/verify.
[[nodiscard]] Result<BoundProgram> bind_program(const Program& program, std::int64_t scale);

}  // namespace tidemark::swap
