#pragma once
// What a step did, as facts: bytes, copies, rungs taken, and what did not go as it should. Nothing here is modelled
// except times that are labelled so (`simulated`).

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/program.h"

namespace tidemark::swap {

/// A section that ran in chunks, or that was to.
struct SectionRecord {
  std::int32_t section = -1;  ///< its place in Program::section_ends
  SiteId site = kNone<SiteId>;
  SiteLoad load;            ///< as told
  std::int32_t chunks = 0;  ///< as agreed
  bool wanted = false;      ///< here: else another rank of the group asked for it
  friend bool operator==(const SectionRecord&, const SectionRecord&) = default;
};

/// A routed storage that left device memory in the middle of its life.
struct SpillRecord {
  ResidencyId residency = kNone<ResidencyId>;
  SiteId site = kNone<SiteId>;
  double load = 1;
  Bytes bytes = 0;  ///< true size
  friend bool operator==(const SpillRecord&, const SpillRecord&) = default;
};

/// A routed storage that stood outside its slot.
struct OversizedRecord {
  ResidencyId residency = kNone<ResidencyId>;
  SiteId site = kNone<SiteId>;
  double load = 1;
  Bytes planned_bytes = 0;
  Bytes actual_bytes = 0;
  Bytes extra_bytes = 0;  ///< taken beside its slot
  friend bool operator==(const OversizedRecord&, const OversizedRecord&) = default;
};

/// Something that costs time or safety without being an error. To be shown loudly.
struct RunWarning {
  enum class Kind : std::uint8_t {
    host_memory_pageable,    ///< copies block instead of overlapping
    host_memory_not_local,   ///< pinned memory is not placed on the device's NUMA node, or it is not known which
    host_memory_not_locked,  ///< the system may swap pinned memory out
    no_windows,              ///< nothing stands beside its slot: what exceeds it runs in chunks
    no_mapping,              ///< the arena is one plain allocation
    messages_not_matched,    ///< receives complete at once: waiting for other ranks is not part of the time
    host_waited_for_events,  ///< the device ran out of events; the host waited for old ones
    copies_exposed,          ///< the compute lane stood still for copies
  };
  Kind kind = Kind::host_memory_pageable;
  std::string text;  ///< one line
};

/// Copies of one direction.
struct CopyFigures {
  std::int64_t copies = 0;
  Bytes bytes = 0;          ///< what they held
  std::int64_t pieces = 0;  ///< copies as submitted: more where the host side lies in several places
};

struct RunReport {
  std::int32_t rank = 0;
  std::string device;      ///< traits().name
  bool simulated = false;  ///< every time is virtual
  std::int64_t scale = 1;  ///< sizes were divided by this

  std::int64_t tasks = 0;
  std::int64_t step_ns = 0;  ///< first issue to last completion on the device's clock

  Bytes planned_bytes = 0;     ///< device arenas' height, scaled
  Bytes peak_bytes = 0;        ///< highest byte touched in the device arenas, plus the most extra in use at once
  Bytes mapped_bytes = 0;      ///< device memory taken from the device at most, whole granules
  Bytes extra_peak_bytes = 0;  ///< of the dynamic region in use at once, at most
  Bytes planned_host_bytes = 0;
  Bytes host_peak_bytes = 0;  ///< highest byte touched in the pinned arenas
  Bytes pinned_bytes = 0;     ///< taken from the device

  CopyFigures out, in;
  std::int64_t events_peak = 0;  ///< in use at once
  std::int64_t records = 0, waits = 0;
  std::int64_t waits_implied = 0;   ///< waits of the Program that others imply
  std::int64_t verified_reads = 0;  ///< with verify: ranges whose contents were checked
  std::int64_t mismatches = 0;
  std::string first_mismatch;  ///< in words; empty: none

  std::vector<OversizedRecord> oversized;
  std::vector<SpillRecord> spills;
  std::vector<SectionRecord> sections;
  std::vector<RunWarning> warnings;
};

}  // namespace tidemark::swap
