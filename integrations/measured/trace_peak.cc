#include "integrations/measured/trace_peak.h"

#include <algorithm>

namespace tidemark::measured {
namespace {

using Action = formats::AllocationTrace::Action;

std::vector<std::int32_t> live_after(const formats::AllocationTrace& trace, std::size_t events) {
  std::vector<char> is_live(trace.blocks.size(), 0);
  std::fill_n(is_live.begin(), trace.live_at_start, char{1});
  for (std::size_t i = 0; i < events; ++i)
    is_live[static_cast<std::size_t>(trace.events[i].block)] = trace.events[i].action == Action::alloc ? 1 : 0;
  std::vector<std::int32_t> blocks;
  for (std::size_t block = 0; block < is_live.size(); ++block)
    if (is_live[block] != 0) blocks.push_back(static_cast<std::int32_t>(block));
  return blocks;
}

}  // namespace

TracePeak peak_of(const formats::AttributedTrace& run) {
  const formats::AllocationTrace& trace = run.trace;
  TracePeak peak;
  for (std::int32_t block = 0; block < trace.live_at_start; ++block)
    peak.start_bytes += trace.blocks[static_cast<std::size_t>(block)].bytes;
  Bytes live = peak.start_bytes;
  peak.allocated_bytes = peak.lowest_bytes = live;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Bytes bytes = trace.blocks[static_cast<std::size_t>(trace.events[i].block)].bytes;
    live += trace.events[i].action == Action::alloc ? bytes : -bytes;
    peak.lowest_bytes = std::min(peak.lowest_bytes, live);
    if (live <= peak.allocated_bytes) continue;
    peak.allocated_bytes = live;
    peak.events = i + 1;
  }
  peak.blocks = live_after(trace, peak.events);
  peak.reserved_bytes = peak.allocated_bytes;
  for (const formats::ReservedMark& mark : run.reserved)
    peak.reserved_bytes = std::max(peak.reserved_bytes, mark.bytes);
  return peak;
}

}  // namespace tidemark::measured
