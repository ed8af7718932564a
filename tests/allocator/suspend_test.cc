// Memory that goes and comes back at the same addresses (CachingAllocator::suspend), on the host device, whose blocks
// hold bytes, and on the simulated one, which checks for races and leaks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/forwarding_device.h"
#include "device/host_device.h"
#include "device/sim_device.h"
#include "tests/support/host_memory.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;
using Contents = CachingAllocator::Contents;

/// Refuses one call: the `countdown`-th of the kind named by `call`, or has no host memory for its own books there.
/// Counts pinned blocks.
class RefusingDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  enum class Call { none, map, unmap, alias, copy, allocate_pinned };

  void refuse(Call call, int countdown, bool throws = false) {
    call_ = call;
    countdown_ = countdown;
    throws_ = throws;
  }
  [[nodiscard]] int pinned_blocks() const { return pinned_blocks_; }
  [[nodiscard]] bool refused() const { return call_ == Call::none; }

  DeviceCode map(Address at, Bytes bytes) override {
    return now(Call::map) ? DeviceCode::out_of_memory : ForwardingDevice::map(at, bytes);
  }
  DeviceCode unmap(Address at, Bytes bytes) override {
    return now(Call::unmap) ? DeviceCode::no_resource : ForwardingDevice::unmap(at, bytes);
  }
  DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return now(Call::alias) ? DeviceCode::no_resource : ForwardingDevice::alias(at, source, bytes);
  }
  DeviceCode allocate_pinned(Bytes bytes, Address& address) override {
    if (now(Call::allocate_pinned)) return DeviceCode::out_of_memory;
    const DeviceCode code = ForwardingDevice::allocate_pinned(bytes, address);
    pinned_blocks_ += code == DeviceCode::ok ? 1 : 0;
    return code;
  }
  DeviceCode free_pinned(Address address) override {
    const DeviceCode code = ForwardingDevice::free_pinned(address);
    pinned_blocks_ -= code == DeviceCode::ok ? 1 : 0;
    return code;
  }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    return now(Call::copy) ? DeviceCode::copy_failed : ForwardingDevice::copy(stream, to, from, bytes, kind, id);
  }

 private:
  bool now(Call call) {
    if (call != call_ || countdown_-- > 0) return false;
    call_ = Call::none;
    if (throws_) throw std::bad_alloc();
    return true;
  }
  Call call_ = Call::none;
  int countdown_ = 0;
  bool throws_ = false;
  int pinned_blocks_ = 0;
};

class SuspendTest : public testing::TestWithParam<const char*> {
 protected:
  void open(AllocatorOptions options = {}, Bytes capacity = 256 * kMiB) {
    const bool on_host = std::string_view(GetParam()) == "host";
    if (on_host) {
      device_ = open_host({.capacity_bytes = capacity});
    } else {
      auto sim = make_sim_device({.capacity_bytes = capacity});
      sim_ = sim.get();
      device_ = std::move(sim);
    }
    ASSERT_NE(device_, nullptr);
    refusing_ = std::make_unique<RefusingDevice>(*device_);
    has_bytes_ = on_host;
    ASSERT_EQ(device_->create_stream(StreamRole::compute, stream_), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*refusing_, order_, std::move(options));
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    EXPECT_EQ(allocator_->validate(), "");
    allocator_.reset();
    EXPECT_EQ(device_->destroy_stream(stream_), DeviceCode::ok);
    EXPECT_EQ(free_bytes(), total_bytes()) << "the device has everything back";
    if (sim_ == nullptr) return;
    EXPECT_EQ(sim_->race_count(), 0) << (sim_->races().empty() ? "" : to_string(sim_->races().front()));
    EXPECT_EQ(sim_->leaks(), "");
  }

