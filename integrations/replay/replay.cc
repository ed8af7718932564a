#include "integrations/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "allocator/stream_order.h"
#include "device/sim_device.h"
#include "integrations/replay/planned_trace.h"
#include "integrations/replay/replay_target.h"

namespace tidemark::replay {
namespace {

constexpr Bytes kAmple = 256 * kGiB;
constexpr Bytes kMostAmple = 4 * kTiB;  // granules of absurd traces would fill the host
constexpr std::int64_t kMostPasses = 1'000;
constexpr std::chrono::seconds kMostTiming{2};

/// The naive check: live ranges by address.
class LiveRanges {
 public:
  /// false: it overlaps one that is there.
  [[nodiscard]] bool add(Address address, Bytes bytes) {
    const Address end = address + static_cast<Address>(bytes);
    const auto behind = ends_.lower_bound(address);
    if (behind != ends_.end() && behind->first < end) return false;
    if (behind != ends_.begin() && std::prev(behind)->second > address) return false;
    ends_.emplace_hint(behind, address, end);
    return true;
  }
  void remove(Address address) { ends_.erase(address); }

 private:
  std::map<Address, Address> ends_;  // by start
};

class Replayer {
 public:
  Replayer(const formats::AllocationTrace& trace, ReplayTarget& target, Device& device, Bytes capacity)
      : trace_(trace), target_(target), device_(device), capacity_(capacity), addresses_(trace.blocks.size()) {}
  ~Replayer() {
    for (const auto& [name, stream] : streams_) (void)device_.destroy_stream(stream);
  }
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  Status make_streams() {
    for (const formats::AllocationTrace::Block& block : trace_.blocks) {
      const auto [found, is_new] = streams_.try_emplace(block.stream);
      if (is_new && device_.create_stream(StreamRole::compute, found->second) != DeviceCode::ok)
        return internal_fault(fmt::format("the trace uses too many streams: {}", device_.last_error()));
      stream_of_.push_back(found->second);
    }
    return {};
  }

  /// The first pass: every block is checked against all that are live.
  Status run_checked() {
    LiveRanges live;
    target_.begin_pass();
    for (std::int32_t block = 0; block < trace_.live_at_start; ++block)
      if (Status status = allocate_checked(block, live, "at the start"); !status) return status;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const formats::AllocationTrace::Event& event = trace_.events[i];
      if (event.action == formats::AllocationTrace::Action::free) {
        live.remove(address(event.block));
        target_.free(address(event.block));
      } else if (Status status = allocate_checked(event.block, live, fmt::format("event {}", i)); !status) {
        return status;
      }
    }
    return {};
  }

  /// A further pass. Returns what the events took.
  Result<std::chrono::nanoseconds> run_timed() {
    target_.begin_pass();
    DeviceCode code = DeviceCode::ok;
    for (std::int32_t block = 0; block < trace_.live_at_start && code == DeviceCode::ok; ++block)
      code = allocate(block);
    const auto start = std::chrono::steady_clock::now();
    for (const formats::AllocationTrace::Event& event : trace_.events) {
      if (code != DeviceCode::ok) break;
      if (event.action == formats::AllocationTrace::Action::free)
        target_.free(address(event.block));
      else
        code = allocate(event.block);
    }
    const auto end = std::chrono::steady_clock::now();
    if (code == DeviceCode::out_of_memory) return infeasible("a later pass finds no room");
    if (code != DeviceCode::ok)
      return internal_fault(fmt::format("a later pass over the trace: the device answers {}", name_of(code)));
    return end - start;
  }

  /// Frees what a pass left behind.
  void clear() {
    std::vector<bool> freed(trace_.blocks.size());
    for (const formats::AllocationTrace::Event& event : trace_.events)
      if (event.action == formats::AllocationTrace::Action::free) freed[static_cast<std::size_t>(event.block)] = true;
    for (std::size_t block = 0; block < freed.size(); ++block)
      if (!freed[block]) target_.free(addresses_[block]);
  }

 private:
  Address& address(std::int32_t block) { return addresses_[static_cast<std::size_t>(block)]; }

  DeviceCode allocate(std::int32_t block) {
    const auto row = static_cast<std::size_t>(block);
    return target_.allocate(trace_.blocks[row].bytes, stream_of_[row], addresses_[row]);
  }

  Status allocate_checked(std::int32_t block, LiveRanges& live, const std::string& when) {
    const Bytes bytes = trace_.blocks[static_cast<std::size_t>(block)].bytes;
    const DeviceCode code = allocate(block);
    if (code == DeviceCode::out_of_memory)
      return infeasible(fmt::format("{}: no room for {}, {} of {} are reserved", when, format_bytes(bytes),
                                    format_bytes(target_.reserved_bytes()), format_bytes(capacity_)));
    if (code != DeviceCode::ok) return internal_fault(fmt::format("{}: the device answers {}", when, name_of(code)));
    if (!live.add(address(block), bytes))
      return internal_fault(fmt::format("{}: block {} of {} B overlaps a live one", when, block, bytes));
    return {};
  }

