#include "integrations/ci/tolerance_text.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(CiTolerance, IsAPercentageOrASize) {
  EXPECT_EQ(ci::parse_tolerance("2%").value(), (budget::Tolerance{.percent = 2}));
  EXPECT_EQ(ci::parse_tolerance("2.5 %").value(), (budget::Tolerance{.percent = 2.5}));
  EXPECT_EQ(ci::parse_tolerance("0%").value(), (budget::Tolerance{}));
  EXPECT_EQ(ci::parse_tolerance("512MiB").value(), (budget::Tolerance{.bytes = 512 * kMiB}));
}

TEST(CiTolerance, RefusesWhatIsNeither) {
  for (const char* text : {"", "2", "%", "-1%", "1e3%", "1001%", "nan%", "2%%", "2  %", "1.2.3%", "-512MiB", "2GiB/s"})
    EXPECT_FALSE(ci::parse_tolerance(text).ok()) << text;
  EXPECT_EQ(ci::parse_tolerance("2").error().message,
            "'2' is neither a percentage nor a size; write a tolerance like 2% or 512MiB");
}

TEST(CiTolerance, IsShown) {
  EXPECT_EQ(ci::tolerance_text({.percent = 2.5}), "2.5 %");
  EXPECT_EQ(ci::tolerance_text({.bytes = kGiB}), "1.00 GiB");
  EXPECT_EQ(ci::tolerance_text({.percent = 2, .bytes = kGiB}), "2 % or 1.00 GiB");
  EXPECT_EQ(ci::tolerance_text({}), "0 %");
}

}  // namespace
}  // namespace tidemark
