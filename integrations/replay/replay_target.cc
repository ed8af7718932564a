#include "integrations/replay/replay_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "allocator/baseline_allocator.h"
#include "allocator/caching_allocator.h"
#include "allocator/mapped_range.h"

namespace tidemark::replay {
namespace {

class CachingTarget final : public ReplayTarget {
 public:
  explicit CachingTarget(Device& device) : allocator_(device, order_) {}

  DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address) override {
    return allocator_.allocate(bytes, stream, address);
  }
  void free(Address address) override { (void)allocator_.free(address); }
  Bytes reserved_bytes() const override { return allocator_.statistics().reserved_bytes.current; }
  Bytes peak_reserved_bytes() const override { return allocator_.statistics().reserved_bytes.peak; }

 private:
  allocator::StreamOrder order_;
  allocator::CachingAllocator allocator_;
};

class BaselineTarget final : public ReplayTarget {
 public:
  BaselineTarget(Device& device, bool expandable, Bytes segment_space_bytes)
      : allocator_(device, {.expandable = expandable, .segment_space_bytes = segment_space_bytes}) {}

  DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address) override {
    address = 0;
    return allocator_.allocate(bytes, stream, address);
  }
  void free(Address address) override { allocator_.free(address); }
  Bytes reserved_bytes() const override { return allocator_.counts().reserved_bytes; }
  Bytes peak_reserved_bytes() const override { return allocator_.counts().peak_reserved_bytes; }

 private:
  allocator::BaselineAllocator allocator_;
};

class PlannedTarget final : public ReplayTarget {
 public:
  /// `memory`: of the arena, mapped.
  PlannedTarget(Device& device, const PlannedTrace& plan, std::unique_ptr<allocator::MappedRange> memory)
      : memory_(std::move(memory)),
        arena_(plan.blocks, {.base = memory_->base(),
                             .alignment_bytes = device.traits().alignment_bytes,
                             .tail_pad_bytes = device.traits().tail_pad_bytes}),
        fallback_(device, order_) {}

  DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address) override {
    if (const std::optional<Address> planned = arena_.allocate(bytes)) {
      address = *planned;
      return DeviceCode::ok;
    }
    return fallback_.allocate(bytes, stream, address);
  }
  void free(Address address) override {
    if (!arena_.free(address)) (void)fallback_.free(address);
  }
  void begin_pass() override { arena_.begin_step(); }
  Bytes reserved_bytes() const override {
    return memory_->mapped_bytes() + fallback_.statistics().reserved_bytes.current;
  }
  Bytes peak_reserved_bytes() const override {
    return memory_->mapped_bytes() + fallback_.statistics().reserved_bytes.peak;
  }
  std::optional<allocator::PlannedArenaCounts> planned_counts() const override { return arena_.counts(); }

 private:
  const std::unique_ptr<allocator::MappedRange> memory_;
  allocator::PlannedArena arena_;
  allocator::StreamOrder order_;
  allocator::CachingAllocator fallback_;
};

}  // namespace

std::unique_ptr<ReplayTarget> make_caching_target(Device& device) {
  return std::make_unique<CachingTarget>(device);
}

std::unique_ptr<ReplayTarget> make_baseline_target(Device& device, bool expandable, std::size_t streams) {
  constexpr Bytes kAddresses = 48 * kTiB;  // of the 64 that the simulated device has
  MemoryInfo memory;
  if (device.memory_info(memory) != DeviceCode::ok) memory = {};
  const Bytes share = kAddresses / static_cast<Bytes>(2 * std::max<std::size_t>(streams, 1));
  return std::make_unique<BaselineTarget>(device, expandable, std::min(memory.total_bytes / 8 * 9, share));
}

Result<std::unique_ptr<ReplayTarget>> make_planned_target(Device& device, const PlannedTrace& plan) {
  const Bytes bytes = std::max<Bytes>(1, plan.height_bytes);
  auto memory = std::make_unique<allocator::MappedRange>(device);
  DeviceCode code = memory->reserve(bytes);
  if (code == DeviceCode::ok) code = memory->map(0, bytes);
  if (code != DeviceCode::ok)
    return infeasible(fmt::format("the arena of the plan needs {}: {}", format_bytes(bytes), name_of(code)));
  return std::unique_ptr<ReplayTarget>(std::make_unique<PlannedTarget>(device, plan, std::move(memory)));
}

}  // namespace tidemark::replay
