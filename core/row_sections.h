#pragma once
// How a layer runs in chunks when the rows that routing makes do not fit, written once for planner, checker and
// runtime.
//
// A *section* is what one site (chunk, layer, micro-batch) does with routed rows between two sums of rows for their
// tokens: forward from the rows picked for experts to the sum of what comes back, backward from the rows of the sum's
// gradient to the sum of the tokens' gradient; a recipe that rebuilds what is summed up is one, too. Its *end* is the
// task that sums rows up (Program::section_ends). Its tasks are all ops and recomputes of the site that touch routed
// storages, since the end before, and collectives that make something for them alone (tokens gathered to pick rows
// from); the last section has those behind its end as well (weight gradients), and the second one the recomputes in
// front of the first end.
//
//   whole      | t1 ... t2 ... t3 ... end ... t4 |     t: tasks of the section, c: their chunks
//   in chunks  |                      ccc        |     everything runs at the end, n times on ceil(rows / n) rows
//
// In chunks, the section's tasks do nothing at their own places (their waits hold all the same). At its end each chunk
// runs the ops of the section, part by part of the exchange, and in front of them the ops of the site's forward pass
// that make what they read of rows again: from what is in memory there. Nothing of a site that runs in chunks is kept
// for a later section: that one runs in chunks as well, and dispatches again.
//
// In memory, during the end and nothing besides:
//   routed rows       received and sent, a chunk at a time, in the *room*: the slot of a routed storage that the end
//                     touches, and what is free beside it; where that storage is older than the section, its slot
//                     alone, which is lent to no other in between;
//   gathered tokens   in the room, as many as the chunk has rows that are picked from them, all of them at most;
//   what is made once in the room, whole;
//   sources and sums  where they stand by the plan. Sources are touched by the end, or stand all step; so no layer
//                     needs more memory than its plan has, however many rows come.
//
// What an op must do. It works on the rows it is given. Rows of a chunk are dealt out over the pairs of devices so that
// no device sends or receives more than ceil(its rows / n) in one: counts rounded pair by pair would come to more, but
// some rounding always does (rows are edges between two sides of devices, chunks their colours; equitable colourings of
// such graphs exist: de Werra, 1971).
// One that gathers tokens to pick rows from brings those of which the chunk has rows. What it writes that is not rows
// it adds up over the chunks: the first writes it as the whole op would. That it does so no checker here can tell. All
// devices of an expert group run a section in the same number of chunks, since their exchanges match.
//
// The end stands still for compute: what the chunks do is ordered behind the compute task issued before the end, and
// the next one behind it. On the compute clock it is one instant, and what is in use before and behind is in use in it.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/program.h"

namespace tidemark {

/// Where a storage stands during the chunks, in the order of the room.
struct ChunkPlace {
  StorageId storage = kNone<StorageId>;
  std::int32_t routed = -1;  ///< row of Program::routed: as many of its rows as a chunk has; -1: it stands there whole
  Bytes bytes = 0;           ///< not routed: what it takes
  std::int32_t times = 1;    ///< gathered tokens: the parts that pick rows from them
  /// A chunk takes no more: all gathered tokens, of which a chunk has as many as rows are picked from them.
  Bytes most = std::numeric_limits<Bytes>::max();
  std::int32_t first = 0;  ///< in use from this op of RowSection::loop ...
  std::int32_t last = 0;   ///< ... until this one; others may stand in its bytes before and behind
};

/// Where a storage that is in memory at the end stands by the plan.
struct StandingPlace {
  StorageId storage = kNone<StorageId>;
  ResidencyId residency = kNone<ResidencyId>;
};

struct RowSection {
  SiteId site = kNone<SiteId>;
  TaskId begin = kNone<TaskId>;  ///< its first task
  TaskId end = kNone<TaskId>;
  std::vector<TaskId> tasks;      ///< ascending
  std::vector<ResidencyId> rows;  ///< routed residencies that its tasks touch, ascending
  ResidencyId room = kNone<ResidencyId>;
  std::vector<TaskId> once;  ///< ops run whole before the first chunk
  std::vector<TaskId> loop;  ///< ops run for each chunk; their rows are the chunk's
  std::vector<ChunkPlace> places;
  std::vector<StandingPlace> standing;  ///< ascending storage
  std::string fault;                    ///< why it cannot run in chunks; empty: it can
};

/// The fewest and the most chunks a section is asked to run in.
inline constexpr std::int32_t kFewestChunks = 2;
inline constexpr std::int32_t kMostChunks = 1 << 20;

/// Sections of a Program, ascending end. REQUIRES: ids are in range. O(tasks + touches).
[[nodiscard]] std::vector<RowSection> row_sections(const Program& program);

/// What the storage of a place takes of the room in this chunk; none takes more than in the first.
[[nodiscard]] Bytes chunk_bytes(const Program& program, const ChunkPlace& place, const SiteLoad& load,
                                std::int32_t chunks, std::int32_t chunk);
/// What the room needs for `chunks` chunks at a load, true size.
[[nodiscard]] Bytes room_bytes(const Program& program, const RowSection& section, const SiteLoad& load,
                               std::int32_t chunks);
/// Where each of the section's places begins in the room.
[[nodiscard]] std::vector<Bytes> room_offsets(const Program& program, const RowSection& section, const SiteLoad& load,
                                              std::int32_t chunks);
/// The fewest chunks, kFewestChunks at least, for which `room` bytes do; 0: none do.
[[nodiscard]] std::int32_t least_chunks(const Program& program, const RowSection& section, const SiteLoad& load,
                                        Bytes room);

}  // namespace tidemark
