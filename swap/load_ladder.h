#pragma once
// What a step does where a site's loads are not the planned ones. Three rungs:
//
//   room    a routed storage that is larger than its slot gets a window of addresses with what is free beside it
//           (swap/dynamic_region.h), its copy in host memory pieces beside its own (swap/host_pieces.h); one that is
//           smaller takes what it holds, and lends the rest;
//   spill   one that is too large and finds no room for all of its life leaves device memory in its middle
//           (swap/spills.h), and lends its slot meanwhile;
//   chunks  a section (core/row_sections.h) whose storages find no room, or of which a storage could not be kept, runs
//           in chunks, together with the whole expert group. It needs no memory that its plan does not have.
//
// All room of a section is taken before its first task, and a copy that finds none is left out, whereupon the later
// section runs in chunks. One refusal is left in the middle of a step: a storage that one section copies out and reads
// again has no pinned memory. No plan made here has such a section.
//
// Threads: none.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/row_sections.h"
#include "swap/bound_program.h"
#include "swap/dynamic_region.h"
#include "swap/executor.h"
#include "swap/host_pieces.h"
#include "swap/run_report.h"
#include "swap/spills.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

class LoadLadder {
 public:
  struct Parts {
    const BoundProgram& bound;
    const RunOptions& options;
    StreamSet& streams;
    TransferEngine& transfers;
    HostMemory& host;
    DynamicRegion* region = nullptr;  ///< nullptr: none
    ArenaId region_arena = kNone<ArenaId>;
    ArenaId spare_host = kNone<ArenaId>;  ///< kNone: none
    std::int64_t spare_host_pieces = 0;   ///< of kHostPiece
    std::vector<Address>& addresses;      ///< per residency, kept up to date
    std::vector<Bytes>& bytes;            ///< per residency, scaled, kept up to date
    /// Submits a check of what was copied in (with verify).
    std::function<DeviceCode(ResidencyId, std::int64_t id)> check_copy_in;
  };
  explicit LoadLadder(const Parts& parts);

  void restart();
  /// Before anything of the task is submitted: what it and its section need is placed, or its section runs in chunks.
  [[nodiscard]] Status before_task(TaskId task);
  /// After the task's waits.
  [[nodiscard]] Status join_before(TaskId task);
  [[nodiscard]] Status after_task(TaskId task);
  /// The task does nothing at its place: its section runs in chunks, or there is nothing to copy.
  [[nodiscard]] bool skips(TaskId task) const;

  /// A section in chunks, at its end.
  struct Chunks {
    const RowSection* section = nullptr;
    std::int32_t count = 0;
    /// For which the room was found: places are laid out for so many, since more chunks may lie less well.
    std::int32_t fewest = 0;
    SiteLoad load;
    Address room = 0;
  };
  [[nodiscard]] std::optional<Chunks> chunks_at(TaskId end) const;

  /// The host side of a planned copy.
  [[nodiscard]] std::span<const HostPiece> host_pieces(ResidencyId host, Bytes scaled_bytes);

  [[nodiscard]] const std::vector<OversizedRecord>& oversized() const { return oversized_; }
  [[nodiscard]] const std::vector<SectionRecord>& sections() const { return records_; }
  [[nodiscard]] const std::vector<SpillRecord>& spills() const { return spilled_; }

 private:
  /// Where a routed residency would stand.
  struct Placing {
    ResidencyId residency = kNone<ResidencyId>;
    Bytes actual = 0;
    bool in_slot = true;
    RoutedWindow window;
    std::optional<HostPieces::Taken> spilled_to;  ///< nothing: it is not spilled
  };
  /// A storage that leaves device memory, or is back.
  struct Spilled {
    ResidencyId residency = kNone<ResidencyId>;
    Spill times;
    std::vector<HostPiece> pieces;
    std::optional<StreamSet::Mark> copied_out, copied_in;
  };
  /// A stream off the compute lane that touches windows of a section first. It waits for what compute had issued where
  /// the section began, since the granules are free by then; to wait for more would keep one part of an exchange from
  /// travelling while another is computed.
  struct JoiningStream {
    StreamRole role = StreamRole::compute;
    std::optional<StreamSet::Mark> behind;  ///< nothing: not begun, or joined
  };
  struct SectionState {
    std::int32_t chunks = 1, fewest = 1;
    Address room = 0;
    std::vector<JoiningStream> joining;  ///< of one that runs whole
  };
  /// What a residency is in this step.
  enum class Standing : std::uint8_t { not_yet, in_slot, in_window, room, absent };