  Address allocate(Bytes bytes) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, stream_, address), DeviceCode::ok) << allocator_->last_error();
    fill(address, bytes);
    live_[address] = bytes;
    return address;
  }
  void free(Address address) {
    EXPECT_EQ(allocator_->free(address), DeviceCode::ok) << allocator_->last_error();
    live_.erase(address);
  }
  static constexpr Bytes kStride = 61;  ///< every cache line is looked at; pages go and come as a whole
  /// Bytes that tell every block and place apart.
  static unsigned char byte_at(Address address, Bytes i) {
    return static_cast<unsigned char>((address >> 9) * 31 + static_cast<Address>(i) * 7 + 1);
  }
  void fill(Address address, Bytes bytes) {
    if (!has_bytes_) return;
    auto* at = reinterpret_cast<unsigned char*>(address);
    for (Bytes i = 0; i < bytes; i += kStride) at[i] = byte_at(address, i);
  }
  /// How many of the live blocks hold what was written to them.
  std::size_t whole() {
    std::size_t count = 0;
    for (const auto& [address, bytes] : live_) {
      const auto* at = reinterpret_cast<const unsigned char*>(address);
      bool well = true;
      for (Bytes i = 0; has_bytes_ && well && i < bytes; i += kStride) well = at[i] == byte_at(address, i);
      count += well ? 1 : 0;
    }
    return count;
  }
  void use_all() {
    for (const auto& [address, bytes] : live_) {
      const Touch touch{.address = address, .bytes = bytes, .kind = AccessKind::write};
      ASSERT_EQ(device_->launch(stream_, {.estimate_ns = 1000, .touches = {&touch, 1}}), DeviceCode::ok);
    }
  }
  Bytes reserved() const { return allocator_->statistics().reserved_bytes.current; }
  Bytes free_bytes() const { return memory().free_bytes; }
  Bytes total_bytes() const { return memory().total_bytes; }
  MemoryInfo memory() const {
    MemoryInfo info;
    EXPECT_EQ(device_->memory_info(info), DeviceCode::ok);
    return info;
  }
  /// A block that lies in a window over two holes (stitching.h).
  Address stitched() {
    std::vector<Address> small;
    for (int i = 0; i < 8; ++i) small.push_back(allocate(1536_KiB));
    for (const std::size_t i : {1U, 3U}) free(small[i]);
    const Address made = allocate(2560_KiB);
    EXPECT_EQ(allocator_->statistics().stitched_windows, 1);
    return made;
  }

  SimDevice* sim_ = nullptr;
  std::unique_ptr<Device> device_;
  std::unique_ptr<RefusingDevice> refusing_;
  StreamOrder order_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle stream_ = {};
  bool has_bytes_ = false;
  std::map<Address, Bytes> live_;
};

INSTANTIATE_TEST_SUITE_P(On, SuspendTest, testing::Values("host", "sim"),
                         [](const auto& on) { return std::string(on.param); });

TEST_P(SuspendTest, MemoryGoesAndComesBackAtTheSameAddresses) {
  open();
  for (const Bytes bytes : {3_MiB, 100_KiB, 40_MiB, 1_KiB}) allocate(bytes);
  free(allocate(8_MiB));
  use_all();
  ASSERT_GE(reserved(), 43_MiB);
  ASSERT_EQ(allocator_->suspend(), DeviceCode::ok) << allocator_->last_error();
  EXPECT_TRUE(allocator_->suspended());
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(free_bytes(), total_bytes()) << "live blocks have no memory either";
  EXPECT_EQ(allocator_->validate(), "");
  EXPECT_EQ(allocator_->statistics().cached_bytes, 0);
  EXPECT_EQ(allocator_->suspend(), DeviceCode::ok) << "already";
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
  EXPECT_FALSE(allocator_->suspended());
  EXPECT_EQ(allocator_->resume(), DeviceCode::ok) << "already";
  EXPECT_GE(reserved(), 43_MiB);
  EXPECT_LE(reserved(), 46_MiB) << "what was idle stays away";
  EXPECT_EQ(total_bytes() - free_bytes(), reserved());
  for (const auto& [address, bytes] : live_) {
    EXPECT_GE(allocator_->block_bytes(address), bytes);
    fill(address, bytes);
  }
  EXPECT_EQ(whole(), live_.size());
  use_all();
  allocate(5_MiB);
}

TEST_P(SuspendTest, ContentsComeBackWhereTheyWereKept) {
  open();
  for (const Bytes bytes : {3_MiB, 100_KiB, 17_MiB, 1_KiB}) allocate(bytes);
  use_all();
  ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok) << allocator_->last_error();
  EXPECT_EQ(free_bytes(), total_bytes());
  EXPECT_GE(allocator_->kept_bytes(), 20_MiB);
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
  EXPECT_EQ(allocator_->kept_bytes(), 0);
  EXPECT_EQ(whole(), live_.size());
}

