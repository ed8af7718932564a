#include "swap/arena_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/give_back.h"
#include "swap/device_error.h"

namespace tidemark::swap {

ArenaMemory::~ArenaMemory() {
  // Failures have nobody to go to; a lost device takes everything back.
  for (; !arenas_.empty(); arenas_.pop_back())
    if (const Backing& arena = arenas_.back(); arena.plain_bytes > 0)
      allocator::give_back([&] { return device_.free_plain(arena.base); });
}

Status ArenaMemory::take(const std::vector<ArenaNeed>& needs, const std::string& who) {
  for (const ArenaNeed& need : needs) {
    Backing& arena = arenas_.emplace_back();
    if (need.bytes == 0 && need.region_end <= need.region_begin) continue;
    const bool mapped = need.mapped && device_.traits().mapping;
    const DeviceCode code = mapped ? take_mapped(need, arena) : take_plain(need, arena);
    if (code == DeviceCode::ok) continue;
    return device_error(device_, code, fmt::format("{}: {} of device memory refused", who, format_bytes(need.bytes)));
  }
  return {};
}

DeviceCode ArenaMemory::take_mapped(const ArenaNeed& need, Backing& arena) {
  arena.range = std::make_unique<allocator::MappedRange>(device_);
  DeviceCode code = arena.range->reserve(std::max(need.bytes, need.region_end));
  if (code == DeviceCode::ok) code = arena.range->map(0, need.bytes);
  arena.base = arena.range->base();
  return code;
}

DeviceCode ArenaMemory::take_plain(const ArenaNeed& need, Backing& arena) {
  const Bytes bytes = std::max(need.bytes, need.region_end);
  const DeviceCode code = device_.allocate_plain(bytes, arena.base);
  if (code == DeviceCode::ok) arena.plain_bytes = bytes;
  return code;
}

Bytes ArenaMemory::device_bytes() const {
  Bytes bytes = 0;
  for (const Backing& arena : arenas_) bytes += arena.range ? arena.range->mapped_bytes() : arena.plain_bytes;
  return bytes;
}

}  // namespace tidemark::swap