  [[nodiscard]] bool is_active() const { return p_.options.load || p_.options.agree; }
  /// Asked once a step, where loads are told: otherwise it is the planned one. Errors (bad_input): no number, or
  /// outside [0, kMostSiteLoad].
  [[nodiscard]] Result<SiteLoad> load_of(SiteId site);
  /// As the site has been asked for it, or planned.
  [[nodiscard]] SiteLoad told(SiteId site) const { return loads_[row(site)].value_or(planned_[row(site)]); }
  [[nodiscard]] Bytes actual_bytes(ResidencyId residency, const SiteLoad& load) const;
  [[nodiscard]] double load_of_rows(ResidencyId routed, const SiteLoad& load) const;
  [[nodiscard]] DynamicRegion::Slot slot_of(ResidencyId residency) const;
  [[nodiscard]] bool is_served(ResidencyId residency) const;
  [[nodiscard]] std::int32_t half_step(TaskId task) const;

  [[nodiscard]] Result<bool> find_place(ResidencyId residency, const SiteLoad& load, std::int32_t from,
                                        Placing& placing);
  void settle(const Placing& placing, const SiteLoad& load);
  [[nodiscard]] Result<bool> find_place_until(DynamicRegion::Slot slot, std::int32_t from, Placing& placing);
  [[nodiscard]] Status spill_out(Spilled& spilled);
  [[nodiscard]] Status bring_back(Spilled& spilled, std::int32_t from);
  [[nodiscard]] Status check(DeviceCode code, ResidencyId residency, const char* what);
  [[nodiscard]] bool touches_window_first(TaskId task) const;
  void list_joining(std::int32_t section);
  [[nodiscard]] DeviceCode mark_begin(std::int32_t section);
  [[nodiscard]] DeviceCode join_window(TaskId task);
  void stand_absent(ResidencyId residency);
  void lend(ResidencyId residency, Bytes actual);

  [[nodiscard]] Status enter(std::int32_t section);
  [[nodiscard]] Status enter_in_chunks(std::int32_t section, const SiteLoad& load, std::int32_t chunks,
                                       std::int32_t fewest, const Placing& room);
  [[nodiscard]] Result<bool> place_all(const RowSection& section, const SiteLoad& load, std::vector<Placing>& placed);
  [[nodiscard]] Result<Placing> find_room(const RowSection& section, const SiteLoad& load);
  [[nodiscard]] bool has_older_room(const RowSection& section) const;
  [[nodiscard]] std::int32_t end_of_room(const RowSection& section) const;
  [[nodiscard]] Bytes room_of(const RowSection& section, const std::vector<Placing>& placed) const;
  [[nodiscard]] Status size_copy_out(TaskId task);
  [[nodiscard]] Status place_copy_in(TaskId task);
  [[nodiscard]] Status place_outside_sections(TaskId task);
  [[nodiscard]] std::string who(SiteId site, const SiteLoad& load) const;
  [[nodiscard]] SiteId site_of(ResidencyId routed) const;

  Parts p_;
  HostPieces pieces_;
  std::vector<RowSection> sections_;
  std::vector<std::int32_t> section_of_task_;
  std::vector<SectionState> states_;            ///< per section
  std::vector<SiteLoad> planned_;               ///< per site, up to the last with routed storages
  std::vector<std::optional<SiteLoad>> loads_;  ///< per site; nothing: not asked
  std::vector<char> in_chunks_;                 ///< per site: what its rows were is not in memory
  std::vector<Standing> standing_;              ///< per residency
  std::vector<char> skipped_copy_;              ///< per task
  std::map<ResidencyId, std::vector<HostPiece>> host_;
  HostPiece planned_piece_;
  std::vector<std::optional<Spill>> may_spill_;  ///< per routed
  std::vector<char> keeps_slot_;                 ///< per residency: a room that is older than its section
  std::vector<Spilled> active_;                  ///< this step
  std::multimap<TaskId, std::size_t> due_;       ///< index in active_, by each of its times
  std::vector<OversizedRecord> oversized_;
  std::vector<SectionRecord> records_;
  std::vector<SpillRecord> spilled_;
};

}  // namespace tidemark::swap
