#include "integrations/replay/planned_trace.h"

#include "planner/layout/packer.h"

namespace tidemark::replay {
namespace {

// A trace is packed once, so it gets about a second where the orders alone do not reach the load.
constexpr std::int64_t kPackWork = 1'000'000;

}  // namespace

PlannedTrace plan_trace(const formats::AllocationTrace& trace, Bytes alignment, Bytes tail_pad_bytes) {
  layout::PackProblem problem{.alignment = alignment};
  std::vector<layout::PackItem>& items = problem.items;
  items.resize(trace.blocks.size());
  const auto never = static_cast<std::int32_t>(trace.events.size()) + 1;
  for (std::size_t block = 0; block < items.size(); ++block)
    items[block] = {.begin = 0, .end = never, .bytes = trace.blocks[block].bytes + tail_pad_bytes};
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const formats::AllocationTrace::Event& event = trace.events[i];
    layout::PackItem& item = items[static_cast<std::size_t>(event.block)];
    (event.action == formats::AllocationTrace::Action::alloc ? item.begin : item.end) =
        static_cast<std::int32_t>(i) + 1;
  }
  const layout::PackAnswer best = layout::find_packer("auto")->pack(problem, {.work = kPackWork});
  PlannedTrace planned{
      .packer = std::string(best.packer), .height_bytes = best.packing.height_bytes, .load_bytes = best.bound_bytes};
  for (std::size_t block = 0; block < items.size(); ++block)
    planned.blocks.push_back({.bytes = trace.blocks[block].bytes, .offset = best.packing.offsets[block]});
  return planned;
}

}  // namespace tidemark::replay
