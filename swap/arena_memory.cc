#include "swap/arena_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/give_back.h"
#include "swap/device_error.h"

namespace tidemark::swap {

ArenaMemory::~ArenaMemory() {
  // Failures have nobody to go to; a lost device takes everything back.
  for (std::size_t a = arenas_.size(); a-- > 0;) {
    Chunks& arena = arenas_[a];
    for (const Address chunk : arena.chunks) allocator::give_back([&] { return device_.free_pinned(chunk); });
    for (const Mapped& piece : arena.mapped)
      allocator::give_back([&] { return device_.unmap(arena.base + static_cast<Address>(piece.offset), piece.bytes); });
    if (arena.reserved_bytes > 0)
      allocator::give_back([&] { return device_.release(arena.base, arena.reserved_bytes); });
    else if (arena.base != 0)
      allocator::give_back([&] { return device_.free_plain(arena.base); });
  }
}

Status ArenaMemory::take(const std::vector<ArenaNeed>& needs, const std::string& who) {
  for (const ArenaNeed& need : needs) {
    on_host_.push_back(need.on_host);
    Chunks& arena = arenas_.emplace_back();
    if (need.bytes == 0 && need.region_end <= need.region_begin) continue;
    const bool mapped = need.mapped && device_.traits().mapping;
    const DeviceCode code = need.on_host ? take_pinned(need, arena)
                            : mapped     ? take_mapped(need, arena)
                                         : take_plain(need, arena);
    if (code == DeviceCode::ok) continue;
    return device_error(device_, code,
                        fmt::format("{}: {} of {} memory refused", who, format_bytes(need.bytes),
                                    need.on_host ? "pinned host" : "device"));
  }
  return {};
}

DeviceCode ArenaMemory::take_mapped(const ArenaNeed& need, Chunks& arena) {
  const Bytes granule = device_.traits().granule_bytes;
  const Bytes height = round_up(need.bytes, granule);
  const Bytes space = std::max(height, round_up(need.region_end, granule));
  if (const DeviceCode code = device_.reserve(space, arena.base); code != DeviceCode::ok) return code;
  arena.reserved_bytes = space;
  if (height == 0) return DeviceCode::ok;
  if (const DeviceCode code = device_.map(arena.base, height); code != DeviceCode::ok) return code;
  arena.mapped.push_back({.offset = 0, .bytes = height});
  device_bytes_ += height;
  return DeviceCode::ok;
}

DeviceCode ArenaMemory::take_plain(const ArenaNeed& need, Chunks& arena) {
  const Bytes bytes = std::max(need.bytes, need.region_end);
  if (const DeviceCode code = device_.allocate_plain(bytes, arena.base); code != DeviceCode::ok) {
    arena.base = 0;
    return code;
  }
  device_bytes_ += bytes;
  return DeviceCode::ok;
}

DeviceCode ArenaMemory::take_pinned(const ArenaNeed& need, Chunks& arena) {
  const Bytes largest = device_.traits().largest_pinned_bytes;
  arena.chunk_bytes = largest > 0 ? std::min(need.bytes, largest) : need.bytes;
  for (Bytes offset = 0; offset < need.bytes; offset += arena.chunk_bytes) {
    const Bytes bytes = std::min(arena.chunk_bytes, need.bytes - offset);
    Address address = 0;
    if (const DeviceCode code = device_.allocate_pinned(bytes, address); code != DeviceCode::ok) return code;
    arena.chunks.push_back(address);
    pinned_bytes_ += bytes;
  }
  return DeviceCode::ok;
}

Address ArenaMemory::at(ArenaId id, Bytes offset) const {
  const Chunks& arena = arenas_[row(id)];
  if (!on_host_[row(id)]) return arena.base + static_cast<Address>(offset);
  return arena.chunks[static_cast<std::size_t>(offset / arena.chunk_bytes)] +
         static_cast<Address>(offset % arena.chunk_bytes);
}

std::span<const HostRange> ArenaMemory::ranges_of(std::span<const HostPiece> pieces) {
  ranges_.clear();
  for (const HostPiece& piece : pieces) {
    const Bytes chunk = arenas_[row(piece.arena)].chunk_bytes;
    for (Bytes done = 0; done < piece.bytes;) {
      const Bytes offset = piece.offset + done;
      const Bytes bytes = std::min(piece.bytes - done, chunk - offset % chunk);
      ranges_.push_back({.address = at(piece.arena, offset), .bytes = bytes});
      done += bytes;
    }
  }
  return ranges_;
}

PinnedFacts ArenaMemory::pinned_facts() const {
  PinnedFacts worst;
  for (const Chunks& arena : arenas_)
    for (const Address chunk : arena.chunks) {
      const PinnedFacts facts = device_.pinned_facts(chunk);
      worst.registered = worst.registered && facts.registered;
      worst.numa_bound = worst.numa_bound && facts.numa_bound;
      worst.huge_pages = worst.huge_pages && facts.huge_pages;
      worst.locked = worst.locked && facts.locked;
      if (worst.explanation.empty()) worst.explanation = facts.explanation;
    }
  return worst;
}

DeviceCode ArenaMemory::map_region(ArenaId id, Bytes offset, Bytes bytes) {
  Chunks& arena = arenas_[row(id)];
  const DeviceCode code = device_.map(arena.base + static_cast<Address>(offset), bytes);
  if (code != DeviceCode::ok) return code;
  arena.mapped.push_back({.offset = offset, .bytes = bytes});
  device_bytes_ += bytes;
  return DeviceCode::ok;
}

}  // namespace tidemark::swap
