#pragma once
// The simulated back end: any capacity without memory behind it, virtual time (device/sim_world.h), modelled links, a
// race checker (device/race_checker.h), symbolic contents for verifying launches, and faults on demand.
//
// Engines. Work of one stream runs in its order, one piece at a time. Launches of different streams overlap freely.
// Copies of one direction share one link per device, first come first served; the two directions do not disturb each
// other. A copy takes latency + bytes / rate, or what is given for it. A send takes its estimate_ns; a receive takes no
// time of its own and completes when the matching send has ended (same ranks and tag; the n-th matches the n-th).
// Memory. Mapping, aliasing and remapping move entries of a page table. Addresses are never given out twice except for
// mapped ones. Giving memory back is immediate; if something in flight touches it, that is a race report.
// Errors of the caller that hardware would not notice (touching memory that is not allocated, races) are reports, not
// error codes; the call answers ok.
// Contents. Verifying launches (Work::verify) fill and check symbolically: a byte is "place p of pattern(seed)" or
// unknown. Copies carry contents along; a source that changes under a copy arrives as unknown. Nothing is tracked, at
// no cost, before the first verifying launch is submitted.
//
// Failures. A late failure stays with its stream until a synchronisation tells it; events recorded after it carry it to
// the streams that wait for them. destroy_stream() answers an untold one, and so does the next synchronize_device().
//
// Cost: a launch or copy is one push and pop in a heap, a record or wait mostly none; the checker adds one look-up in
// its shadow a touched range.
// Threads: as device.h, one mutex per world.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/machine.h"
#include "device/device.h"
#include "device/race_checker.h"
#include "device/sim_world.h"

namespace tidemark {

/// Calls that can be told to fail.
enum class FaultPoint : std::uint8_t {
  map,  ///< map, alias and remap
  allocate_plain,
  allocate_pinned,
  create_stream,
  create_event,
  record_event,
  copy,
  launch,
  synchronize,  ///< any of the three
};
inline constexpr std::size_t kFaultPointCount = 9;

/// At calls first_call .. first_call + calls - 1 (counted from 1) of its point, something happens.
struct Fault {
  FaultPoint point = FaultPoint::copy;
  std::int64_t first_call = 1;
  std::int64_t calls = 1;            ///< kNoEnd: every call from the first
  DeviceCode code = DeviceCode::ok;  ///< not ok: the call fails with it; `lost` takes the device away
  bool late = false;          ///< copy, launch: accepted, fails when it runs, told by the next synchronisation; a
                              ///< send that fails so fails its receive
  std::int64_t stall_ns = 0;  ///< copy, launch: takes this much longer
  Bytes capacity_bytes = -1;  ///< >= 0: the device has only so much memory from now on
  static constexpr std::int64_t kNoEnd = INT64_MAX;
};

/// What copying so many bytes takes, given; pieces of them in proportion.
struct GivenCopyTime {
  Bytes bytes = 0;  ///< 0: not given
  std::int64_t ns = 0;
};

struct SimOptions {
  std::int32_t rank = 0;  ///< of this device in its world; messages name it
  std::string product = "simulated device";
  Bytes capacity_bytes = 64 * kGiB;
  Bytes pinned_capacity_bytes = 0;  ///< host memory that can be pinned; 0: any amount
  Bytes granule_bytes = 2 * kMiB;
  Bytes alignment_bytes = 512;
  Bytes tail_pad_bytes = 0;
  std::int64_t event_limit = 0;  ///< 0: none
  bool mapping = true;
  bool aliasing = true;
  Link d2h{.bytes_per_s = 25e9, .latency_ns = 10'000};
  Link h2d{.bytes_per_s = 25e9, .latency_ns = 10'000};
  double device_copy_bytes_per_s = 0;  ///< device_to_device; 0: takes no time
  std::int64_t launch_ns = 0;          ///< added to every launch that is not a message
  std::int64_t copy_launch_ns = 0;     ///< added to every copy
  std::vector<GivenCopyTime> copies;   ///< by id of the copy, in place of the links' rates; may be shorter
  std::int64_t poll_ns = 1'000;        ///< a query that answers not_ready costs the host this, so that polling ends
  bool check_races = true;
  bool report_unwritten = false;  ///< the race checker also reports reads of bytes that nothing has written
  std::size_t race_report_limit = 64;
  bool record_timeline = false;
  std::vector<Fault> faults;
};

struct SimStreamStatistics {
  StreamHandle stream{};
  std::string name;  ///< role, "#2" and so on for further ones
  std::int64_t works = 0;
  std::int64_t busy_ns = 0;  ///< time work was running on it
};

/// Counted since the device was made or reset_statistics(); *_bytes without "peak" are current.
struct SimStatistics {
  Bytes mapped_bytes = 0;  ///< memory behind mappings; aliased memory counts once
  Bytes plain_bytes = 0;
  Bytes pinned_bytes = 0;
  Bytes peak_device_bytes = 0;  ///< of mapped + plain
  Bytes peak_pinned_bytes = 0;
  std::int64_t launches = 0;
  std::int64_t copies[3] = {};  ///< by CopyKind
  Bytes copied_bytes[3] = {};
  std::int64_t first_start_ns = -1;  ///< of any work; -1: none ran
  std::int64_t last_end_ns = -1;     ///< the step took last_end_ns - first_start_ns
  std::vector<SimStreamStatistics> streams;
};

/// One piece of work as it ran.
struct SimSpan {
  StreamHandle stream{};
  std::int64_t id = -1;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool is_copy = false;
};

class SimDevice : public Device {
 public:
  /// The host itself touches bytes (a pinned buffer, usually) now; `label` names it in reports.
  virtual void host_access(Address address, Bytes bytes, AccessKind kind, std::string_view label) = 0;

  [[nodiscard]] virtual std::int64_t race_count() const = 0;
  [[nodiscard]] virtual std::vector<RaceReport> races() const = 0;  ///< the first race_report_limit
  virtual void clear_races() = 0;

  [[nodiscard]] virtual SimStatistics statistics() const = 0;
  virtual void reset_statistics() = 0;  ///< peaks restart from the current bytes
  /// What ran since the last call, by end time. Empty unless record_timeline.
  [[nodiscard]] virtual std::vector<SimSpan> take_timeline() = 0;
  /// Replaces the fault list and restarts the call counts.
  virtual void set_faults(std::vector<Fault> faults) = 0;
  /// Streams, events, mapped granules, plain and pinned allocations that were not given back, in words; empty: none.
  [[nodiscard]] virtual std::string leaks() const = 0;
};

/// A device that owns its own world.
[[nodiscard]] std::unique_ptr<SimDevice> make_sim_device(const SimOptions& options = {},
                                                         const SimSchedule& schedule = {});

}  // namespace tidemark
