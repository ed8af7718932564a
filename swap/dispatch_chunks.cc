#include "swap/dispatch_chunks.h"

#include <algorithm>

namespace tidemark::swap {
namespace {

/// Parts begin at words of the pattern.
constexpr Bytes kWord = 8;
/// Far above the versions of a step.
constexpr int kMarkShift = 48;

}  // namespace

DispatchChunks::DispatchChunks(const BoundProgram& bound) : bound_(bound) {
  const Program& program = *bound.program;
  if (program.sections.empty()) return;
  section_of_.assign(program.schedule.tasks.size(), -1);
  for (const DispatchSection& section : program.sections) {
    parts_.push_back(parts_of(program.schedule, buffers_of(program, section), bound.clock));
    for (const TaskId task : parts_.back().tasks) section_of_[row(task)] = static_cast<std::int32_t>(parts_.size()) - 1;
  }
  restart();
}

void DispatchChunks::restart() {
  running_.assign(parts_.size(), {});
}

std::int32_t DispatchChunks::starting_at(TaskId task) const {
  const std::int32_t section = section_of_.empty() ? -1 : section_of_[row(task)];
  return section >= 0 && parts(section).first == task ? section : -1;
}

std::int32_t DispatchChunks::running(TaskId task) const {
  const std::int32_t section = section_of_.empty() ? -1 : section_of_[row(task)];
  return section >= 0 && running_[static_cast<std::size_t>(section)].chunk >= 0 ? section : -1;
}

void DispatchChunks::start(std::int32_t section, const std::vector<Bytes>& true_bytes) {
  const Program& program = *bound_.program;
  const SectionParts& parts = parts_[static_cast<std::size_t>(section)];
  std::vector<Range>& ranges = running_[static_cast<std::size_t>(section)].ranges;
  const auto add = [&](ResidencyId residency, bool inside) {
    const std::int32_t routed = bound_.routed[row(residency)];
    if (routed < 0) return;
    Range range{.residency = residency, .inside = inside, .true_bytes = true_bytes[row(residency)]};
    range.rows = rows_in(program.routed[static_cast<std::size_t>(routed)], range.true_bytes);
    ranges.push_back(range);
  };
  for (const ResidencyId r : parts.inside) add(r, true);
  for (const ResidencyId r : parts.kept) add(r, false);
}

void DispatchChunks::begin(std::int32_t section, std::int32_t chunk, const std::vector<Bytes>& true_bytes) {
  Running& running = running_[static_cast<std::size_t>(section)];
  if (running.chunk < 0) start(section, true_bytes);
  running.chunk = chunk;
}

const RoutedResidency& DispatchChunks::rule_of(const Range& range) const {
  return bound_.program->routed[static_cast<std::size_t>(bound_.routed[row(range.residency)])];
}

/// Scaled bytes before a row, at a word; all of them behind the last.
Bytes DispatchChunks::cut(const Range& range, std::int64_t row_number) const {
  if (row_number == 0) return 0;
  if (row_number >= range.rows) return bound_.scaled(range.true_bytes);
  const RoutedResidency& rule = rule_of(range);
  return (rule.fixed_bytes + row_number * rule.row_bytes) / bound_.scale / kWord * kWord;
}

DispatchChunks::Part DispatchChunks::part_of(std::int32_t section, ResidencyId residency, Bytes bytes) const {
  const Running& running = running_[static_cast<std::size_t>(section)];
  const auto range = std::find_if(running.ranges.begin(), running.ranges.end(),
                                  [&](const Range& r) { return r.residency == residency; });
  if (range == running.ranges.end()) return {.bytes = bytes};
  const RowRange rows = rows_of_chunk(range->rows, chunks(section), running.chunk);
  if (!range->inside) {
    // The last chunk touches what is left even where there is no row: the fixed part.
    const bool last = running.chunk + 1 == chunks(section);
    const Bytes begin = cut(*range, rows.begin);
    const Bytes end = last ? bound_.scaled(range->true_bytes) : cut(*range, rows.end);
    return {.offset = begin, .bytes = end - begin, .place = begin};
  }
  const RoutedResidency& rule = rule_of(*range);
  const std::int64_t count = rows.end - rows.begin;
  const Bytes whole = count == 0 && running.chunk > 0 ? 0 : rule.fixed_bytes + count * rule.row_bytes;
  return {.bytes = bound_.scaled(whole), .mark = static_cast<std::uint64_t>(running.chunk + 1) << kMarkShift};
}

std::int64_t DispatchChunks::share_of(std::int32_t section, std::int64_t duration) const {
  const std::int64_t k = chunks(section), chunk = running_[static_cast<std::size_t>(section)].chunk;
  return duration * (chunk + 1) / k - duration * chunk / k;
}

}  // namespace tidemark::swap
