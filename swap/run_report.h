#pragma once
// What a step did, as facts: bytes, copies, contingencies, and what did not go as it should. Nothing here is modelled
// except times that are labelled so (`simulated`).

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/program.h"

namespace tidemark::swap {

/// One entry of Program::contingencies that was asked for, because a site's load was above its trigger.
struct ContingencyRecord {
  std::int32_t contingency = -1;  ///< index into Program::contingencies
  Contingency::Kind kind = Contingency::Kind::swap;
  SiteId site = kNone<SiteId>;
  StorageId storage = kNone<StorageId>;
  double load = 1;         ///< of the site, as told
  Bytes actual_bytes = 0;  ///< of the storage at that load
  Bytes freed_bytes = 0;   ///< of the dynamic region, given back across the gap
  friend bool operator==(const ContingencyRecord&, const ContingencyRecord&) = default;
};

/// One entry of Program::sections that was asked for, here or by another rank of the group.
struct SectionRecord {
  enum class Outcome : std::uint8_t { applied, not_agreed };
  std::int32_t section = -1;  ///< index into Program::sections
  Outcome outcome = Outcome::applied;
  SiteId site = kNone<SiteId>;
  double load = 1;          ///< of the site, as told
  std::int32_t chunks = 0;  ///< it ran in, or would have
  bool wanted = false;      ///< here: a storage inside it exceeds its slot
  friend bool operator==(const SectionRecord&, const SectionRecord&) = default;
};

/// A routed storage that stood outside its slot.
struct OversizedRecord {
  ResidencyId residency = kNone<ResidencyId>;
  SiteId site = kNone<SiteId>;
  double load = 1;
  Bytes planned_bytes = 0;
  Bytes actual_bytes = 0;
  Bytes extra_bytes = 0;  ///< taken of the dynamic region
  friend bool operator==(const OversizedRecord&, const OversizedRecord&) = default;
};

/// Something that costs time or safety without being an error. To be shown loudly.
struct RunWarning {
  enum class Kind : std::uint8_t {
    host_memory_pageable,    ///< copies block instead of overlapping
    host_memory_not_local,   ///< pinned memory is not placed on the device's NUMA node, or it is not known which
    host_memory_not_locked,  ///< the system may swap pinned memory out
    limit_not_promised,      ///< oversized storages are served contiguously: the contingency limit is not promised
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
  Bytes bytes = 0;                ///< as planned
  std::int64_t extra_copies = 0;  ///< of contingencies
  Bytes extra_bytes = 0;
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
  std::vector<ContingencyRecord> contingencies;
  std::vector<SectionRecord> sections;
  std::vector<RunWarning> warnings;
};

}  // namespace tidemark::swap
