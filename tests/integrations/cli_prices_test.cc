// The table of prices of switches on the command line.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

nlohmann::json prices_of(const Workplace& place, const std::string& model) {
  const Ran ran = place.run({"simulate", model, "--prices", "--format", "json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  return parsed(ran.out);
}

TEST(Prices, OfEverySwitchHaveBothSidesOrAReason) {
  const Workplace place;
  const auto table = prices_of(place, small_model());
  EXPECT_EQ(table["time_is"], "modelled");
  EXPECT_GT(table["own"]["step_ms"].get<double>(), 0);
  std::set<std::string> names;
  int priced = 0;
  for (const auto& price : table["prices"]) {
    EXPECT_TRUE(names.insert(price["switch"]).second) << price["switch"];
    EXPECT_FALSE(price["constant"].get<std::string>().empty()) << price["switch"];
    EXPECT_EQ(price["off"].is_null(), price["on"].is_null());
    EXPECT_EQ(price["off"].is_null(), !price["why_not"].is_null());
    if (price["on"].is_null()) continue;
    ++priced;
    const double off = price["off"]["step_ms"], on = price["on"]["step_ms"], gain = price["gain_percent"];
    EXPECT_NEAR(gain, 100 * (off - on) / off, 1e-6) << price["switch"];
  }
  EXPECT_EQ(names.size(), 21U);
  EXPECT_GE(priced, 18);
}

/// The switches that the job has on stand on that side.
TEST(Prices, TakeTheJobAsItIs) {
  const Workplace place;
  const auto table = prices_of(place, small_model());
  const double own = table["own"]["step_ms"];
  for (const auto& price : table["prices"]) {
    const bool is_own = price["switch"] == "forward beside backward" || price["switch"] == "fused RMSNorm";
    if (is_own) {
      EXPECT_EQ(price["on"]["step_ms"], own) << price["switch"];
    }
  }
}

TEST(Prices, AreATableWithItsSources) {
  const Workplace place;
  const Ran ran = place.run({"simulate", small_model(), "--prices"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* part :
       {"gain %", "fused RMSNorm", "zero bubble V (ZBV)", "Where the constants come from", "modelled"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
  EXPECT_EQ(ran.out, place.run({"simulate", small_model(), "--prices", "--threads", "1"}).out);
}

}  // namespace
}  // namespace tidemark::testing
