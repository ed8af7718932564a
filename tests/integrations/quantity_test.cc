#include "integrations/formats/quantity.h"

#include <gtest/gtest.h>

#include <string>

namespace tidemark {
namespace {

TEST(ParseQuantity, KnowsEveryUnit) {
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("5B/s").value(), 5);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("5KB/s").value(), 5e3);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("5MB/s").value(), 5e6);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("23.4GB/s").value(), 23.4e9);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("1.6 TB/s").value(), 1.6e12);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("2KiB/s").value(), 2048);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("2MiB/s").value(), 2.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("2GiB/s").value(), 2.0 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(formats::parse_bytes_per_s("2TiB/s").value(), 2.0 * 1024 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(formats::parse_duration_ns("7ns").value(), 7);
  EXPECT_DOUBLE_EQ(formats::parse_duration_ns("10us").value(), 10e3);
  EXPECT_DOUBLE_EQ(formats::parse_duration_ns("0.5ms").value(), 0.5e6);
  EXPECT_DOUBLE_EQ(formats::parse_duration_ns("1s").value(), 1e9);
  EXPECT_DOUBLE_EQ(formats::parse_flops_per_s("500GFLOPS").value(), 500e9);
  EXPECT_DOUBLE_EQ(formats::parse_flops_per_s("313TFLOPS").value(), 313e12);
  EXPECT_DOUBLE_EQ(formats::parse_flops_per_s("0.99PFLOPS").value(), 0.99e15);
}

TEST(ParseQuantity, RefusesWhatHasNoOrAnotherUnit) {
  for (const char* text :
       {"",       " ",      "5",      "GB/s",    "5GB",     "5Gb/s",   "5gb/s",   "5 GB /s",  "5  GB/s", "5GB/s ",
        " 5GB/s", "-5GB/s", "+5GB/s", "infGB/s", "nanGB/s", "1e9GB/s", "0x5GB/s", "5..0GB/s", ".5GB/s",  "5us"}) {
    EXPECT_FALSE(formats::parse_bytes_per_s(text).ok()) << text;
  }
  EXPECT_FALSE(formats::parse_bytes_per_s(std::string(400, '9') + "TB/s").ok());
}

TEST(ParseQuantity, SaysWhatWouldBeRight) {
  EXPECT_EQ(formats::parse_duration_ns("10").error().message,
            "'10' is not a time; write a number and a unit (ns, us, ms, s), like 10us");
  EXPECT_EQ(formats::parse_flops_per_s("3e14").error().code, Error::Code::bad_input);
}

}  // namespace
}  // namespace tidemark