TEST_P(SuspendTest, WhileSuspendedAllocationsAreRefusedAndFreesAreTaken) {
  open();
  const Address small = allocate(64_KiB), large = allocate(20_MiB), kept = allocate(3_MiB);
  ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
  Address address = 0;
  EXPECT_EQ(allocator_->allocate(64_KiB, stream_, address), DeviceCode::invalid);
  EXPECT_NE(allocator_->last_error().find("suspended"), std::string::npos);
  free(small);
  free(large);
  EXPECT_EQ(allocator_->free(large), DeviceCode::invalid) << "a second time";
  EXPECT_EQ(allocator_->allocate(64_KiB, stream_, address), DeviceCode::invalid) << "nor what was just freed";
  EXPECT_EQ(allocator_->allocate(20_MiB, stream_, address), DeviceCode::invalid);
  EXPECT_EQ(allocator_->trim(), 0);
  EXPECT_EQ(allocator_->empty_cache(), 0);
  EXPECT_EQ(allocator_->defragment(stream_), 0);
  EXPECT_EQ(allocator_->validate(), "");
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
  EXPECT_LE(reserved(), 6_MiB) << "what was freed meanwhile gets no memory";
  EXPECT_GE(allocator_->block_bytes(kept), 3_MiB);
  EXPECT_EQ(whole(), live_.size());
  allocate(20_MiB);
}

TEST_P(SuspendTest, ABlockStitchedOfHolesComesBackInItsWindow) {
  open({.growth_slack_bytes = 1});
  const Address window = stitched();
  use_all();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
    EXPECT_EQ(free_bytes(), total_bytes()) << "no window keeps memory alive";
    EXPECT_EQ(allocator_->validate(), "");
    ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(whole(), live_.size());
    fill(window, 2560_KiB);
    EXPECT_EQ(whole(), live_.size()) << "the window shows nobody else's bytes";
  }
  free(window);
  EXPECT_EQ(allocate(2560_KiB), window) << "used again";
  ASSERT_EQ(allocator_->suspend(), DeviceCode::ok);
  free(window);
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
  EXPECT_EQ(allocator_->validate(), "");
  allocate(1536_KiB);
}

TEST_P(SuspendTest, OutOfMemoryOnResumeLeavesItSuspendedAndWhole) {
  open({}, 64_MiB);
  allocate(40_MiB);
  allocate(3_MiB);
  ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
  Address other = 0;
  ASSERT_EQ(device_->allocate_plain(32_MiB, other), DeviceCode::ok) << "what another one takes meanwhile";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(allocator_->resume(), DeviceCode::out_of_memory);
    EXPECT_NE(allocator_->last_error().find("stays suspended"), std::string::npos);
    EXPECT_TRUE(allocator_->suspended());
    EXPECT_EQ(reserved(), 0);
    EXPECT_EQ(free_bytes(), 32_MiB) << "nothing stays mapped";
    EXPECT_EQ(allocator_->validate(), "");
  }
  ASSERT_EQ(device_->free_plain(other), DeviceCode::ok);
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
  EXPECT_EQ(whole(), live_.size());
}

TEST_P(SuspendTest, TheLimitHoldsOnResume) {
  open();
  allocate(40_MiB);
  ASSERT_EQ(allocator_->suspend(), DeviceCode::ok);
  allocator_->set_limit(20_MiB);
  EXPECT_EQ(allocator_->resume(), DeviceCode::out_of_memory);
  allocator_->set_limit(40_MiB);
  EXPECT_EQ(allocator_->resume(), DeviceCode::ok);
}

TEST_P(SuspendTest, AFailureAtAnyCallOfResumeLosesNothing) {
  using Call = RefusingDevice::Call;
  open({.growth_slack_bytes = 1});
  stitched();
  allocate(9_MiB);
  for (const Call call : {Call::map, Call::alias, Call::copy}) {
    for (int skip = 0;; ++skip) {
      ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok) << allocator_->last_error();
      refusing_->refuse(call, skip);
      const DeviceCode code = allocator_->resume();
      EXPECT_EQ(allocator_->validate(), "");
      const bool refused = refusing_->refused();
      refusing_->refuse(Call::none, 0);
      if (!refused) {
        EXPECT_EQ(code, DeviceCode::ok);
        break;
      }
      EXPECT_NE(code, DeviceCode::ok);
      EXPECT_EQ(free_bytes(), total_bytes());
      ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
      ASSERT_EQ(whole(), live_.size());
      ASSERT_LT(skip, 100);
    }
  }
}

TEST_P(SuspendTest, WithoutPinnedMemoryForTheContentsNothingChanges) {
  using Call = RefusingDevice::Call;
  open();
  allocate(9_MiB);
  for (const Call call : {Call::allocate_pinned, Call::copy}) {
    refusing_->refuse(call, 0);
    EXPECT_NE(allocator_->suspend(Contents::keep), DeviceCode::ok);
    EXPECT_FALSE(allocator_->suspended());
    EXPECT_EQ(whole(), live_.size());
    allocate(1_MiB);
  }
}

