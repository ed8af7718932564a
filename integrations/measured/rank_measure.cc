#include "integrations/measured/rank_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#include "integrations/measured/stack_site.h"
#include "integrations/measured/trace_peak.h"
#include "integrations/measured/trace_storages.h"

namespace tidemark::measured {
namespace {

using budget::Category;
using formats::ComponentSample;
using formats::DeviceSample;
using formats::MemoryRecord;

/// Allocators of torch_npu's process, as memory_record.csv names them. `PTA+GE` is the sum of two of them.
constexpr auto kAllocators = std::to_array<std::string_view>({"PTA", "GE", "WORKSPACE"});
constexpr std::string_view kBothAllocators = "PTA+GE", kProcess = "APP";

void take_larger(std::optional<Bytes>& all, const std::optional<Bytes>& more) {
  if (more) all = std::max(all.value_or(0), *more);
}

budget::HeldStorage storage(std::string_view name, Category category, Bytes bytes) {
  budget::HeldStorage held;
  held.name = name;
  held.category = category;
  held.bytes = bytes;
  return held;
}

/// In force at a time: of the last sample up to it; before the first, that one.
Bytes reserved_at(const MemoryRecord::Component& component, std::int64_t time_ns) {
  const auto& samples = component.samples;
  const auto after = std::ranges::upper_bound(samples, time_ns, {}, &ComponentSample::time_ns);
  return after == samples.begin() ? samples.front().reserved_bytes : std::prev(after)->reserved_bytes;
}

Bytes highest_reserved(const MemoryRecord::Component& component) {
  return std::ranges::max_element(component.samples, {}, &ComponentSample::reserved_bytes)->reserved_bytes;
}

/// The allocators that are recorded; of the sum only where its parts are not.
std::vector<const MemoryRecord::Component*> allocators_of(const MemoryRecord& record) {
  std::vector<const MemoryRecord::Component*> found;
  for (const std::string_view name : kAllocators)
    if (const auto* component = record.find(name)) found.push_back(component);
  if (found.empty())
    if (const auto* both = record.find(kBothAllocators)) found.push_back(both);
  return found;
}

/// What the process has beside its allocators where it has most; of equal moments that with the least beside.
std::optional<Bytes> outside_of(const MemoryRecord& record,
                                const std::vector<const MemoryRecord::Component*>& allocators) {
  const MemoryRecord::Component* process = record.find(kProcess);
  if (process == nullptr || allocators.empty()) return std::nullopt;
  const Bytes highest = highest_reserved(*process);
  std::optional<Bytes> least;
  for (const ComponentSample& sample : process->samples) {
    if (sample.reserved_bytes != highest) continue;
    Bytes inside = 0;
    for (const auto* allocator : allocators) inside += reserved_at(*allocator, sample.time_ns);
    const Bytes outside = std::max<Bytes>(sample.reserved_bytes - inside, 0);
    least = std::min(least.value_or(outside), outside);
  }
  return least;
}

std::optional<Bytes> highest_allocated(const MemoryRecord::Component& component) {
  std::optional<Bytes> highest;
  for (const ComponentSample& sample : component.samples) take_larger(highest, sample.allocated_bytes);
  return highest;
}

bool is_allocator(std::string_view name) {
  return name == kBothAllocators || std::ranges::find(kAllocators, name) != kAllocators.end();
}

/// HCCL is Ascend's library of collectives; CANN names it so in npu_module_mem.csv.
budget::HeldStorage named_component(const MemoryRecord::Component& component) {
  return storage(name_of(component.name), component.name == "HCCL" ? Category::communication : Category::reserve,
                 highest_reserved(component));
}

/// Storages that make up `allocated`, where no file tells them apart one row.
void add_allocated(const RankMeasure& measure, Bytes allocated_bytes, budget::RankHoldings& rank) {
  rank.storages = measure.storages;
  Bytes told = 0;
  for (const budget::HeldStorage& held : rank.storages) told += held.bytes;
  if (told < allocated_bytes)
    rank.storages.push_back(
        storage(told == 0 ? "allocated" : "allocated, not in the trace", Category::other, allocated_bytes - told));
}

/// Named components first; the rest of what is outside is one row.
void add_outside(const RankMeasure& measure, Bytes outside_bytes, budget::RankHoldings& rank) {
  for (const budget::HeldStorage& held : measure.named_outside) {
    budget::HeldStorage part = held;
    part.bytes = std::min(part.bytes, outside_bytes);
    outside_bytes -= part.bytes;
    if (part.bytes > 0) rank.storages.push_back(part);
  }
  if (outside_bytes > 0) rank.storages.push_back(storage(kOutside, Category::reserve, outside_bytes));
}

/// Without storages what was asked for stands under `other`, if an allocator told of it at all.
budget::CategoryFlags untold_of(const RankMeasure& measure) {
  budget::CategoryFlags untold{};
  untold.fill(measure.storages.empty());
  untold[static_cast<std::size_t>(Category::other)] = false;
  untold[static_cast<std::size_t>(Category::cached)] = !measure.reserved_bytes || !measure.allocated_bytes;
  untold[static_cast<std::size_t>(Category::reserve)] = !measure.outside_bytes && !measure.used_bytes;
  return untold;
}

}  // namespace

RankMeasure measure_of(const formats::AttributedTrace& run) {
  const TracePeak peak = peak_of(run);
  RankMeasure measure;
  measure.allocated_bytes = peak.allocated_bytes;
  if (!run.reserved.empty()) measure.reserved_bytes = peak.reserved_bytes;
  AttributedPeak attributed = attribute(run, peak);
  measure.storages = std::move(attributed.storages);
  measure.peak_at = std::move(attributed.place);
  if (peak.start_bytes > 0 && peak.lowest_bytes == peak.start_bytes) measure.steady_bytes = peak.start_bytes;
  measure.notes = run.trace.notes;
  measure.doubts = run.doubts;
  return measure;
}

RankMeasure measure_of(const MemoryRecord& record) {
  RankMeasure measure;
  measure.notes = record.notes;
  const auto allocators = allocators_of(record);
  Bytes reserved = 0;
  for (const MemoryRecord::Component* allocator : allocators) {
    reserved += highest_reserved(*allocator);
    if (const auto allocated = highest_allocated(*allocator))
      measure.allocated_bytes = measure.allocated_bytes.value_or(0) + *allocated;
  }
  if (!allocators.empty()) measure.reserved_bytes = reserved;
  measure.outside_bytes = outside_of(record, allocators);
  if (const auto* process = record.find(kProcess); process != nullptr && allocators.empty())
    measure.used_bytes = highest_reserved(*process);
  for (const MemoryRecord::Component& component : record.components)
    if (component.name != kProcess && !is_allocator(component.name))
      measure.named_outside.push_back(named_component(component));
  if (!measure.outside_bytes && !measure.used_bytes && !measure.named_outside.empty()) {
    measure.outside_bytes = 0;
    for (const budget::HeldStorage& held : measure.named_outside) *measure.outside_bytes += held.bytes;
  }
  return measure;
}

RankMeasure measure_of(const std::vector<DeviceSample>& samples) {
  assert(!samples.empty());
  RankMeasure measure;
  std::optional<Bytes> resident, pinned;
  for (const DeviceSample& sample : samples) {
    take_larger(measure.allocated_bytes, sample.allocator_allocated_bytes);
    take_larger(measure.allocated_bytes, sample.allocator_allocated_peak_bytes);
    take_larger(measure.reserved_bytes, sample.allocator_reserved_bytes);
    take_larger(measure.reserved_bytes, sample.allocator_reserved_peak_bytes);
    take_larger(resident, sample.host_peak_bytes);
    take_larger(pinned, sample.host_pinned_bytes);
    take_larger(measure.used_bytes, sample.device_used_bytes);
    if (sample.device_used_bytes && sample.allocator_reserved_bytes)
      take_larger(measure.outside_bytes,
                  std::max<Bytes>(*sample.device_used_bytes - *sample.allocator_reserved_bytes, 0));
  }
  measure.host_bytes = resident;
  take_larger(measure.host_bytes, pinned);
  if (resident && pinned)
    measure.notes.push_back(fmt::format("host memory {} at most, the pinned pool {} at most", format_bytes(*resident),
                                        format_bytes(*pinned)));
  return measure;
}

void add(RankMeasure& all, RankMeasure more) {
  // Where the storages come from decides what `allocated` is: they add up to it.
  if (all.storages.empty() && !more.storages.empty()) {
    all.storages = std::move(more.storages);
    all.peak_at = std::move(more.peak_at);
  }
  take_larger(all.allocated_bytes, more.allocated_bytes);
  take_larger(all.reserved_bytes, more.reserved_bytes);
  take_larger(all.outside_bytes, more.outside_bytes);
  take_larger(all.used_bytes, more.used_bytes);
  take_larger(all.host_bytes, more.host_bytes);
  if (!all.steady_bytes) all.steady_bytes = more.steady_bytes;
  all.named_outside.insert(all.named_outside.end(), more.named_outside.begin(), more.named_outside.end());
  all.notes.insert(all.notes.end(), more.notes.begin(), more.notes.end());
  all.doubts.insert(all.doubts.end(), more.doubts.begin(), more.doubts.end());
}

bool tells_device(const RankMeasure& measure) {
  return measure.allocated_bytes || measure.reserved_bytes || measure.outside_bytes || measure.used_bytes;
}

budget::RankHoldings holdings_of(std::int64_t rank, std::string place, const RankMeasure& measure) {
  assert(tells_device(measure));
  budget::RankHoldings holdings;
  holdings.rank = rank;
  holdings.place = std::move(place);
  const Bytes reserved = std::max(measure.reserved_bytes.value_or(0), measure.allocated_bytes.value_or(0));
  const Bytes allocated = measure.allocated_bytes.value_or(reserved);
  const Bytes outside = std::max(measure.outside_bytes.value_or(0), measure.used_bytes.value_or(0) - reserved);
  holdings.peak_bytes = reserved + outside;
  holdings.peak_at = measure.peak_at;
  holdings.host_bytes = measure.host_bytes;
  // As of a plan: what is live in the phase, with what the peak has beside live bytes (holdings.h, PhaseBytes).
  if (measure.steady_bytes)
    holdings.by_phase[static_cast<std::size_t>(budget::Phase::between_steps)] =
        *measure.steady_bytes + holdings.peak_bytes - allocated;
  add_allocated(measure, allocated, holdings);
  if (reserved > allocated) holdings.storages.push_back(storage("cached", Category::cached, reserved - allocated));
  add_outside(measure, outside, holdings);
  budget::settle(holdings, Category::other);
  holdings.is_untold = untold_of(measure);
  return holdings;
}

}  // namespace tidemark::measured
