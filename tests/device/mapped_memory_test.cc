// Mapped memory over whole handles: random calls with random vendor failures against a model that knows which physical
// granule stands at which address.

#include "device/mapped_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace tidemark {
namespace {

constexpr Bytes kGranule = 4096;

/// A vendor that keeps books, refuses what vendors refuse, and fails when told to.
class BookKeepingVendor final : public GranuleVendor {
 public:
  explicit BookKeepingVendor(bool aliasing) : aliasing_(aliasing) {}

  /// The call that comes after `calls` more answers no_resource, once.
  void fail_after(int calls) { countdown_ = calls; }
  [[nodiscard]] bool failed() const { return countdown_ < 0; }
  void calm() { countdown_ = kNever; }

  DeviceCode reserve_range(Bytes bytes, Address& base) override {
    if (fails()) return DeviceCode::no_resource;
    base = next_base_;
    next_base_ += static_cast<Address>(2 * bytes);
    ++ranges;
    return DeviceCode::ok;
  }
  DeviceCode release_range(Address, Bytes) override {
    if (fails()) return DeviceCode::no_resource;
    --ranges;
    return DeviceCode::ok;
  }
  DeviceCode create_granule(std::uint64_t& handle) override {
    if (fails()) return DeviceCode::no_resource;
    handle = ++next_handle_;
    live.insert(handle);
    return DeviceCode::ok;
  }
  DeviceCode destroy_granule(std::uint64_t handle) override {
    if (keeps_handles) return DeviceCode::no_resource;
    for (const auto& [at, attached] : attached_at) EXPECT_NE(attached, handle) << "destroyed while attached";
    EXPECT_EQ(live.erase(handle), 1U);
    return DeviceCode::ok;
  }
  DeviceCode attach_granule(Address at, std::uint64_t handle) override {
    if (fails()) return DeviceCode::no_resource;
    EXPECT_TRUE(live.count(handle) == 1 && attached_at.count(at) == 0);
    for (const auto& [other, attached] : attached_at) EXPECT_TRUE(aliasing_ || attached != handle) << "two addresses";
    attached_at[at] = handle;
    return DeviceCode::ok;
  }
  DeviceCode detach_granule(Address at) override {
    if (fails()) return DeviceCode::no_resource;
    allowed.erase(at);
    EXPECT_EQ(attached_at.erase(at), 1U);
    return DeviceCode::ok;
  }
  DeviceCode allow_range(Address at, Bytes bytes) override {
    if (fails()) return DeviceCode::no_resource;
    for (Address end = at + static_cast<Address>(bytes); at < end; at += kGranule) allowed.insert(at);
    return DeviceCode::ok;
  }
  DeviceCode refuse(DeviceCode code, std::string text) override {
    EXPECT_NE(text, "");
    return code;
  }

  std::map<Address, std::uint64_t> attached_at;
  std::set<Address> allowed;
  std::set<std::uint64_t> live;
  int ranges = 0;
  bool keeps_handles = false;  ///< destroy_granule() fails

 private:
  static constexpr int kNever = 1'000'000'000;
  [[nodiscard]] bool fails() { return countdown_-- == 0; }

  const bool aliasing_;
  int countdown_ = kNever;
  Address next_base_ = 1 << 20;
  std::uint64_t next_handle_ = 0;
};

class MappedMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  MappedMemoryTest() { memory_.set_granule(kGranule); }
  ~MappedMemoryTest() override { vendor_.calm(); }

  /// Every attached granule is accessible, every live handle attached somewhere.
  void expect_consistent() const {
    std::set<std::uint64_t> attached;
    for (const auto& [at, handle] : vendor_.attached_at) {
      EXPECT_EQ(vendor_.allowed.count(at), 1U);
      attached.insert(handle);
    }
    EXPECT_EQ(attached, vendor_.live);
  }

  BookKeepingVendor vendor_{GetParam()};
  MappedMemory memory_{vendor_, GetParam()};
};

TEST_P(MappedMemoryTest, RandomCallsWithFailuresFollowTheModel) {
  std::mt19937 random(GetParam() ? 11 : 12);
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  constexpr int kPlaces = 12;
  Address base = 0;
  ASSERT_EQ(memory_.reserve(kPlaces * kGranule, base), DeviceCode::ok);
  int done = 0, failed = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int kind = below(4), count = 1 + below(4), to = below(kPlaces), from = below(kPlaces);
    const Address at = base + static_cast<Address>(to * kGranule);
    const Address source = base + static_cast<Address>(from * kGranule);
    const auto before = vendor_.attached_at;
    const auto live = vendor_.live;
    if (below(4) == 0) vendor_.fail_after(below(2 * count + 2));
    const DeviceCode code = kind == 0   ? memory_.map(at, count * kGranule)
                            : kind == 1 ? memory_.unmap(at, count * kGranule)
                            : kind == 2 ? memory_.alias(at, source, count * kGranule)
                                        : memory_.remap(at, source, count * kGranule);
    const bool was_failed = vendor_.failed();
    vendor_.calm();
    auto expected = before;
    bool valid = to + count <= kPlaces && (kind < 2 || from + count <= kPlaces) && (kind != 2 || GetParam());
    for (int i = 0; i < count && valid; ++i) {
      const Address here = at + static_cast<Address>(i * kGranule), there = source + static_cast<Address>(i * kGranule);
      valid = (before.count(here) != 0) == (kind == 1) && (kind < 2 || before.count(there) != 0);
      if (kind == 1) expected.erase(here);
      if (kind == 2 && valid) expected[here] = before.at(there);
      if (kind == 3 && valid) {
        expected[here] = before.at(there);
        expected.erase(there);
      }
    }
    if (!valid) {
      ASSERT_EQ(code, kind == 2 && !GetParam() ? DeviceCode::unsupported : DeviceCode::invalid) << round;
      ASSERT_EQ(vendor_.attached_at, before) << round;
      ++refused;
    } else if (was_failed && code != DeviceCode::ok) {
      ASSERT_EQ(vendor_.attached_at, before) << round;
      ASSERT_EQ(vendor_.live, live) << round;
      ++failed;
    } else {
      ASSERT_EQ(code, DeviceCode::ok) << round;
      if (kind == 0) {
        for (int i = 0; i < count; ++i)
          ASSERT_EQ(vendor_.attached_at.count(at + static_cast<Address>(i * kGranule)), 1U);
      } else {
        ASSERT_EQ(vendor_.attached_at, expected) << round;
      }
      ++done;
    }
    expect_consistent();
  }
  EXPECT_GT(done, 1000);
  EXPECT_GT(failed, 100);
  EXPECT_GT(refused, 1000);
  memory_.clear();
  EXPECT_TRUE(vendor_.live.empty());
  EXPECT_TRUE(vendor_.attached_at.empty());
  EXPECT_EQ(vendor_.ranges, 0);
}

