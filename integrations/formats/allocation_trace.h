#pragma once
// What a framework asked of its allocator, in order: the one vocabulary all traces are read into, whatever wrote them.
//
//   blocks   0 1 2 | 3 4 5 ...        blocks [0, live_at_start) exist before the first event
//   events   alloc 3, alloc 4, free 0, free 3, alloc 5, ...
//
// A block is one allocation from its birth to its end: an address that is used again is another block. Time is the
// position of an event; clocks of the source only order events and are not kept.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace tidemark::formats {

/// Readers refuse what adds up to more than this, so that sums stay exact.
inline constexpr Bytes kMostTraceBytes = std::int64_t{1} << 60;

struct AllocationTrace {
  struct Block {
    Bytes bytes = 0;  ///< > 0, as the source states it (PyTorch: as requested, or the block where that is gone)
    std::uint64_t stream = 0;              ///< the source's name for the stream that allocated it
    std::optional<std::uint64_t> address;  ///< in the source, where it tells
    friend bool operator==(const Block&, const Block&) = default;
  };
  enum class Action : std::uint8_t { alloc, free };
  struct Event {
    Action action = Action::alloc;
    std::int32_t block = 0;  ///< row of `blocks`
    friend bool operator==(const Event&, const Event&) = default;
  };

  std::string source;  ///< which reader: "operator_memory", "snapshot", "minimalloc", "rmm_log"
  /// In the order of their births; those live at the start first, by address where known.
  std::vector<Block> blocks;
  std::int32_t live_at_start = 0;  ///< blocks [0, live_at_start) are live before the first event
  std::vector<Event> events;       ///< every other block is allocated once; every block freed at most once, and after
  /// What the source said that could not be used, one line each: shown, never an error.
  std::vector<std::string> notes;
  friend bool operator==(const AllocationTrace&, const AllocationTrace&) = default;
};

struct TraceFigures {
  std::int64_t allocs = 0;
  std::int64_t frees = 0;
  Bytes start_bytes = 0;  ///< live before the first event
  Bytes peak_bytes = 0;   ///< most live at any time, those of the start included
  Bytes end_bytes = 0;    ///< live after the last event
  friend bool operator==(const TraceFigures&, const TraceFigures&) = default;
};

/// O(blocks + events).
[[nodiscard]] TraceFigures figures_of(const AllocationTrace& trace);

/// Different streams of the blocks.
[[nodiscard]] std::size_t count_streams(const AllocationTrace& trace);

/// The first rule of the comments above that is broken, in words, or nothing: what every reader promises.
[[nodiscard]] std::optional<std::string> find_fault(const AllocationTrace& trace);

}  // namespace tidemark::formats
