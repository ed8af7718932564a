// Every protocol of the tables: the broken one is caught under every schedule, by name of both sides and of what is
// missing, and under some schedule its bytes come out wrong; the corrected one is clean, bytes and order, under a
// thousand.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/regression/protocol.h"

namespace tidemark {

void PrintTo(const Protocol& protocol, std::ostream* out) {
  *out << protocol.source;
}

namespace {

constexpr std::uint64_t kSchedules = 1000;
constexpr std::uint64_t kBrokenSchedules = 200;

std::vector<Protocol> all_protocols() {
  std::vector<Protocol> all;
  for (const auto list : {offload_protocols(), allocator_protocols()}) all.insert(all.end(), list.begin(), list.end());
  return all;
}

class ShippedRace : public ::testing::TestWithParam<Protocol> {};

TEST_P(ShippedRace, IsCaughtAndItsCorrectionIsClean) {
  const Protocol& p = GetParam();
  std::uint64_t garbled = 0;
  for (std::uint64_t seed = 0; seed < kBrokenSchedules; ++seed) {
    Stage stage(seed);
    for (int i = 0; i < 2; ++i) p.step(stage, false);
    garbled += stage.rig().mismatches() > 0 ? 1U : 0U;
    ASSERT_GT(stage.device().race_count(), 0) << "seed " << seed;
    const std::vector<RaceReport> reports = stage.device().races();
    const bool named = std::any_of(reports.begin(), reports.end(), [&](const RaceReport& r) {
      return r.earlier.actor == p.earlier && r.later.actor == p.later &&
             r.missing_edge.find(p.missing) != std::string::npos;
    });
    ASSERT_TRUE(named) << "seed " << seed << ": " << to_string(reports.front());
  }
  if (p.garbles) {
    EXPECT_GT(garbled, 0U) << "no schedule lets it strike";
  }
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    Stage stage(seed);
    for (int i = 0; i < 2; ++i) p.step(stage, true);
    ASSERT_EQ(stage.device().race_count(), 0) << "seed " << seed << ": " << to_string(stage.device().races().front());
    ASSERT_EQ(stage.rig().mismatches(), 0) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, ShippedRace, ::testing::ValuesIn(all_protocols()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tidemark
