#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "allocator/address_map.h"
#include "allocator/caching_allocator.h"

namespace tidemark::allocator {
namespace {

constexpr Bytes kLeastUnit = Bytes{1} << AddressMap::kUnitBits;
constexpr Bytes kMostUnit = 2 * kMiB;                 // a plain segment is made of whole units
constexpr Bytes kMostAddressSpace = Bytes{1} << 46;   // of a shard; twice, for windows, below 2^48
constexpr std::size_t kMostTraceEntries = 1U << 24U;  // about a gigabyte of the host

Status check_unit(const AllocatorOptions& options, const DeviceTraits& traits) {
  const Bytes most = traits.mapping ? std::min(kMostUnit, traits.granule_bytes) : kMostUnit;
  const Bytes unit = options.unit_bytes;
  if (unit < kLeastUnit || unit > most || !std::has_single_bit(static_cast<std::uint64_t>(unit)))
    return bad_input(fmt::format("unit_bytes is {}; it must be a power of two from {} to {}", unit, kLeastUnit, most));
  return {};
}

Status check_address_space(const AllocatorOptions& options, const DeviceTraits& traits) {
  const Bytes bytes = options.address_space_bytes;
  if (bytes == 0 || (!traits.mapping && bytes > 0)) return {};
  if (bytes < traits.granule_bytes || bytes > kMostAddressSpace)
    return bad_input(
        fmt::format("address_space_bytes is {}; it must be 0 (eight times the device's memory), or from one granule, "
                    "{}, to {}",
                    bytes, traits.granule_bytes, kMostAddressSpace));
  return {};
}

}  // namespace

Status check_options(const AllocatorOptions& options, const DeviceTraits& traits) {
  for (const auto& [name, value] : {std::pair<const char*, Bytes>{"limit_bytes", options.limit_bytes},
                                    {"front_cache_bytes", options.front_cache_bytes},
                                    {"growth_slack_bytes", options.growth_slack_bytes},
                                    {"device_index", options.device_index}})
    if (value < 0) return bad_input(fmt::format("{} is {}; it must not be negative", name, value));
  if (Status status = check_unit(options, traits); !status) return status;
  if (Status status = check_address_space(options, traits); !status) return status;
  if (options.shards < 1 || options.shards > AllocatorOptions::kMostShards)
    return bad_input(
        fmt::format("shards is {}; it must be from 1 to {}", options.shards, AllocatorOptions::kMostShards));
  if (!(options.garbage_threshold >= 0 && options.garbage_threshold < 1))
    return bad_input(fmt::format("garbage_threshold is {}; it must be 0 (off) or a part of the limit below 1",
                                 options.garbage_threshold));
  if (options.trace_entries > kMostTraceEntries)
    return bad_input(
        fmt::format("trace_entries is {}; it must be at most {}", options.trace_entries, kMostTraceEntries));
  return {};
}

Bytes default_address_space(Bytes memory_bytes, Bytes granule_bytes) {
  return memory_bytes > kMostAddressSpace / 8 ? kMostAddressSpace : std::max(8 * memory_bytes, granule_bytes);
}

}  // namespace tidemark::allocator
