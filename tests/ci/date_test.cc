#include "integrations/ci/date.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(CiDate, ReadsWhatItWrites) {
  for (const char* text : {"2026-12-31", "2024-02-29", "0001-01-01", "9999-12-31"})
    EXPECT_EQ(ci::date_text(ci::parse_date(text).value()), text);
}

TEST(CiDate, RefusesWhatIsNoDay) {
  for (const char* text : {"", "2026", "2026-1-1", "2026/12/31", "2025-02-29", "2026-13-01", "2026-00-10", "2026-04-31",
                           "2026-12-31 ", "+026-12-31", "20 6-12-31"})
    EXPECT_FALSE(ci::parse_date(text).ok()) << text;
  EXPECT_EQ(ci::parse_date("31.12.2026").error().message, "'31.12.2026' is not a day; write it like 2026-12-31");
  EXPECT_EQ(ci::parse_date("2026-02-30").error().message, "'2026-02-30' is a day that no calendar has");
}

TEST(CiDate, IsOrdered) {
  EXPECT_LT(ci::parse_date("2026-01-31").value(), ci::parse_date("2026-02-01").value());
  EXPECT_LT(ci::parse_date("2025-12-31").value(), ci::parse_date("2026-01-01").value());
}

}  // namespace
}  // namespace tidemark
