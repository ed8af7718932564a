#include "integrations/formats/allocation_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace tidemark::formats {

TraceFigures figures_of(const AllocationTrace& trace) {
  TraceFigures figures;
  for (std::int32_t block = 0; block < trace.live_at_start; ++block)
    figures.start_bytes += trace.blocks[static_cast<std::size_t>(block)].bytes;
  Bytes live = figures.peak_bytes = figures.start_bytes;
  for (const AllocationTrace::Event& event : trace.events) {
    const Bytes bytes = trace.blocks[static_cast<std::size_t>(event.block)].bytes;
    const bool is_alloc = event.action == AllocationTrace::Action::alloc;
    ++(is_alloc ? figures.allocs : figures.frees);
    live += is_alloc ? bytes : -bytes;
    figures.peak_bytes = std::max(figures.peak_bytes, live);
  }
  figures.end_bytes = live;
  return figures;
}

std::size_t count_streams(const AllocationTrace& trace) {
  std::set<std::uint64_t> streams;
  for (const AllocationTrace::Block& block : trace.blocks) streams.insert(block.stream);
  return streams.size();
}

std::optional<std::string> find_fault(const AllocationTrace& trace) {
  enum class Life : std::uint8_t { unborn, live, gone };
  if (trace.live_at_start < 0 || static_cast<std::size_t>(trace.live_at_start) > trace.blocks.size())
    return fmt::format("{} of {} blocks are live at the start", trace.live_at_start, trace.blocks.size());
  std::vector<Life> lives(trace.blocks.size(), Life::unborn);
  std::fill_n(lives.begin(), trace.live_at_start, Life::live);
  for (const AllocationTrace::Block& block : trace.blocks)
    if (block.bytes <= 0) return fmt::format("a block has {} bytes", block.bytes);
  std::int32_t born = trace.live_at_start;
  for (const AllocationTrace::Event& event : trace.events) {
    if (event.block < 0 || static_cast<std::size_t>(event.block) >= lives.size())
      return fmt::format("block {} is none of {}", event.block, lives.size());
    Life& life = lives[static_cast<std::size_t>(event.block)];
    const bool is_alloc = event.action == AllocationTrace::Action::alloc;
    if (life != (is_alloc ? Life::unborn : Life::live))
      return fmt::format("block {} is {} out of turn", event.block, is_alloc ? "allocated" : "freed");
    if (is_alloc && event.block != born++) return fmt::format("block {} is born out of turn", event.block);
    life = is_alloc ? Life::live : Life::gone;
  }
  if (static_cast<std::size_t>(born) != lives.size()) return fmt::format("block {} is never allocated", born);
  return std::nullopt;
}

}  // namespace tidemark::formats
