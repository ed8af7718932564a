#pragma once
// Finds unordered conflicts between what streams and the host do to bytes, from the order of submission alone.
//
// What. The caller reports every submission in the order it happens: work with the ranges it touches, records and waits
// of events, synchronisations, allocations and frees. Two accesses to a byte conflict unless both read; a conflict is a
// race when neither access happens before the other. Happens-before is: order within a stream; record -> wait; the host
// timeline (what the host knew at submission happens before the work); a synchronisation or a query that answered
// "complete" (the event's or stream's past becomes known to the host). Virtual times play no part, so one run finds a
// race whether or not the schedule it met let the race strike.
//
// How. Vector clocks, one component per stream plus one for the host (all host threads count as one timeline), and a
// shadow over byte ranges that keeps the last write and, per stream, the last read since (the FastTrack idea). A race
// is reported at the access that closes it. Bytes exist between allocate() and free(); touching others is reported as
// use of memory that is not allocated. On demand, so is a read of bytes that nothing has written since allocate().
// Dropped reads are those ordered before a kept one, so: the first racy access of a program is always reported, every
// reported pair is a race, and a program without reports has none (tests compare with a quadratic oracle).
//
// Cost: O(log segments + segments covered + streams) an access; a range touched again as a whole costs one look-up.
// Threads: none of its own; the caller serialises.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark {

/// A stream as the checker knows it, or the host.
enum class RaceActor : std::int32_t { host = 0 };

enum class RaceAccess : std::uint8_t { read, write, free };
[[nodiscard]] const char* name_of(RaceAccess access);

/// What did it, for reports: an interned name ("copy", "launch", "free_plain") and the caller's number (-1: none).
struct RaceLabel {
  std::uint16_t what = 0;  ///< RaceChecker::intern()
  std::int64_t id = -1;
};

/// A half-open byte range. `view` is added to `begin` in reports: the distance of the address that the caller used from
/// the range checked, for memory that has several addresses.
struct RaceRange {
  Address begin = 0;
  Bytes bytes = 0;
  std::int64_t view = 0;
};

struct RaceSide {
  std::string what;
  std::int64_t id = -1;
  std::string actor;  ///< the stream's name, or "host"
  RaceAccess access = RaceAccess::read;
  Address begin = 0;  ///< later side: the whole range touched; earlier side: the part in conflict
  Bytes bytes = 0;
};

struct RaceReport {
  enum class Kind : std::uint8_t {
    conflict,       ///< `earlier` and `later` are unordered
    not_allocated,  ///< `later` touches bytes that are not allocated; `earlier` is the free, if one is remembered
    unwritten,      ///< `later` reads bytes that nothing has written since they were allocated
  };
  Kind kind = Kind::conflict;
  RaceSide earlier;  ///< submitted first
  RaceSide later;
  Address begin = 0;  ///< the bytes in question, as the later side addresses them
  Bytes bytes = 0;
  std::string missing_edge;  ///< what would order them, in words
};
/// One line: both sides, the bytes, the missing edge.
[[nodiscard]] std::string to_string(const RaceReport& report);

class RaceChecker {
 public:
  enum class Unwritten : std::uint8_t { may_be_read, is_reported };

  /// Keeps the text of the first `report_limit` reports; all are counted.
  explicit RaceChecker(std::size_t report_limit = 64, Unwritten unwritten = Unwritten::may_be_read);
  ~RaceChecker();
  RaceChecker(const RaceChecker&) = delete;
  RaceChecker& operator=(const RaceChecker&) = delete;

  [[nodiscard]] std::uint16_t intern(std::string_view name);
  [[nodiscard]] RaceActor add_stream(std::string name);
  /// REQUIRES: the host knows all work of the stream (it synchronised with it). The id may be given out again.
  void remove_stream(RaceActor stream);
  [[nodiscard]] std::int32_t add_event();
  void remove_event(std::int32_t event);

  /// The stream's next piece of work starts here; the accesses that follow on it belong to this work.
  void begin_work(RaceActor stream);
  /// `actor` is a stream (within the work begun last) or the host (then each call is a piece of its own).
  void access(RaceActor actor, RaceRange range, RaceAccess access, RaceLabel label);

  /// An access to addresses with nothing behind them (`range.begin` is the address, its view 0): always reported.
  void access_nothing(RaceActor actor, RaceRange range, RaceAccess access, RaceLabel label);

  void record(std::int32_t event, RaceActor stream);
  void wait(RaceActor stream, std::int32_t event);  ///< an event never recorded orders nothing
  void host_knows_event(std::int32_t event);        ///< synchronised, or a query answered "complete"
  void host_knows_stream(RaceActor stream);
  // For a wait during which others go on submitting: what the host will know is what there was when the wait began.
  // Both make an event, to be given to host_knows_event() and remove_event().
  [[nodiscard]] std::int32_t snapshot_stream(RaceActor stream);
  [[nodiscard]] std::int32_t snapshot_event(std::int32_t event);

  /// Bytes come into being, unknown to all streams. REQUIRES: none of them is allocated.
  void allocate(RaceRange range);
  /// The host gives bytes back: must be ordered after every access. Bytes not allocated are reported.
  void free(RaceRange range, RaceLabel label);
  /// One address of bytes that keep another address goes away: must be ordered after accesses made through this view.
  void retire_view(RaceRange range, RaceLabel label);

  [[nodiscard]] std::int64_t count() const;                      ///< of all reports
  [[nodiscard]] const std::vector<RaceReport>& reports() const;  ///< the first `report_limit`
  [[nodiscard]] std::int64_t segment_count() const;              ///< size of the shadow
  void clear_reports();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidemark
