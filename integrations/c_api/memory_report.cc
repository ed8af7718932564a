#include "integrations/c_api/memory_report.h"

#include <fmt/format.h>

namespace tidemark::c_api {

std::string memory_report(const OutOfMemory& now) {
  std::string text = fmt::format(
      "The device has {}, of which {} free; {} is held by others. This allocator may reserve {} and has {}: {} in live "
      "blocks, {} pending, {} cached (largest free range {}).",
      format_bytes(now.device_total_bytes), format_bytes(now.device_free_bytes), format_bytes(now.foreign_bytes),
      format_bytes(now.limit_bytes), format_bytes(now.reserved_bytes), format_bytes(now.allocated_bytes),
      format_bytes(now.pending_bytes), format_bytes(now.cached_bytes), format_bytes(now.largest_free_bytes));
  const char* between = " Largest holders: ";
  for (const OutOfMemory::Holder& holder : now.holders) {
    text += fmt::format("{}{} {} ({} of {} on stream {:#x})", between, format_bytes(holder.bytes), holder.name,
                        holder.count, format_bytes(holder.block_bytes), static_cast<std::uint64_t>(holder.stream));
    between = "; ";
  }
  if (!now.holders.empty()) text += '.';
  return text;
}

}  // namespace tidemark::c_api
