#include "allocator/offset_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "core/bytes.h"

namespace tidemark::allocator {
namespace {

using namespace literals;
using Check = OffsetAllocator::Check;
using Search = OffsetAllocator::Search;

TEST(OffsetAllocator, ServesTheWholeSpaceAndMergesItBack) {
  OffsetAllocator space(64_KiB, 512);
  std::vector<RangeId> taken;
  while (auto range = space.allocate(512)) taken.push_back(range->id);
  EXPECT_EQ(taken.size(), 128U);
  EXPECT_EQ(space.free_bytes(), 0);
  for (const RangeId id : taken) space.free(id);
  EXPECT_EQ(space.validate(Check::full), "");
  EXPECT_EQ(space.largest_free_bound(), 64_KiB);
  EXPECT_TRUE(space.allocate(64_KiB));
}

TEST(OffsetAllocator, RefusesWhatDoesNotFitAndStaysAsItWas) {
  OffsetAllocator space(4_KiB, 512);
  const auto middle = space.allocate_at(1_KiB, 512);
  ASSERT_TRUE(middle);
  EXPECT_FALSE(space.allocate(3_KiB));
  EXPECT_FALSE(space.allocate(Bytes{1} << 62));
  EXPECT_FALSE(space.allocate_at(512, 1_KiB));
  EXPECT_FALSE(space.allocate_at(3_KiB, 2_KiB));
  EXPECT_FALSE(space.mark_absent(1_KiB, 512));
  EXPECT_FALSE(space.mark_present(0, 512));
  EXPECT_EQ(space.validate(Check::full), "");
  EXPECT_EQ(space.used_bytes(), 512);
}

TEST(OffsetAllocator, BeyondFourGibibytesAndAboveSixtyTwoBits) {
  OffsetAllocator space(Bytes{1} << 61, 512);
  const auto large = space.allocate(Bytes{5} << 58);
  ASSERT_TRUE(large);
  const auto small = space.allocate(1);
  ASSERT_TRUE(small);
  EXPECT_GE(small->offset, Bytes{5} << 58);
  EXPECT_EQ(space.validate(Check::full), "");
}

TEST(OffsetAllocator, AlignmentOfTheOffset) {
  OffsetAllocator space(1_MiB, 512);
  ASSERT_TRUE(space.allocate(512));
  for (const Bytes alignment : {1_KiB, 4_KiB, 64_KiB}) {
    const auto range = space.allocate(1536, alignment);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->offset % alignment, 0);
  }
  EXPECT_EQ(space.validate(Check::full), "");
}

TEST(OffsetAllocator, DomainsStayApartUntilTakenTogether) {
  OffsetAllocator space(8_KiB, 512, OffsetAllocator::Initial::absent);
  ASSERT_TRUE(space.mark_present(0, 4_KiB, 1, 7));
  ASSERT_TRUE(space.mark_present(4_KiB, 4_KiB, 2, 9));
  EXPECT_FALSE(space.allocate(8_KiB, 0, 1));
  EXPECT_FALSE(space.allocate(512, 0, 3));
  EXPECT_TRUE(space.others_have_free(1));
  const auto both = space.allocate_at(0, 8_KiB);
  ASSERT_TRUE(both);
  EXPECT_FALSE(space.others_have_free(1));
  const RangeId merged = space.free(both->id, 1, 3);
  EXPECT_FALSE(space.others_have_free(1));
  EXPECT_EQ(space.info(merged).bytes, 8_KiB);
  EXPECT_EQ(space.validate(Check::full), "");
  EXPECT_TRUE(space.allocate(8_KiB, 0, 1));
}

TEST(OffsetAllocator, NeighboursOfOneDomainMergeWithTheLaterStamp) {
  OffsetAllocator space(2_KiB, 512);
  const auto first = space.allocate(1_KiB), second = space.allocate(1_KiB);
  ASSERT_TRUE(first && second);
  (void)space.free(first->id, 1, 7);
  EXPECT_EQ(space.info(space.free(second->id, 1, 3)).stamp, 7U) << "the later death counts for both";
}

TEST(OffsetAllocator, ThoroughSearchMissesNothing) {
  // The only fit is behind many ranges of its own bin that are a little too small.
  OffsetAllocator space(0, 512);
  const Bytes base = 512 * 1024;
  for (int i = 0; i < 40; ++i) {
    space.grow(base + (i == 0 ? 1024 : 0));
    space.grow(512);
    ASSERT_TRUE(space.allocate_at(space.capacity() - 512, 512));
  }
  EXPECT_FALSE(space.allocate(base + 1024, 0, kDefaultDomain, Search::fast));
  EXPECT_TRUE(space.allocate(base + 1024, 0, kDefaultDomain, Search::thorough));
}

// A naive model: one cell a unit.
class Model {
 public:
  enum Cell : std::uint8_t { used, absent, free0, free1, free2 };
  explicit Model(std::size_t units) : cells_(units, free0) {}
  std::vector<std::uint8_t>& cells() { return cells_; }

  [[nodiscard]] bool all(std::size_t from, std::size_t to, const auto& is) const {
    return to <= cells_.size() && std::all_of(cells_.begin() + static_cast<std::ptrdiff_t>(from),
                                              cells_.begin() + static_cast<std::ptrdiff_t>(to), is);
  }
  void set(std::size_t from, std::size_t to, std::uint8_t value) {
    std::fill(cells_.begin() + static_cast<std::ptrdiff_t>(from), cells_.begin() + static_cast<std::ptrdiff_t>(to),
              value);
  }
  [[nodiscard]] std::size_t longest(std::uint8_t value) const {
    std::size_t best = 0, run = 0;
    for (const std::uint8_t cell : cells_) {
      run = cell == value ? run + 1 : 0;
      best = std::max(best, run);
    }
    return best;
  }

