// The host runs out of memory inside free() and note_use(): each allocation of theirs fails once, in turn. A code comes
// out, nothing has changed, and the same call succeeds once there is memory again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/metadata_memory.h"
#include "device/forwarding_device.h"
#include "device/sim_device.h"

namespace {

thread_local int allocations_left = -1;  ///< until one fails; -1: none does

/// Counts an allocation; whether it is the one that fails.
bool strikes() {
  if (allocations_left < 0) return false;
  return --allocations_left < 0;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (strikes()) throw std::bad_alloc();
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// Not inlined: where only operator delete is, the compiler takes it for a mismatched pair of operator new and free.
[[gnu::noinline]] void give_back(void* memory) noexcept {
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return take(bytes + (bytes == 0 ? 1 : 0), alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}

#if !TIDEMARK_PLAIN_METADATA
// In the place of the library's: the books of allocators (allocator/metadata_memory.h).
void* mi_malloc_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  return strikes() ? nullptr : mi_heap_malloc_aligned(mi_heap_get_default(), bytes, alignment);
}
#endif

namespace tidemark::allocator {
namespace {

using namespace literals;

/// A device of which the host's memory is no concern: a call of it is done or not.
class SafeDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  DeviceCode reserve(Bytes bytes, Address& address) override {
    return spared([&] { return ForwardingDevice::reserve(bytes, address); });
  }
  DeviceCode map(Address at, Bytes bytes) override {
    return spared([&] { return ForwardingDevice::map(at, bytes); });
  }
  DeviceCode unmap(Address at, Bytes bytes) override {
    return spared([&] { return ForwardingDevice::unmap(at, bytes); });
  }
  DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return spared([&] { return ForwardingDevice::alias(at, source, bytes); });
  }
  DeviceCode remap(Address at, Address source, Bytes bytes) override {
    return spared([&] { return ForwardingDevice::remap(at, source, bytes); });
  }
  DeviceCode allocate_plain(Bytes bytes, Address& address) override {
    return spared([&] { return ForwardingDevice::allocate_plain(bytes, address); });
  }
  DeviceCode free_plain(Address address) override {
    return spared([&] { return ForwardingDevice::free_plain(address); });
  }

 private:
  static DeviceCode spared(const auto& call) {
    const int left = std::exchange(allocations_left, -1);
    const DeviceCode code = call();
    allocations_left = left;
    return code;
  }
};

/// Without the race checker, which allocates after a call of the device has taken effect.
struct Scene {
  std::unique_ptr<SimDevice> simulated = make_sim_device({.capacity_bytes = 256_MiB, .check_races = false});
  std::unique_ptr<SafeDevice> device = std::make_unique<SafeDevice>(*simulated);
  StreamOrder order;
  std::unique_ptr<CachingAllocator> allocator =
      std::make_unique<CachingAllocator>(*device, order, AllocatorOptions{.trace_entries = 256});
  std::vector<StreamHandle> streams;
  Address small = 0, large = 0;
  std::vector<Address> kept;  ///< of a test's own

  Scene() {
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(device->create_stream(StreamRole::compute, streams.emplace_back()), DeviceCode::ok);
    }
    EXPECT_EQ(allocator->allocate(4_KiB, streams[0], small), DeviceCode::ok);
    EXPECT_EQ(allocator->allocate(4_MiB, streams[0], large), DeviceCode::ok);
  }
};

/// In the trace.
std::ptrdiff_t frees_told(const Scene& scene) {
  return std::ranges::count_if(scene.allocator->snapshot().trace,
                               [](const TraceEvent& event) { return event.action == TraceAction::free_requested; });
}

/// Nothing is lost: all memory goes back to the device once no block is left.
void expect_all_goes_back(Scene& scene) {
  scene.kept.insert(scene.kept.end(), {scene.small, scene.large});
  for (const Address block : scene.kept)
    if (scene.allocator->block_bytes(block) > 0) {
      EXPECT_EQ(scene.allocator->free(block), DeviceCode::ok);
    }
  scene.allocator->empty_cache();
  EXPECT_EQ(scene.allocator->statistics().reserved_bytes.current, 0);
  EXPECT_EQ(scene.allocator->validate(), "");
}

/// `act` with the k-th allocation failing, for every k there is. Returns how many there are.
int fail_each(const std::function<void(Scene&)>& prepare, const std::function<DeviceCode(Scene&)>& act) {
  for (int k = 0;; ++k) {
    SCOPED_TRACE(k);
    Scene scene;
    prepare(scene);
    const AllocatorStatistics before = scene.allocator->statistics();
    const std::ptrdiff_t frees = frees_told(scene);
    allocations_left = k;
    const DeviceCode code = act(scene);
    const bool struck = allocations_left < 0;
    allocations_left = -1;
    if (!struck) {
      EXPECT_EQ(code, DeviceCode::ok);
      return k;
    }
    EXPECT_EQ(code, DeviceCode::no_resource);
    EXPECT_EQ(scene.allocator->last_error(), "no host memory");
    EXPECT_EQ(scene.allocator->statistics().allocated_bytes.current, before.allocated_bytes.current);
    EXPECT_EQ(frees_told(scene), frees) << "no free is told of that did not happen";
    EXPECT_GT(scene.allocator->block_bytes(scene.small), 0);
    EXPECT_GT(scene.allocator->block_bytes(scene.large), 0);
    EXPECT_EQ(scene.allocator->validate(), "");
    EXPECT_EQ(act(scene), DeviceCode::ok) << scene.allocator->last_error();
    EXPECT_EQ(scene.allocator->validate(), "");
    expect_all_goes_back(scene);
  }
}

TEST(AllocatorMemory, AFreeOnAnotherStreamFailsWhole) {
  const auto nothing = [](Scene&) {};
  EXPECT_GT(fail_each(nothing, [](Scene& s) { return s.allocator->free(s.large, s.streams[9]); }), 2);
  EXPECT_GT(fail_each(nothing, [](Scene& s) { return s.allocator->free(s.small, s.streams[9]); }), 2);
}

TEST(AllocatorMemory, AFreeOnTheOwnStreamNeedsNone) {
  const auto nothing = [](Scene&) {};
  EXPECT_EQ(fail_each(nothing, [](Scene& s) { return s.allocator->free(s.small); }), 0);
  fail_each(nothing, [](Scene& s) { return s.allocator->free(s.large); });
}

TEST(AllocatorMemory, ANotedUseIsNotedOrNot) {
  const auto nothing = [](Scene&) {};
  EXPECT_GT(fail_each(nothing, [](Scene& s) { return s.allocator->note_use(s.large, s.streams[9]); }), 2);
}

TEST(AllocatorMemory, UsesSurviveAFreeThatFailed) {
  const auto lend = [](Scene& s) {
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(s.allocator->note_use(s.large, s.streams[i]), DeviceCode::ok);
  };
  const auto free_it = [](Scene& s) {
    const DeviceCode code = s.allocator->free(s.large, s.streams[9]);
    if (code == DeviceCode::ok) {
      EXPECT_EQ(s.allocator->statistics().pending_bytes, 4_MiB) << "three streams may still use it";
    }
    return code;
  };
  EXPECT_GT(fail_each(lend, free_it), 2);
}

// What was freed goes back to its pool later, in a call that fails for its own reasons: nothing gets lost there.
TEST(AllocatorMemory, AnAllocationThatFailsLosesNothing) {
  const auto fill = [](Scene& s) {
    Address address = 0;
    for (int i = 0; i < 8; ++i) {
      const StreamHandle stream = s.streams[static_cast<std::size_t>(i % 4)];
      EXPECT_EQ(s.allocator->allocate(512_KiB, stream, address), DeviceCode::ok);
      EXPECT_EQ(s.allocator->free(address), DeviceCode::ok);
    }
  };
  EXPECT_GT(fail_each(fill,
                      [](Scene& s) {
                        Address address = 0;
                        const DeviceCode code = s.allocator->allocate(2_MiB, s.streams[9], address);
                        if (code == DeviceCode::ok) {
                          EXPECT_EQ(s.allocator->free(address), DeviceCode::ok);
                        }
                        return code;
                      }),
            2);
}

// The first block asks the device for the range of addresses that all others lie in.
TEST(AllocatorMemory, AFirstAllocationThatFailsLeavesThePoolWhole) {
  for (int k = 0;; ++k) {
    SCOPED_TRACE(k);
    const std::unique_ptr<SimDevice> simulated = make_sim_device({.capacity_bytes = 256_MiB, .check_races = false});
    SafeDevice device(*simulated);
    StreamOrder order;
    StreamHandle stream{};
    ASSERT_EQ(device.create_stream(StreamRole::compute, stream), DeviceCode::ok);
    CachingAllocator allocator(device, order, {});
    Address address = 0;
    allocations_left = k;
    const DeviceCode code = allocator.allocate(4_MiB, stream, address);
    const bool struck = allocations_left < 0;
    allocations_left = -1;
    if (!struck) {
      EXPECT_EQ(code, DeviceCode::ok);
      EXPECT_GT(k, 2);
      break;
    }
    EXPECT_EQ(code, DeviceCode::no_resource);
    EXPECT_EQ(allocator.allocate(4_MiB, stream, address), DeviceCode::ok) << allocator.last_error();
    EXPECT_EQ(allocator.validate(), "");
    EXPECT_EQ(allocator.free(address), DeviceCode::ok);
    allocator.empty_cache();
    EXPECT_EQ(allocator.statistics().reserved_bytes.current, 0);
  }
}

/// A block of 128 MiB, every other granule of which has given its memory back.
Address lend_with_holes(Scene& s) {
  constexpr Bytes kGranules = 64;
  const Bytes granule = s.device->traits().granule_bytes;
  Address lent = 0;
  EXPECT_EQ(s.allocator->allocate_lent(kGranules * granule, s.streams[0], lent), DeviceCode::ok);
  for (Bytes i = 0; i < kGranules; i += 2) EXPECT_EQ(s.allocator->unmap_part(lent, i * granule, granule), granule);
  return lent;
}

TEST(AllocatorMemory, TheEndOfABlockWithPartsNeedsNone) {
  const auto lend = [](Scene& s) {
    EXPECT_EQ(s.allocator->free(s.large), DeviceCode::ok);
    s.large = lend_with_holes(s);
  };
  EXPECT_EQ(fail_each(lend, [](Scene& s) { return s.allocator->free(s.large); }), 0);
}

TEST(AllocatorMemory, ABlockWithPartsThatWaitedIsNotLost) {
  const auto lend = [](Scene& s) {
    const Address lent = lend_with_holes(s);
    EXPECT_EQ(s.allocator->note_use(lent, s.streams[1]), DeviceCode::ok);
    EXPECT_EQ(s.allocator->free(lent, s.streams[9]), DeviceCode::ok);
  };
  EXPECT_GT(fail_each(lend,
                      [](Scene& s) {
                        Address address = 0;
                        const DeviceCode code = s.allocator->allocate(192_MiB, s.streams[0], address);
                        if (code == DeviceCode::ok) {
                          EXPECT_EQ(s.allocator->free(address), DeviceCode::ok);
                        }
                        return code;
                      }),
            2);
}

// The granules that blocks left move to where a large one finds addresses. Books of every size: some are full just
// then.
TEST(AllocatorMemory, GranulesThatMoveAreNotLost) {
  const auto large = [](Scene& s) {
    Address address = 0;
    const DeviceCode code = s.allocator->allocate(32_MiB, s.streams[0], address);
    if (code == DeviceCode::ok) {
      EXPECT_EQ(s.allocator->free(address), DeviceCode::ok);
    }
    return code;
  };
  constexpr std::size_t kLeastKept = 16, kMostKept = 32;
  for (std::size_t kept = kLeastKept; kept < kMostKept; ++kept) {
    SCOPED_TRACE(kept);
    const auto scatter = [kept](Scene& s) {
      std::vector<Address> left(10);
      s.kept.resize(kept + left.size());
      for (std::size_t i = 0; i < s.kept.size(); ++i) {
        EXPECT_EQ(s.allocator->allocate(2_MiB, s.streams[1], s.kept[i]), DeviceCode::ok);
        if (i < left.size()) {
          EXPECT_EQ(s.allocator->allocate(4_MiB, s.streams[1], left[i]), DeviceCode::ok);
        }
      }
      for (const Address block : left) EXPECT_EQ(s.allocator->free(block), DeviceCode::ok);
      EXPECT_EQ(s.order.synchronize(*s.device), DeviceCode::ok);
      s.allocator->set_limit(s.allocator->statistics().reserved_bytes.current);
    };
    EXPECT_GT(fail_each(scatter, large), 2);
  }
}

}  // namespace
}  // namespace tidemark::allocator