  const formats::AllocationTrace& trace_;
  ReplayTarget& target_;
  Device& device_;
  Bytes capacity_;
  std::vector<Address> addresses_;  // by block
  std::vector<StreamHandle> stream_of_;
  std::map<std::uint64_t, StreamHandle> streams_;  // by the trace's name
};

/// Passes until enough operations are timed, or enough time has gone by; the best counts.
Status time_passes(Replayer& replayer, std::int64_t events, std::int64_t operations, ReplayFigures& figures) {
  if (events == 0) return {};
  const std::int64_t passes = std::min(kMostPasses, (operations + events - 1) / events);
  auto best = std::chrono::nanoseconds::max(), sum = std::chrono::nanoseconds::zero();
  for (; figures.timed_passes < passes && sum < kMostTiming; ++figures.timed_passes) {
    replayer.clear();
    const Result<std::chrono::nanoseconds> took = replayer.run_timed();
    if (!took && took.error().code == Error::Code::infeasible) break;
    if (!took) return took.error();
    best = std::min(best, took.value());
    sum += took.value();
  }
  if (figures.timed_passes > 0)
    figures.ns_per_operation = static_cast<double>(best.count()) / static_cast<double>(events);
  return {};
}

}  // namespace

std::string name_of(ReplayAllocator allocator, bool expandable) {
  switch (allocator) {
    case ReplayAllocator::caching:
      return "caching";
    case ReplayAllocator::planned:
      return "planned";
    case ReplayAllocator::baseline:
      break;
  }
  return expandable ? "baseline, expandable" : "baseline";
}

Result<ReplayFigures> replay(const formats::AllocationTrace& trace, const ReplayRequest& request) {
  const std::size_t streams = formats::count_streams(trace);
  if (request.allocator == ReplayAllocator::caching && streams > allocator::StreamOrder::kMaxStreams)
    return bad_input(
        fmt::format("the trace uses {} streams; the caching allocator takes {} at once, --allocator planned "
                    "and baseline any number",
                    streams, allocator::StreamOrder::kMaxStreams));
  const Bytes peak = std::min(formats::figures_of(trace).peak_bytes, kMostAmple);
  const Bytes ample = std::clamp(round_up(4 * peak, kGiB), kAmple, kMostAmple);
  const Bytes capacity = request.capacity_bytes > 0 ? request.capacity_bytes : ample;
  const std::unique_ptr<SimDevice> device =
      make_sim_device({.capacity_bytes = capacity, .tail_pad_bytes = request.tail_pad_bytes, .check_races = false});
  const DeviceTraits& traits = device->traits();
  ReplayFigures figures{.allocator = name_of(request.allocator, request.expandable),
                        .device = traits.product,
                        .granule_bytes = traits.granule_bytes};
  std::unique_ptr<ReplayTarget> target;
  if (request.allocator == ReplayAllocator::planned) {
    const PlannedTrace plan = plan_trace(trace, traits.alignment_bytes, traits.tail_pad_bytes);
    figures.planned = {.packer = plan.packer, .height_bytes = plan.height_bytes, .load_bytes = plan.load_bytes};
    Result<std::unique_ptr<ReplayTarget>> planned = make_planned_target(*device, plan);
    if (!planned && planned.error().code == Error::Code::infeasible) {
      figures.no_room = planned.error().message;
      return figures;
    }
    if (!planned) return planned.error();
    target = std::move(planned).value();
  } else if (request.allocator == ReplayAllocator::baseline) {
    target = make_baseline_target(*device, request.expandable, streams);
  } else {
    target = make_caching_target(*device);
  }
  Replayer replayer(trace, *target, *device, capacity);
  Status status = replayer.make_streams();
  if (status) status = replayer.run_checked();
  if (!status && status.error().code == Error::Code::infeasible) {
    figures.no_room = status.error().message;
    status = {};
  } else if (!status) {
    return Error{status.error().code, figures.allocator + ": " + status.error().message};
  }
  figures.peak_reserved_bytes = target->peak_reserved_bytes();
  figures.end_reserved_bytes = target->reserved_bytes();
  if (const std::optional<allocator::PlannedArenaCounts> counts = target->planned_counts()) {
    figures.planned->served = counts->served;
    figures.planned->not_planned = counts->unplanned;
  }
  if (figures.no_room.empty())
    status = time_passes(replayer, static_cast<std::int64_t>(trace.events.size()), request.timed_operations, figures);
  if (!status) return Error{status.error().code, figures.allocator + ": " + status.error().message};
  return figures;
}

}  // namespace tidemark::replay
