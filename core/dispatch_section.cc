#include "core/dispatch_section.h"

#include <algorithm>
#include <array>

#include "core/dynamic_region.h"

namespace tidemark {
namespace {

void sort_unique(std::vector<ResidencyId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

std::span<const ChunkBuffer> buffers_of(const Program& program, const DispatchSection& section) {
  return {program.chunk_buffers.data() + section.first_buffer, static_cast<std::size_t>(section.buffer_count)};
}

SectionParts parts_of(const Schedule& schedule, std::span<const ChunkBuffer> buffers,
                      const std::vector<std::int32_t>& clock) {
  SectionParts parts;
  for (const ChunkBuffer& buffer : buffers) {
    const Residency& r = schedule.residencies[row(buffer.residency)];
    parts.inside.push_back(buffer.residency);
    parts.first = parts.first == kNone<TaskId> ? r.first_task : std::min(parts.first, r.first_task);
    parts.last = std::max(parts.last, r.last_task);
  }
  std::vector<ResidencyId> inside = parts.inside;
  sort_unique(inside);
  const auto is_inside = [&](ResidencyId r) { return std::binary_search(inside.begin(), inside.end(), r); };
  for (std::size_t t = row(parts.first); t <= row(parts.last); ++t) {
    const auto touches = schedule.touches_of(id_of<TaskId>(t));
    if (std::none_of(touches.begin(), touches.end(), [&](const auto& touch) { return is_inside(touch.residency); }))
      continue;
    parts.tasks.push_back(id_of<TaskId>(t));
    for (const Schedule::Touch& touch : touches)
      if (!is_inside(touch.residency) && schedule.residencies[row(touch.residency)].space == MemorySpace::device)
        parts.kept.push_back(touch.residency);
  }
  sort_unique(parts.kept);
  std::array<bool, kLaneCount> follows{};
  follows[static_cast<std::size_t>(Lane::compute)] = true;
  for (const TaskId task : parts.tasks) {
    follows[static_cast<std::size_t>(schedule.tasks[row(task)].lane)] = true;
    for (const TaskId wait : schedule.waits_of(task))
      follows[static_cast<std::size_t>(schedule.tasks[row(wait)].lane)] = true;
  }
  for (std::size_t lane = 0; lane < kLaneCount; ++lane)
    if (follows[lane]) parts.follows.push_back(static_cast<Lane>(lane));
  const bool on_compute = schedule.tasks[row(parts.first)].lane == Lane::compute;
  parts.begin = on_compute ? 2 * clock[row(parts.first)] : std::max(0, 2 * clock[row(parts.first)] - 1);
  return parts;
}

std::vector<std::int32_t> in_use_from(const Program& program) {
  std::vector<std::int32_t> from(program.schedule.residencies.size());
  for (std::size_t r = 0; r < from.size(); ++r) from[r] = program.schedule.residencies[r].acquire;
  if (program.sections.empty()) return from;
  const std::vector<std::int32_t> clock = compute_clock(program.schedule);
  for (const DispatchSection& section : program.sections) {
    const SectionParts parts = parts_of(program.schedule, buffers_of(program, section), clock);
    for (const ResidencyId r : parts.kept) from[row(r)] = std::min(from[row(r)], parts.begin);
  }
  return from;
}

std::vector<char> inside_sections(const Program& program) {
  std::vector<char> inside(program.schedule.residencies.size(), 0);
  for (const ChunkBuffer& buffer : program.chunk_buffers) inside[row(buffer.residency)] = 1;
  return inside;
}

std::vector<BufferUse> buffer_uses(const Program& program) {
  if (program.sections.empty()) return {};
  std::vector<const RoutedResidency*> routed(program.schedule.residencies.size(), nullptr);
  for (const RoutedResidency& r : program.routed) routed[row(r.residency)] = &r;
  const std::vector<std::int32_t> clock = compute_clock(program.schedule);
  std::vector<BufferUse> uses;
  for (const DispatchSection& section : program.sections) {
    const std::int32_t begin = parts_of(program.schedule, buffers_of(program, section), clock).begin;
    for (const ChunkBuffer& buffer : buffers_of(program, section)) {
      const Residency& stay = program.schedule.residencies[row(buffer.residency)];
      uses.push_back({.residency = buffer.residency,
                      .from = begin,
                      .until = stay.release,
                      .offset = buffer.offset,
                      .bytes = buffer_bytes(*routed[row(buffer.residency)], stay.bytes, program.collective_limit_f,
                                            section.chunks)});
    }
  }
  return uses;
}

ByteUse slot_use(const Program& program, ResidencyId residency, std::int32_t from) {
  const Residency& stay = program.schedule.residencies[row(residency)];
  const Bytes offset = program.layout.offset_of[row(residency)];
  return {.residency = residency,
          .arena = program.layout.arena_of[row(residency)],
          .from = from,
          .until = stay.release,
          .begin = offset,
          .end = offset + stay.bytes};
}

RowRange rows_of_chunk(std::int64_t rows, std::int32_t chunks, std::int32_t chunk) {
  const std::int64_t each = (rows + chunks - 1) / chunks;
  return {.begin = std::min(rows, each * chunk), .end = std::min(rows, each * (chunk + 1))};
}

std::int64_t rows_in(const RoutedResidency& routed, Bytes bytes) {
  return routed.row_bytes > 0 ? (bytes - routed.fixed_bytes) / routed.row_bytes : 0;
}

Bytes chunk_bytes(const RoutedResidency& routed, Bytes bytes, std::int32_t chunks) {
  return routed.fixed_bytes + rows_of_chunk(rows_in(routed, bytes), chunks, 0).end * routed.row_bytes;
}

Bytes buffer_bytes(const RoutedResidency& routed, Bytes planned_bytes, double limit, std::int32_t chunks) {
  return chunk_bytes(routed, std::max(planned_bytes, routed_bytes(routed, limit)), chunks);
}

}  // namespace tidemark
