#pragma once
// What running a dispatch in chunks means, written once for planner, checker and runtime.
//
// A section is given by its *inside storages*: routed residencies whose every touch is by an op on rows of one (chunk,
// layer, micro-batch) in one pass. Its tasks are those that touch one of them. In k chunks they run k times, each time
// on the next ceil(rows / k) rows:
//
//   whole      | ......... s1 ... f ... s2 ... s3 ... |      s: tasks of the section, f: of others
//   in chunks  | s1 s2 s3  s1 ... f ... s2 ... s3 ... |      the first k - 1 chunks stand where the first task does,
//                ^begin                                      the last chunk where the plan has it
//
//   inside   a chunk at a time, in a buffer of its own (ChunkBuffer), never in its slot: nothing of the dynamic region;
//   kept     routed and touched by others as well: the rows of the chunk, range by range, of the whole storage;
//   others   (parameters, gradients, rows at home): whole, in every chunk.
//
// What an op must do. It works on the rows it is given. What it writes that is not rows, it adds up over the chunks:
// the first one writes it as the whole op would, each later one adds its share (rows at home: sums over experts); sums
// of gradients it adds to anyway. That it does so nobody can check here. What is checked: one task of the section alone
// writes such a storage, and no other reads it before the last chunk is through, sums of one lane apart.
//
// The chunks in front are one sequence: each task follows the one before it, the first follows everything submitted
// so far on the lanes that the section's tasks wait for and on the compute lane, and the last chunk follows them all.
//
// So all that changes for memory is that whatever the section's tasks touch is in use from `begin` on, and that inside
// storages stand elsewhere. Extras of kept storages are taken from there, too. The last chunk keeps the plan's order,
// so nothing is released later than planned.
//
// Trigger. A section asks for chunks when one of its inside storages would not fit its slot. All ranks of the expert
// group must do the same, since all-to-alls match: each asks agree() for every section in issue order, and all get the
// same answer. Without agreement the section runs whole, which contingency_limit_f has counted.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"

namespace tidemark {

inline constexpr std::int32_t kMostChunks = 64;

/// The tasks of a section and what they touch.
struct SectionParts {
  TaskId first = kNone<TaskId>, last = kNone<TaskId>;
  std::vector<TaskId> tasks;        ///< ascending
  std::vector<ResidencyId> inside;  ///< as listed
  std::vector<ResidencyId> kept;    ///< device residencies that are touched and not inside, ascending
  std::vector<Lane> follows;        ///< lanes whose tasks before `first` are over when the first chunk begins
  std::int32_t begin = 0;           ///< half-step from which all of them are in use, in chunks
};

/// REQUIRES: ids in range and at least one residency, all of them touched. `clock`: compute_clock of the schedule.
[[nodiscard]] SectionParts parts_of(const Schedule& schedule, std::span<const ChunkBuffer> buffers,
                                    const std::vector<std::int32_t>& clock);
[[nodiscard]] std::span<const ChunkBuffer> buffers_of(const Program& program, const DispatchSection& section);

/// Per residency, the half-step from which it may be in use: its acquire, or the begin of a section that keeps it.
[[nodiscard]] std::vector<std::int32_t> in_use_from(const Program& program);
/// Per residency, whether it is inside a section.
[[nodiscard]] std::vector<char> inside_sections(const Program& program);

/// When and where chunks of a storage stand.
struct BufferUse {
  ResidencyId residency = kNone<ResidencyId>;
  std::int32_t from = 0, until = 0;  ///< half-steps
  Bytes offset = 0, bytes = 0;
};
[[nodiscard]] std::vector<BufferUse> buffer_uses(const Program& program);

/// Bytes of an arena that are in use from one half-step until another.
struct ByteUse {
  ResidencyId residency = kNone<ResidencyId>;
  ArenaId arena = kNone<ArenaId>;
  std::int32_t from = 0, until = 0;
  Bytes begin = 0, end = 0;
  /// Before the first compute task the clock stands still; what is in use there is so for a while all the same.
  [[nodiscard]] std::int32_t last() const { return std::max(until, from + 1); }
  [[nodiscard]] bool at_once(const ByteUse& other) const { return from < other.last() && other.from < last(); }
  [[nodiscard]] bool meets(const ByteUse& other) const {
    return arena == other.arena && at_once(other) && begin < other.end && other.begin < end;
  }
};

/// A storage in its slot, from a half-step until its release. What a section keeps, it has in use from the section's
/// begin: until the release, since where lanes alone order two stays within the same half-steps, chunks in front do
/// not.
[[nodiscard]] ByteUse slot_use(const Program& program, ResidencyId residency, std::int32_t from);

/// Rows [begin, end) of a chunk.
struct RowRange {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};
[[nodiscard]] RowRange rows_of_chunk(std::int64_t rows, std::int32_t chunks, std::int32_t chunk);

/// Rows of a routed storage that takes `bytes` in all.
[[nodiscard]] std::int64_t rows_in(const RoutedResidency& routed, Bytes bytes);

/// What the largest chunk takes of a storage that takes `bytes` in all.
[[nodiscard]] Bytes chunk_bytes(const RoutedResidency& routed, Bytes bytes, std::int32_t chunks);

/// Room of a buffer: a chunk at load `limit`, or of the planned bytes where those are more.
[[nodiscard]] Bytes buffer_bytes(const RoutedResidency& routed, Bytes planned_bytes, double limit, std::int32_t chunks);

}  // namespace tidemark