TEST_P(MappedMemoryTest, AFailedUnmapMayBeTriedAgain) {
  Address base = 0;
  ASSERT_EQ(memory_.reserve(4 * kGranule, base), DeviceCode::ok);
  ASSERT_EQ(memory_.map(base, 4 * kGranule), DeviceCode::ok);
  for (int calls = 0; calls < 4; ++calls) {
    vendor_.fail_after(calls);
    EXPECT_EQ(memory_.unmap(base, 4 * kGranule), DeviceCode::no_resource);
    EXPECT_EQ(vendor_.attached_at.size(), 4U) << "whole, not half gone";
    expect_consistent();
  }
  EXPECT_EQ(memory_.unmap(base, 4 * kGranule), DeviceCode::ok);
  EXPECT_TRUE(vendor_.live.empty());
}

TEST_P(MappedMemoryTest, HandlesTheVendorWouldNotDestroyAreUsedAgain) {
  Address base = 0;
  ASSERT_EQ(memory_.reserve(4 * kGranule, base), DeviceCode::ok);
  ASSERT_EQ(memory_.map(base, 3 * kGranule), DeviceCode::ok);
  vendor_.keeps_handles = true;
  ASSERT_EQ(memory_.unmap(base, 3 * kGranule), DeviceCode::ok) << "the addresses are free";
  EXPECT_EQ(vendor_.live.size(), 3U);
  ASSERT_EQ(memory_.map(base, 2 * kGranule), DeviceCode::ok);
  EXPECT_EQ(vendor_.live.size(), 3U) << "none was made";
  vendor_.keeps_handles = false;
  ASSERT_EQ(memory_.unmap(base, kGranule), DeviceCode::ok);
  EXPECT_EQ(vendor_.live.size(), 1U) << "the spare one went along";
  expect_consistent();
}

TEST_P(MappedMemoryTest, AFailureInTheMiddleOfAMoveIsUndone) {
  Address base = 0;
  ASSERT_EQ(memory_.reserve(4 * kGranule, base), DeviceCode::ok);
  ASSERT_EQ(memory_.map(base, 2 * kGranule), DeviceCode::ok);
  const auto before = vendor_.attached_at;
  vendor_.fail_after(GetParam() ? 4 : 1);  // the second detach; the way back then works
  EXPECT_EQ(memory_.remap(base + 2 * kGranule, base, 2 * kGranule), DeviceCode::no_resource);
  EXPECT_EQ(vendor_.attached_at, before);
  expect_consistent();
}

TEST_P(MappedMemoryTest, RefusesWhatIsNotGranularOrNotReserved) {
  Address base = 0;
  EXPECT_EQ(memory_.reserve(kGranule + 1, base), DeviceCode::invalid);
  EXPECT_EQ(memory_.reserve(0, base), DeviceCode::invalid);
  ASSERT_EQ(memory_.reserve(2 * kGranule, base), DeviceCode::ok);
  EXPECT_EQ(memory_.map(base + 1, kGranule), DeviceCode::invalid);
  EXPECT_EQ(memory_.map(base, kGranule / 2), DeviceCode::invalid);
  EXPECT_EQ(memory_.map(base, -kGranule), DeviceCode::invalid);
  EXPECT_EQ(memory_.map(base + kGranule, 2 * kGranule), DeviceCode::invalid);
  EXPECT_EQ(memory_.map(base - kGranule, kGranule), DeviceCode::invalid);
  EXPECT_EQ(memory_.release(base, kGranule), DeviceCode::invalid);
  EXPECT_EQ(memory_.release(base, 2 * kGranule), DeviceCode::ok);
  EXPECT_EQ(memory_.release(base, 2 * kGranule), DeviceCode::invalid);
}

INSTANTIATE_TEST_SUITE_P(Vendors, MappedMemoryTest, ::testing::Bool(),
                         [](const auto& vendor) { return vendor.param ? "Aliasing" : "OneAddressEach"; });

}  // namespace
}  // namespace tidemark