/// Two shards have blocks. What the first one's hold is saved, and then there is no memory for the second.
TEST_P(SuspendTest, ASecondSaveThatFailsChangesNothing) {
  using Call = RefusingDevice::Call;
  open();
  allocate(9_MiB);
  std::thread([this] { allocate(7_MiB); }).join();
  const Bytes before = reserved();
  const auto fails = [&](Call call, bool throws) {
    refusing_->refuse(call, 1, throws);
    const DeviceCode code = allocator_->suspend(Contents::keep);
    EXPECT_TRUE(refusing_->refused()) << "there was but one save";
    EXPECT_FALSE(allocator_->suspended());
    EXPECT_EQ(allocator_->kept_bytes(), 0);
    EXPECT_EQ(refusing_->pinned_blocks(), 0) << "what was saved goes, too";
    EXPECT_EQ(reserved(), before);
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(whole(), live_.size());
    return code;
  };
  EXPECT_EQ(fails(Call::allocate_pinned, false), DeviceCode::out_of_memory);
  EXPECT_EQ(fails(Call::copy, false), DeviceCode::copy_failed);
  EXPECT_EQ(fails(Call::allocate_pinned, true), DeviceCode::no_resource);
  EXPECT_EQ(fails(Call::copy, true), DeviceCode::no_resource);
  EXPECT_EQ(allocator_->last_error(), "no host memory");
  free(allocate(1_MiB));
  ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok) << allocator_->last_error();
  EXPECT_EQ(free_bytes(), total_bytes());
  EXPECT_EQ(refusing_->pinned_blocks(), 2);
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
  EXPECT_EQ(refusing_->pinned_blocks(), 0);
  EXPECT_EQ(whole(), live_.size());
}

TEST_P(SuspendTest, WhatTheDeviceDoesNotTakeBackStaysReservedAndWhole) {
  open({.growth_slack_bytes = 1});
  stitched();
  allocate(9_MiB);
  for (int skip = 0; skip < 6; ++skip) {
    refusing_->refuse(RefusingDevice::Call::unmap, skip);  // the repetition succeeds
    ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
    refusing_->refuse(RefusingDevice::Call::none, 0);
    EXPECT_EQ(allocator_->validate(), "");
    ASSERT_EQ(allocator_->resume(), DeviceCode::ok) << allocator_->last_error();
    ASSERT_EQ(whole(), live_.size());
  }
}

TEST_P(SuspendTest, EndsWellWhileSuspended) {
  open({.growth_slack_bytes = 1});
  stitched();
  ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
}

TEST_P(SuspendTest, PlainBlocksStay) {
  open();
  Address plain = 0;
  ASSERT_EQ(allocator_->allocate_plain(3_MiB, stream_, plain), DeviceCode::ok);
  allocate(9_MiB);
  ASSERT_EQ(allocator_->suspend(), DeviceCode::ok);
  EXPECT_EQ(total_bytes() - free_bytes(), reserved());
  EXPECT_GE(reserved(), 3_MiB);
  EXPECT_EQ(allocator_->free(plain), DeviceCode::ok);
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
}

TEST_P(SuspendTest, RandomProgramsKeepEveryByte) {
  open({.growth_slack_bytes = 1});
  const Soak soak;  // tests/support/soak.h
  std::mt19937_64 random(Soak::seed(7));
  for (int step = 0; soak.goes_on(step, 300); ++step) {
    const auto pick = random() % 8;
    if (pick == 0) {
      ASSERT_EQ(allocator_->suspend(Contents::keep), DeviceCode::ok);
    } else if (pick <= 2) {
      ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
    } else if (pick <= 4 && !live_.empty()) {
      free(std::next(live_.begin(), static_cast<std::ptrdiff_t>(random() % live_.size()))->first);
    } else if (!allocator_->suspended() && live_.size() < 30) {
      allocate(static_cast<Bytes>(1 + random() % (random() % 4 == 0 ? 6'000'000U : 60'000U)));
    }
    if (step % 10 != 0) continue;
    ASSERT_EQ(allocator_->validate(), "");
    if (!allocator_->suspended()) {
      ASSERT_EQ(whole(), live_.size()) << step;
    }
  }
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
  EXPECT_EQ(whole(), live_.size());
}

TEST(SuspendWithoutMapping, IsUnsupported) {
  auto device = make_sim_device({.mapping = false});
  StreamOrder order;
  CachingAllocator allocator(*device, order);
  EXPECT_EQ(allocator.suspend(), DeviceCode::unsupported);
  EXPECT_FALSE(allocator.suspended());
  EXPECT_EQ(allocator.resume(), DeviceCode::ok);
}

}  // namespace
}  // namespace tidemark::allocator
