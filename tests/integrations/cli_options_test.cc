// The readers of option values, without a process.

#include <gtest/gtest.h>

#include "integrations/cli/options.h"
#include "integrations/cli/progress.h"

namespace tidemark::cli {
namespace {

TEST(Ranks, ListsAndRanges) {
  EXPECT_EQ(parse_ranks("3").value(), (std::vector<std::int32_t>{3}));
  EXPECT_EQ(parse_ranks("0-3,15").value(), (std::vector<std::int32_t>{0, 1, 2, 3, 15}));
  EXPECT_EQ(parse_ranks("5,1,1-2").value(), (std::vector<std::int32_t>{1, 2, 5}));
  for (const char* bad : {"", ",", "1,", "1-", "-1", "2-1", "a", "1 2", "0x1", "1-2-3", "70000", "99999999999"})
    EXPECT_FALSE(parse_ranks(bad).ok()) << bad;
}

TEST(ExpertLoad, NumberOrQuantile) {
  EXPECT_EQ(parse_imbalance("1.5").value().load, 1.5);
  EXPECT_EQ(parse_imbalance("1e-2").value().load, 0.01);
  EXPECT_FALSE(parse_imbalance("1.5").value().quantile.has_value());
  EXPECT_DOUBLE_EQ(parse_imbalance("p99.9").value().quantile.value(), 0.999);
  EXPECT_FALSE(parse_imbalance("p99").value().load.has_value());
  for (const char* bad :
       {"", "p", "0", "-0", "-1", "nan", "inf", "-inf", "1e9", "1e999", "1.5x", "p0", "p100", "p-5", "pnan"})
    EXPECT_FALSE(parse_imbalance(bad).ok()) << bad;
}

TEST(MarginOption, SizeOrShare) {
  EXPECT_EQ(Margin{}.of(1000), 30);
  EXPECT_EQ(parse_margin("512MiB").value().of(kTiB), 512 * kMiB);
  EXPECT_EQ(parse_margin("5%").value().of(1000), 50);
  EXPECT_EQ(parse_margin("2.5 %").value().of(1000), 25);
  EXPECT_EQ(parse_margin("0%").value().of(kTiB), 0);
  for (const char* bad : {"", "%", "3", "-1%", "101%", "nan%", "5GB/s"}) EXPECT_FALSE(parse_margin(bad).ok()) << bad;
}

TEST(Numbers, WholeTextAndFinite) {
  EXPECT_EQ(parse_number("0.5").value(), 0.5);
  for (const char* bad : {"", " 1", "1 ", "+1", "1,5", "inf", "nan", "1e999"})
    EXPECT_FALSE(parse_number(bad).ok()) << bad;
}

TEST(ProgressLine, KeepsItsWidth) {
  const std::size_t width = progress_line("planning", 0, 10).size();
  for (int done = 0; done <= 9; ++done) EXPECT_EQ(progress_line("planning", done, 10).size(), width);
  EXPECT_EQ(progress_line("x", 0, 2), "x [..............................] 0/2");
  EXPECT_EQ(progress_line("x", 1, 2), "x [###############...............] 1/2");
  EXPECT_EQ(progress_line("x", 2, 2), "x [##############################] 2/2");
}

}  // namespace
}  // namespace tidemark::cli
