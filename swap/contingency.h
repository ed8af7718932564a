#pragma once
// What a step does where a site's expert load is above the planned one: oversized storages get room in the dynamic
// region, and the contingencies whose trigger is exceeded are carried out. Loads at or below the plan cost a look-up.
//
// Order. before_task() is called before anything of the task is submitted (room is refused here, with nothing
// overwritten), join_before() after its waits, after_task() behind it.
//
//   trigger ........ release_at ............ prefetch_at ........ needed_at      (tasks of the Program)
//     | copy out         | waits for it           | copy in             | waits for it, or the steps run
//     '- d2h ------------'  granules are free     '- h2d, new granules -'
//
// Room of the region is taken in the order of the compute clock: a first touch off the compute lane waits for the
// compute task submitted last (core/dynamic_region.h). Swapped copies of oversized storages keep their host slot and
// put the rest into spare pinned memory (core/spare_host.h).
//
// A section that the expert group agrees to run in chunks (core/dispatch_section.h) gets its room at once, before its
// first task: buffers for what is inside, and the extras of what its tasks touch first.
//
// Threads: none.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dispatch_section.h"
#include "core/hole_granules.h"
#include "core/result.h"
#include "swap/arena_memory.h"
#include "swap/bound_program.h"
#include "swap/dynamic_region.h"
#include "swap/executor.h"
#include "swap/host_memory.h"
#include "swap/run_report.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

class ContingencyEngine {
 public:
  /// What the executor does for it.
  struct Hooks {
    /// Submits a check of what was copied in (with verify).
    std::function<DeviceCode(ResidencyId, std::int64_t id)> check_copy_in;
    /// Submits one step of a recompute contingency on the compute stream.
    std::function<DeviceCode(const ContingencyStep&, std::int64_t id)> run_step;
  };
  struct Parts {
    const BoundProgram& bound;
    const RunOptions& options;
    ArenaMemory& memory;
    HostMemory& host;
    StreamSet& streams;
    TransferEngine& transfers;
    DynamicRegion* region = nullptr;  ///< nullptr: none
    ArenaId region_arena = kNone<ArenaId>;
    ArenaId spare_host = kNone<ArenaId>;  ///< kNone: none
    std::int64_t spare_host_pieces = 0;   ///< of kHostPiece
    std::vector<Address>& addresses;      ///< per residency, kept up to date
    std::vector<Bytes>& bytes;            ///< per residency, scaled, kept up to date
  };
  ContingencyEngine(const Parts& parts, Hooks hooks);

  void restart();
  [[nodiscard]] Status before_task(TaskId task);
  [[nodiscard]] Status join_before(TaskId task);
  [[nodiscard]] Status after_task(TaskId task);

  /// Before before_task() of a section's first task: asks the group. True: inside storages are in their buffers, room
  /// for kept ones is taken, and the section is to run in chunks.
  [[nodiscard]] Result<bool> enter(std::int32_t section, const SectionParts& parts);
  /// What a device residency takes at its site's load, in true size: at least the planned bytes.
  [[nodiscard]] Bytes true_bytes(ResidencyId residency) const;

  /// The host side of a planned copy.
  [[nodiscard]] std::span<const HostPiece> host_pieces(ResidencyId host, Bytes scaled_bytes);

  [[nodiscard]] const std::vector<OversizedRecord>& oversized() const { return oversized_; }
  [[nodiscard]] const std::vector<ContingencyRecord>& records() const { return records_; }
  [[nodiscard]] const std::vector<SectionRecord>& sections() const { return sections_; }

 private:
  /// A contingency in force.
  struct Active {
    std::int32_t index = -1;  ///< in the program's list
    OversizedStay stay;       ///< before, then after the gap
    std::optional<StreamSet::Mark> copied_out, copied_in;
    std::size_t record = 0;
  };
  enum class Point : std::uint8_t { trigger, release, prefetch, need };
  struct Due {
    Point point = Point::trigger;
    std::int32_t active = -1;
  };
  struct Entry {
    TaskId first = kNone<TaskId>;
    std::int32_t routed = -1;
  };

  /// Asked once a step. Errors (bad_input): no number, or outside [0, 1000].
  [[nodiscard]] Result<double> load_of(SiteId site);
  [[nodiscard]] Status place(const Entry& entry, TaskId task);
  /// From which a storage is in use that this task touches first.
  [[nodiscard]] std::int32_t half_step(TaskId task) const;
  [[nodiscard]] Result<double> section_load(const SectionParts& parts);
  /// Buffers for what is inside, and room for what is kept.
  [[nodiscard]] Status take_places(std::int32_t section, const SectionParts& parts, double load);
  [[nodiscard]] ChunkWish wish_for(const DispatchSection& section, const SectionParts& parts, double load);
  /// Whether what the section keeps and is not placed yet finds room now.
  [[nodiscard]] bool has_room(const SectionParts& parts, double load);
  /// `begin`: of the stay by the plan; `acquire`: where it is taken, no earlier.
  [[nodiscard]] Status take(ResidencyId residency, Bytes actual, std::int32_t begin, std::int32_t acquire, double load,
                            SiteId site, OversizedStay& stay);
  [[nodiscard]] std::span<const GranuleRange> holes_of(ResidencyId residency, std::int32_t begin);
  [[nodiscard]] std::optional<std::int32_t> contingency_of(ResidencyId residency, TaskId after, Bytes actual) const;
  void follow(ResidencyId residency, Bytes actual, double load, SiteId site, TaskId after, const OversizedStay& stay);
  [[nodiscard]] Status enlarge_host(TaskId task);
  [[nodiscard]] Status trigger(Active& active);
  [[nodiscard]] Status release(Active& active);
  [[nodiscard]] Status prefetch(Active& active);
  [[nodiscard]] Status need(Active& active, TaskId task);
  [[nodiscard]] Status perform(Active& active, Point point, TaskId task);
  [[nodiscard]] Status perform_due(std::multimap<TaskId, Due>& due, TaskId task);
  [[nodiscard]] std::vector<HostPiece> contingency_pieces(const Contingency& c, Bytes actual) const;
  /// `up to load 1.2`: what the plan promises, with what the group has answered so far.
  [[nodiscard]] std::string promise() const;
  [[nodiscard]] std::string who(SiteId site, double load) const;
  [[nodiscard]] Status check(DeviceCode code, const Active& active, const char* what);

  Parts p_;
  Hooks hooks_;
  std::vector<Entry> entries_;  ///< routed device residencies by first task
  std::size_t next_entry_ = 0;
  std::vector<std::vector<std::int32_t>> contingencies_of_;  ///< per routed: indices, ascending trigger
  std::vector<std::int32_t> first_contingency_;
  std::vector<std::int32_t> in_use_from_;  ///< per residency
  std::vector<double> loads_;              ///< per site; below 0: not asked
  std::vector<Bytes> actual_;              ///< per routed; 0: as planned
  std::vector<char> placed_;               ///< per routed: this step
  std::vector<Active> active_;
  std::multimap<TaskId, Due> before_, joins_, after_;
  bool order_first_touch_ = false;
  bool declined_ = false;              ///< a section that was asked for runs whole: the second limit is not promised
  std::optional<HoleGranules> holes_;  ///< assigned for the program's limit when first asked for
  std::optional<GranulePool> spare_;
  std::map<ResidencyId, std::vector<HostPiece>> host_;  ///< enlarged host residencies
  HostPiece planned_piece_;
  std::vector<OversizedRecord> oversized_;
  std::vector<ContingencyRecord> records_;
  std::vector<SectionRecord> sections_;
};

}  // namespace tidemark::swap
