#include "swap/host_pieces.h"

#include <algorithm>

#include "core/dynamic_region.h"
#include "core/spare_host.h"

namespace tidemark::swap {

HostPieces::HostPieces(const BoundProgram& bound, ArenaId spare, std::int64_t count)
    : bound_(&bound), spare_(spare), spare_count_(count), pool_(0, count) {
  const std::vector<Arena>& arenas = bound.program->layout.arenas;
  for (std::size_t a = 0; a < arenas.size() && host_ == kNone<ArenaId>; ++a)
    if (arenas[a].space == MemorySpace::host) host_ = id_of<ArenaId>(a);
  if (host_ == kNone<ArenaId>) return;
  gaps_ = plan_gaps(*bound.program, host_, kHostPiece);
  for (PlanGap& gap : gaps_) gap.units.first += spare_count_;
}

void HostPieces::restart() {
  pool_.restart();
  for (const PlanGap& gap : gaps_) pool_.lend(gap.units, gap.from, gap.until);
}

HostPiece HostPieces::at(std::int64_t piece) const {
  const Bytes bytes = kHostPiece / bound_->scale;
  if (piece < spare_count_) return {.arena = spare_, .offset = piece * bytes, .bytes = bytes};
  return {.arena = host_, .offset = (piece - spare_count_) * bytes, .bytes = bytes};
}

void HostPieces::append(std::span<const GranulePool::Run> runs, Bytes left, std::vector<HostPiece>& pieces) const {
  for (const GranulePool::Run& run : runs) {
    HostPiece piece = at(run.granules.first);
    piece.bytes = std::min(left, piece.bytes * run.granules.count);
    left -= piece.bytes;
    HostPiece* const last = pieces.empty() ? nullptr : &pieces.back();
    if (last != nullptr && last->arena == piece.arena && last->offset + last->bytes == piece.offset)
      last->bytes += piece.bytes;
    else
      pieces.push_back(piece);
  }
}

void HostPieces::lend_slot(ResidencyId host, Bytes filled) {
  const Program& program = *bound_->program;
  const Residency& r = program.schedule.residencies[row(host)];
  if (program.layout.arena_of[row(host)] != host_ || filled >= r.bytes) return;
  GranuleRange rest = granules_inside(program.layout.offset_of[row(host)] + filled, r.bytes - filled, kHostPiece);
  rest.first += spare_count_;
  pool_.lend(rest, r.acquire, r.release);
}

void HostPieces::vacate(ResidencyId host) {
  lend_slot(host, 0);
}

std::optional<HostPieces::Taken> HostPieces::take(Bytes bytes, std::int32_t acquire, std::int32_t until) {
  const Bytes piece = kHostPiece / bound_->scale, scaled = bound_->scaled(bytes);
  Taken taken;
  if (!pool_.take((scaled + piece - 1) / piece, acquire, until, taken.runs)) return std::nullopt;
  append(taken.runs, scaled, taken.pieces);
  return taken;
}

std::optional<std::vector<HostPiece>> HostPieces::place(ResidencyId host, Bytes actual, std::int32_t acquire) {
  const Residency& r = bound_->program->schedule.residencies[row(host)];
  const Place& slot = bound_->places[row(host)];
  const Bytes bytes = bound_->scaled(actual);
  std::vector<HostPiece> pieces{{.arena = slot.arena, .offset = slot.offset, .bytes = std::min(slot.bytes, bytes)}};
  if (bytes <= slot.bytes) {
    lend_slot(host, actual);
    return pieces;
  }
  const Bytes beyond = bytes - slot.bytes, piece = kHostPiece / bound_->scale;
  std::vector<GranulePool::Run> runs;
  if (!pool_.take((beyond + piece - 1) / piece, acquire, r.release, runs)) return std::nullopt;
  pool_.give_back(runs, r.release);
  append(runs, beyond, pieces);
  return pieces;
}

}  // namespace tidemark::swap
