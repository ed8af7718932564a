// The host runs out of memory inside free() and note_use(): each allocation of theirs fails once, in turn. A code comes
// out, nothing has changed, and the same call succeeds once there is memory again.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/sim_device.h"

namespace {

thread_local int allocations_left = -1;  ///< until one fails; -1: none does

void* take(std::size_t bytes, std::size_t alignment) {
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
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

namespace tidemark::allocator {
namespace {

using namespace literals;

/// Without the race checker, which allocates after a call of the device has taken effect.
struct Scene {
  std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = 64_MiB, .check_races = false});
  StreamOrder order;
  std::unique_ptr<CachingAllocator> allocator =
      std::make_unique<CachingAllocator>(*device, order, AllocatorOptions{.trace_entries = 64});
  std::vector<StreamHandle> streams;
  Address small = 0, large = 0;

  Scene() {
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(device->create_stream(StreamRole::compute, streams.emplace_back()), DeviceCode::ok);
    }
    EXPECT_EQ(allocator->allocate(4_KiB, streams[0], small), DeviceCode::ok);
    EXPECT_EQ(allocator->allocate(4_MiB, streams[0], large), DeviceCode::ok);
  }
};

/// `act` with the k-th allocation failing, for every k there is. Returns how many there are.
int fail_each(const std::function<void(Scene&)>& prepare, const std::function<DeviceCode(Scene&)>& act) {
  for (int k = 0;; ++k) {
    SCOPED_TRACE(k);
    Scene scene;
    prepare(scene);
    const AllocatorStatistics before = scene.allocator->statistics();
    const std::size_t events = scene.allocator->snapshot().trace.size();
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
    EXPECT_EQ(scene.allocator->snapshot().trace.size(), events) << "no free is told of that did not happen";
    EXPECT_GT(scene.allocator->block_bytes(scene.small), 0);
    EXPECT_GT(scene.allocator->block_bytes(scene.large), 0);
    EXPECT_EQ(scene.allocator->validate(), "");
    EXPECT_EQ(act(scene), DeviceCode::ok) << scene.allocator->last_error();
    EXPECT_EQ(scene.allocator->validate(), "");
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

}  // namespace
}  // namespace tidemark::allocator
