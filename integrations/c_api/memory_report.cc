#include "integrations/c_api/memory_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tidemark::c_api {

std::string memory_report(const allocator::OutOfMemory& now) {
  std::string text = fmt::format(
      "The device has {}, of which {} free; {} is held by others. This allocator may reserve {} and has {}: {} in live "
      "blocks, {} pending, {} cached (largest free range {}).",
      format_bytes(now.device_total_bytes), format_bytes(now.device_free_bytes), format_bytes(now.foreign_bytes),
      format_bytes(now.limit_bytes), format_bytes(now.reserved_bytes), format_bytes(now.allocated_bytes),
      format_bytes(now.pending_bytes), format_bytes(now.cached_bytes), format_bytes(now.largest_free_bytes));
  const char* between = " Largest holders: ";
  for (const allocator::OutOfMemory::Holder& holder : now.holders) {
    text += fmt::format("{}{} {} ({} of {} on stream {:#x})", between, format_bytes(holder.bytes), holder.name,
                        holder.count, format_bytes(holder.block_bytes), static_cast<std::uint64_t>(holder.stream));
    between = "; ";
  }
  if (!now.holders.empty()) text += '.';
  return text;
}

std::string memory_stats_json(const AllocatorGroup& group) {
  nlohmann::ordered_json stats = nlohmann::ordered_json::object();
  for (const allocator::NamedStatistic& statistic : allocator::name_statistics(group.statistics()))
    stats[statistic.name] = statistic.value;
  nlohmann::ordered_json pools = nlohmann::ordered_json::array();
  group.visit_pools([&](const Pool& pool) {
    const allocator::AllocatorStatistics s = pool.allocator.statistics();
    nlohmann::ordered_json one;
    if (pool.kind == Pool::Kind::graph) {
      one["graph"] = {pool.id.first, pool.id.second};
    } else {
      one["tag"] = pool.tag;
    }
    one["plain"] = pool.kind == Pool::Kind::plain;
    one["suspended"] = pool.allocator.suspended();
    one["allocated_bytes"] = s.allocated_bytes.current;
    one["allocated_peak_bytes"] = s.allocated_bytes.peak;
    one["reserved_bytes"] = s.reserved_bytes.current;
    one["kept_host_bytes"] = pool.allocator.kept_bytes();
    one["allocations"] = s.allocation.current;
    pools.push_back(std::move(one));
  });
  stats["pools"] = std::move(pools);
  return stats.dump();
}

}  // namespace tidemark::c_api
