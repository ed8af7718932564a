// Sections that may run in chunks: what this rank says of each, and the room it takes once its group has agreed.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/dynamic_region.h"
#include "swap/contingency.h"

namespace tidemark::swap {

std::string ContingencyEngine::promise() const {
  const Program& program = *p_.bound.program;
  if (program.collective_limit_f == program.contingency_limit_f)
    return fmt::format("up to load {:.4g}", program.contingency_limit_f);
  if (p_.options.agree && !declined_) return fmt::format("up to load {:.4g}", program.collective_limit_f);
  return fmt::format("up to load {:.4g}, and up to {:.4g} where the expert group agrees to every chunked dispatch",
                     program.contingency_limit_f, program.collective_limit_f);
}

ChunkWish ContingencyEngine::wish_for(const DispatchSection& section, const SectionParts& parts, double load) {
  const Program& program = *p_.bound.program;
  if (load > program.collective_limit_f || !has_room(parts, load)) return ChunkWish::impossible;
  for (const ChunkBuffer& buffer : buffers_of(program, section)) {
    const RoutedResidency& routed = program.routed[static_cast<std::size_t>(p_.bound.routed[row(buffer.residency)])];
    if (routed_bytes(routed, load) > program.schedule.residencies[row(buffer.residency)].bytes)
      return ChunkWish::wanted;
  }
  return ChunkWish::none;
}

bool ContingencyEngine::has_room(const SectionParts& parts, double load) {
  const Program& program = *p_.bound.program;
  std::vector<DynamicRegion::Need> needs;
  for (const ResidencyId kept : parts.kept) {
    const std::int32_t routed = p_.bound.routed[row(kept)];
    if (routed < 0 || placed_[static_cast<std::size_t>(routed)] != 0) continue;
    const Residency& r = program.schedule.residencies[row(kept)];
    const Bytes actual = routed_bytes(program.routed[static_cast<std::size_t>(routed)], load);
    if (actual <= r.bytes) continue;
    if (p_.region == nullptr || program.layout.arena_of[row(kept)] != p_.region_arena) return false;
    needs.push_back({.slot_offset = program.layout.offset_of[row(kept)],
                     .planned_bytes = r.bytes,
                     .actual_bytes = actual,
                     .holes = holes_of(kept, in_use_from_[row(kept)])});
  }
  return needs.empty() || p_.region->has_room(needs, half_step(parts.first));
}

Bytes ContingencyEngine::true_bytes(ResidencyId residency) const {
  const Bytes planned = p_.bound.program->schedule.residencies[row(residency)].bytes;
  const std::int32_t routed = p_.bound.routed[row(residency)];
  return routed < 0 ? planned : std::max(planned, actual_[static_cast<std::size_t>(routed)]);
}

/// Without loads a site has that of its planned sizes.
Result<double> ContingencyEngine::section_load(const SectionParts& parts) {
  const Program& program = *p_.bound.program;
  const ResidencyId inside = parts.inside.front();
  const RoutedResidency& routed = program.routed[static_cast<std::size_t>(p_.bound.routed[row(inside)])];
  if (p_.options.load) return load_of(routed.site);
  const auto rows = static_cast<double>(rows_in(routed, program.schedule.residencies[row(inside)].bytes));
  return routed.rows > 0 ? rows / static_cast<double>(routed.rows) : 1;
}

Result<bool> ContingencyEngine::enter(std::int32_t index, const SectionParts& parts) {
  if (!p_.options.load && !p_.options.agree) return false;
  const Program& program = *p_.bound.program;
  const DispatchSection& section = program.sections[static_cast<std::size_t>(index)];
  const SiteId site = program.routed[static_cast<std::size_t>(p_.bound.routed[row(parts.inside.front())])].site;
  const Result<double> load = section_load(parts);
  if (!load) return load.error();
  // As planned, what is inside fits its slots and its buffers.
  const ChunkWish wish = p_.options.load ? wish_for(section, parts, load.value()) : ChunkWish::none;
  const bool agreed = p_.options.agree && p_.options.agree(program.schedule.rank, index, wish);
  if (agreed || wish != ChunkWish::none)
    sections_.push_back({.section = index,
                         .outcome = agreed ? SectionRecord::Outcome::applied : SectionRecord::Outcome::not_agreed,
                         .site = site,
                         .load = load.value(),
                         .chunks = section.chunks,
                         .wanted = wish != ChunkWish::none});
  declined_ = declined_ || (!agreed && wish != ChunkWish::none);
  if (!agreed) return false;
  if (wish == ChunkWish::impossible)
    return infeasible(fmt::format("{}: the group agreed to run section {} in chunks, which this rank said it cannot",
                                  who(site, load.value()), index));
  if (Status s = take_places(index, parts, load.value()); !s) return s.error();
  return true;
}

Status ContingencyEngine::take_places(std::int32_t index, const SectionParts& parts, double load) {
  const Program& program = *p_.bound.program;
  for (const ChunkBuffer& buffer : buffers_of(program, program.sections[static_cast<std::size_t>(index)])) {
    const auto routed = static_cast<std::size_t>(p_.bound.routed[row(buffer.residency)]);
    placed_[routed] = 1;
    if (p_.options.load) actual_[routed] = routed_bytes(program.routed[routed], load);
    p_.addresses[row(buffer.residency)] = p_.memory.at(id_of<ArenaId>(0), buffer.offset / p_.bound.scale);
  }
  if (!p_.options.load) return {};
  for (const ResidencyId kept : parts.kept) {
    const std::int32_t routed = p_.bound.routed[row(kept)];
    if (routed < 0) continue;
    if (Status s = place({.first = parts.first, .routed = routed}, parts.first); !s)
      return Error{s.error().code,
                   fmt::format("{}; the group had agreed to run section {} in chunks", s.error().message, index)};
  }
  return {};
}

}  // namespace tidemark::swap
