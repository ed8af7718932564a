#include "swap/host_memory.h"

#include <algorithm>

#include "core/spare_host.h"

namespace tidemark::swap {
namespace {

const allocator::PinnedPoolOptions kUsual;

/// Slow to take, and what lies beside the arenas may never be needed: on demand.
allocator::PinnedPoolOptions pool_options(Bytes arena_bytes, Bytes bound_bytes, Bytes foreseen_bytes) {
  const Bytes beside = foreseen_bytes - arena_bytes;
  const bool holds_arenas = beside >= 0;
  return {.bound_bytes = bound_bytes,
          .initial_bytes = 0,
          .chunk_bytes = holds_arenas ? std::clamp(beside, kUsual.class_bytes, kUsual.chunk_bytes) : kUsual.chunk_bytes,
          .class_bytes = kUsual.class_bytes,
          .background = false};
}

}  // namespace

Bytes HostMemory::bytes_for(std::span<const Bytes> arenas) {
  Bytes sum = 0;
  for (const Bytes bytes : arenas) sum += round_up(bytes, kUsual.class_bytes);
  return sum;
}

DeviceCode HostMemory::open(std::span<const Bytes> arenas, Bytes bound_bytes, Bytes foreseen_bytes) {
  arenas_.resize(arenas.size());
  if (bound_bytes <= 0) return DeviceCode::ok;
  allocator::PinnedPoolOptions options = pool_options(bytes_for(arenas), bound_bytes, foreseen_bytes);
  options.report = [this](const allocator::PinnedReport& report) { reports_.push_back(report); };
  pool_.emplace(device_, std::move(options));
  const Bytes largest = device_.traits().largest_pinned_bytes;
  largest_piece_ =
      (largest > 0 ? std::min(largest, bound_bytes) : bound_bytes) / kUsual.class_bytes * kUsual.class_bytes;
  DeviceCode answer = DeviceCode::ok;
  for (std::size_t a = 0; a < arenas.size(); ++a) {
    const DeviceCode code = take(arenas[a], arenas_[a]);
    if (code != DeviceCode::ok) answer = code;
    if (code != DeviceCode::ok && code != DeviceCode::out_of_memory) return code;
  }
  return answer;
}

DeviceCode HostMemory::take(Bytes bytes, HostBlock& block) {
  const allocator::PinnedPoolStatistics now = statistics();
  if (bytes > now.bound_bytes - now.used_bytes) return DeviceCode::out_of_memory;
  HostBlock taken;
  Bytes piece = largest_piece_;
  for (Bytes left = bytes; left > 0;) {
    piece = std::min(piece, left);
    allocator::PinnedBlock one;
    const DeviceCode code = piece > 0 ? take_piece(piece, one) : DeviceCode::out_of_memory;
    if (code == DeviceCode::ok) {
      taken.pieces.push_back(one);
      left -= piece;
      continue;
    }
    piece = code == DeviceCode::out_of_memory ? smaller_than(piece) : 0;
    if (piece > 0) continue;
    free(taken);
    return code;
  }
  block = std::move(taken);
  return DeviceCode::ok;
}

Bytes HostMemory::smaller_than(Bytes refused) const {
  const allocator::PinnedPoolStatistics now = statistics();
  const Bytes free = std::max(now.largest_free_bytes, now.bound_bytes - now.held_bytes);
  const Bytes piece = free < refused ? free : refused / 2;  // half: something else than room stands in the way
  return piece < kHostPiece ? 0 : piece / kUsual.class_bytes * kUsual.class_bytes;
}

DeviceCode HostMemory::take_piece(Bytes bytes, allocator::PinnedBlock& piece) {
  for (;;) {
    const allocator::PinnedAllocation answer = pool_->allocate(bytes);
    switch (answer.outcome) {
      case allocator::PinnedOutcome::ok:
        piece = answer.block;
        return DeviceCode::ok;
      case allocator::PinnedOutcome::wait_block:
        if (const DeviceCode code = pool_->wait_for_block(answer); code != DeviceCode::ok) return code;
        break;
      case allocator::PinnedOutcome::wait_chunk:
        static_cast<void>(pool_->wait_for_chunk(answer));
        break;
      case allocator::PinnedOutcome::exhausted:
        return DeviceCode::out_of_memory;
      case allocator::PinnedOutcome::lost:
        return DeviceCode::lost;
    }
  }
}

void HostMemory::free(const HostBlock& block) {
  for (const allocator::PinnedBlock& piece : block.pieces) pool_->free(piece);
}

DeviceCode HostMemory::free_after(HostBlock& block, StreamHandle stream) {
  for (; !block.pieces.empty(); block.pieces.pop_back())
    if (const DeviceCode code = pool_->free_after(block.pieces.back(), stream); code != DeviceCode::ok) return code;
  return DeviceCode::ok;
}

std::span<const HostRange> HostMemory::ranges_of(std::span<const HostPiece> pieces) {
  ranges_.clear();
  for (const HostPiece& piece : pieces) add_ranges(arenas_[row(piece.arena)], piece.offset, piece.bytes);
  return ranges_;
}

std::span<const HostRange> HostMemory::ranges_of(const HostBlock& block) {
  ranges_.clear();
  for (const allocator::PinnedBlock& piece : block.pieces)
    ranges_.push_back({.address = piece.address, .bytes = piece.bytes});
  return ranges_;
}

void HostMemory::add_ranges(const HostBlock& block, Bytes offset, Bytes bytes) {
  for (const allocator::PinnedBlock& piece : block.pieces) {
    if (bytes == 0) return;
    if (offset < piece.bytes) {
      const Bytes here = std::min(bytes, piece.bytes - offset);
      ranges_.push_back({.address = piece.address + static_cast<Address>(offset), .bytes = here});
      bytes -= here;
    }
    offset = std::max<Bytes>(0, offset - piece.bytes);
  }
}

allocator::PinnedPoolStatistics HostMemory::statistics() const {
  return pool_ ? pool_->statistics() : allocator::PinnedPoolStatistics{};
}

}  // namespace tidemark::swap