 private:
  std::vector<std::uint8_t> cells_;
};

class Driver {
 public:
  explicit Driver(std::uint64_t seed) : random_(seed), space_(kUnits * kUnit, kUnit), model_(kUnits) {}

  void step() {
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
      case 3:
        return allocate();
      case 4:
        return allocate_at();
      case 5:
      case 6:
      case 7:
        return give_back();
      case 8:
        return toggle_absent();
      default:
        return grow();
    }
  }
  void check(Check how) {
    ASSERT_EQ(space_.validate(how), "");
    ASSERT_EQ(space_.capacity(), static_cast<Bytes>(model_.cells().size()) * kUnit);
    std::size_t at = 0;
    for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
      const RangeInfo range = space_.info(id);
      const std::uint8_t cell = range.state == RangeState::used     ? std::uint8_t{Model::used}
                                : range.state == RangeState::absent ? std::uint8_t{Model::absent}
                                                                    : static_cast<std::uint8_t>(2 + range.domain);
      const auto end = at + static_cast<std::size_t>(range.bytes / kUnit);
      ASSERT_TRUE(model_.all(at, end, [cell](std::uint8_t c) { return c == cell; })) << at;
      at = end;
    }
  }

 private:
  static constexpr Bytes kUnit = 256;
  static constexpr std::size_t kUnits = 600;

  void take(const RangeInfo& range) {
    const auto from = static_cast<std::size_t>(range.offset / kUnit);
    model_.set(from, from + static_cast<std::size_t>(range.bytes / kUnit), Model::used);
    live_.push_back(range);
  }
  std::size_t some(std::size_t most) { return 1 + (random_() % 4 == 0 ? random_() % most : random_() % 8); }

  void allocate() {
    const auto units = some(80);
    const auto domain = static_cast<FreeDomain>(random_() % 3);
    const auto value = static_cast<std::uint8_t>(2 + domain);
    const std::size_t longest = model_.longest(value);
    const auto range = space_.allocate(static_cast<Bytes>(units) * kUnit - static_cast<Bytes>(random_() % kUnit), 0,
                                       domain, Search::thorough);
    ASSERT_EQ(range.has_value(), units <= longest) << "thorough search finds a fit exactly when there is one";
    if (!range) return;
    const auto from = static_cast<std::size_t>(range->offset / kUnit);
    ASSERT_EQ(range->bytes, static_cast<Bytes>(units) * kUnit);
    ASSERT_TRUE(model_.all(from, from + units, [value](std::uint8_t c) { return c == value; }));
    take(*range);
  }
  void allocate_at() {
    const auto units = some(40);
    const std::size_t from = random_() % kUnits;
    const bool possible = model_.all(from, from + units, [](std::uint8_t c) { return c >= Model::free0; });
    const auto range = space_.allocate_at(static_cast<Bytes>(from) * kUnit, static_cast<Bytes>(units) * kUnit);
    ASSERT_EQ(range.has_value(), possible);
    if (range) take(*range);
  }
  void give_back() {
    if (live_.empty()) return;
    std::swap(live_[random_() % live_.size()], live_.back());
    const RangeInfo range = live_.back();
    live_.pop_back();
    const auto domain = static_cast<FreeDomain>(random_() % 3);
    space_.free(range.id, domain, random_() % 100);
    const auto from = static_cast<std::size_t>(range.offset / kUnit);
    model_.set(from, from + static_cast<std::size_t>(range.bytes / kUnit), static_cast<std::uint8_t>(2 + domain));
  }
  void toggle_absent() {
    const auto units = some(30);
    const std::size_t from = random_() % kUnits;
    const auto offset = static_cast<Bytes>(from) * kUnit, bytes = static_cast<Bytes>(units) * kUnit;
    const bool is_free = model_.all(from, from + units, [](std::uint8_t c) { return c >= Model::free0; });
    const bool is_absent = model_.all(from, from + units, [](std::uint8_t c) { return c == Model::absent; });
    ASSERT_EQ(space_.mark_absent(offset, bytes), is_free);
    if (is_free) model_.set(from, from + units, Model::absent);
    if (is_free || !is_absent) return;
    ASSERT_TRUE(space_.mark_present(offset, bytes, 1, 5));
    model_.set(from, from + units, Model::free1);
  }
  void grow() {
    const auto units = some(20);
    const std::size_t size = model_.cells().size();
    if (random_() % 2 == 0 || size >= 2 * kUnits) return;
    const auto initial = random_() % 2 == 0 ? OffsetAllocator::Initial::free : OffsetAllocator::Initial::absent;
    space_.grow(static_cast<Bytes>(units) * kUnit, initial, 2);
    model_.cells().resize(size + units, initial == OffsetAllocator::Initial::free ? Model::free2 : Model::absent);
  }

  std::mt19937_64 random_;
  OffsetAllocator space_;
  Model model_;
  std::vector<RangeInfo> live_;
};

TEST(OffsetAllocator, AgreesWithANaiveModelOverRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Driver driver(seed);
    for (int i = 0; i < 5'000; ++i) {
      driver.step();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
      if (i % 16 == 0) driver.check(i % 256 == 0 ? Check::full : Check::links);
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " after step " << i;
    }
  }
}

}  // namespace
}  // namespace tidemark::allocator
