#pragma once
// The sections of a Program that may run in chunks (core/dispatch_section.h), and which rows their tasks are at. Keeps
// count; the executor submits.
//
// Threads: none. Cost: O(tasks) once, O(storages of a section) for each that runs in chunks.

#include <cstdint>
#include <vector>

#include "core/dispatch_section.h"
#include "swap/bound_program.h"

namespace tidemark::swap {

class DispatchChunks {
 public:
  /// REQUIRES: core/verify found nothing in the program's sections.
  explicit DispatchChunks(const BoundProgram& bound);

  void restart();

  [[nodiscard]] const SectionParts& parts(std::int32_t section) const {
    return parts_[static_cast<std::size_t>(section)];
  }
  [[nodiscard]] std::int32_t chunks(std::int32_t section) const {
    return bound_.program->sections[static_cast<std::size_t>(section)].chunks;
  }
  /// The section whose first task this is; -1: none.
  [[nodiscard]] std::int32_t starting_at(TaskId task) const;
  /// The section that the task is part of, if it runs in chunks this step; -1: none.
  [[nodiscard]] std::int32_t running(TaskId task) const;

  /// The section's tasks are at this chunk from now on. `true_bytes`: per residency, what each storage really takes.
  void begin(std::int32_t section, std::int32_t chunk, const std::vector<Bytes>& true_bytes);

  /// Part of a storage, in scaled bytes from its address.
  struct Part {
    Bytes offset = 0;
    Bytes bytes = 0;
    Bytes place = 0;         ///< of its first byte in the pattern
    std::uint64_t mark = 0;  ///< tells chunks of an inside storage apart
  };
  /// What a task of the section touches of a residency that takes `bytes`, scaled, in all.
  [[nodiscard]] Part part_of(std::int32_t section, ResidencyId residency, Bytes bytes) const;
  /// The chunk's share of a duration.
  [[nodiscard]] std::int64_t share_of(std::int32_t section, std::int64_t duration) const;

 private:
  struct Range {
    ResidencyId residency = kNone<ResidencyId>;
    bool inside = false;
    std::int64_t rows = 0;
    Bytes true_bytes = 0;
  };
  struct Running {
    std::int32_t chunk = -1;  ///< -1: runs whole
    std::vector<Range> ranges;
  };
  void start(std::int32_t section, const std::vector<Bytes>& true_bytes);
  [[nodiscard]] const RoutedResidency& rule_of(const Range& range) const;
  [[nodiscard]] Bytes cut(const Range& range, std::int64_t row) const;

  const BoundProgram& bound_;
  std::vector<SectionParts> parts_;
  std::vector<Running> running_;
  std::vector<std::int32_t> section_of_;  ///< per task; empty: no sections
};

}  // namespace tidemark::swap
