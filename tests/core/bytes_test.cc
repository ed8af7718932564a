#include "core/bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace tidemark {
namespace {

using namespace tidemark::literals;

constexpr Bytes kLargest = std::numeric_limits<Bytes>::max();

Bytes parsed(std::string_view text) {
  const Result<Bytes> result = parse_bytes(text);
  EXPECT_TRUE(result.ok()) << text << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? result.value() : -1;
}

std::string refusal(std::string_view text) {
  const Result<Bytes> result = parse_bytes(text);
  EXPECT_FALSE(result.ok()) << "'" << text << "' was taken as " << (result.ok() ? result.value() : 0);
  if (result.ok()) return "";
  EXPECT_EQ(result.error().code, Error::Code::bad_input);
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << "one line only";
  return result.error().message;
}

void expect_refused(std::string_view text, std::string_view reason) {
  const std::string message = refusal(text);
  EXPECT_NE(message.find(reason), std::string::npos) << "for '" << text << "' the message is: " << message;
}

TEST(ParseBytes, KnowsEveryUnit) {
  EXPECT_EQ(parsed("4096B"), 4096);
  EXPECT_EQ(parsed("3KiB"), 3 * 1024);
  EXPECT_EQ(parsed("512MiB"), 512_MiB);
  EXPECT_EQ(parsed("64GiB"), 64_GiB);
  EXPECT_EQ(parsed("2TiB"), 2048_GiB);
  EXPECT_EQ(parsed("3KB"), 3'000);
  EXPECT_EQ(parsed("200MB"), 200'000'000);
  EXPECT_EQ(parsed("64GB"), 64'000'000'000);
  EXPECT_EQ(parsed("1TB"), 1'000'000'000'000);
  EXPECT_EQ(parsed("0B"), 0);
}

TEST(ParseBytes, AllowsOneBlankBeforeTheUnit) {
  EXPECT_EQ(parsed("512 MiB"), 512_MiB);
  expect_refused("512  MiB", "unknown unit ' MiB'");
  expect_refused("512\tMiB", "unknown unit");
  expect_refused(" 512MiB", "is not a size");
  expect_refused("512MiB ", "unknown unit 'MiB '");
  expect_refused("5 12MiB", "unknown unit '12MiB'");
  expect_refused("512 ", "unknown unit ' '");
}

TEST(ParseBytes, RoundsAFractionDownExactly) {
  EXPECT_EQ(parsed("0.5B"), 0);
  EXPECT_EQ(parsed("1.9B"), 1);
  EXPECT_EQ(parsed("0.5KiB"), 512);
  EXPECT_EQ(parsed("1.25GiB"), 1280_MiB);
  // 60.97 * 2^30 = 65466039009.28: no double arithmetic is involved, so no digit of the floor is in doubt.
  EXPECT_EQ(parsed("60.97GiB"), 65'466'039'009);
  EXPECT_EQ(parsed("0.999999999999999999999999999999GiB"), 1_GiB - 1);
  EXPECT_EQ(parsed("1.000000000000000000000000000000GiB"), 1_GiB);
  // 0.1 GiB = 107374182.4
  EXPECT_EQ(parsed("0.1GiB"), 107'374'182);
}

TEST(ParseBytes, FractionsAgreeWithExactRationalArithmetic) {
  std::mt19937_64 random(20240611);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t thousandths = static_cast<std::int64_t>(random() % 1'000'000);
    const std::string text =
        std::to_string(thousandths / 1000) + "." + std::to_string(1000 + thousandths % 1000).substr(1) + "MiB";
    EXPECT_EQ(parsed(text), thousandths * kMiB / 1000) << text;
  }
}

TEST(ParseBytes, RefusesBareNumbers) {
  expect_refused("4096", "a bare number has no unit");
  expect_refused("0", "a bare number has no unit");
  expect_refused("60.97", "append one of B, KiB");
}

TEST(ParseBytes, RefusesSigns) {
  expect_refused("-1B", "no sign is allowed");
  expect_refused("-1", "no sign is allowed");
  expect_refused("+64GB", "no sign is allowed");
  expect_refused("64-GB", "unknown unit '-GB'");
}

TEST(ParseBytes, RefusesBlankText) {
  for (const char* text : {"", " ", "\t", "\n", "   \t"}) expect_refused(text, "write a size like 60.97GiB");
}

TEST(ParseBytes, RefusesUnknownUnits) {
  for (const char* text : {"64gib", "64gb", "64G", "64Gi", "64Gib", "64PiB", "64bytes", "64mib", "64b", "1e3B", "0x10B",
                           "1,5GiB", "1.2.3GiB", "64GiB!"}) {
    expect_refused(text, "unknown unit");
  }
  expect_refused("64PiB", "use B, KiB, MiB, GiB, TiB (1024s) or KB, MB, GB, TB (1000s)");
}

TEST(ParseBytes, RefusesWhatIsNoNumber) {
  for (const char* text : {"GiB", ".5GiB", "abc", "nanGiB", "infGiB", "B"}) expect_refused(text, "is not a size");
  expect_refused("1.GiB", "digits are missing after the point");
  expect_refused("1.", "digits are missing after the point");
}

TEST(ParseBytes, StandsAtTheEdgeOfTheRange) {
  EXPECT_EQ(parsed("9223372036854775807B"), kLargest);
  expect_refused("9223372036854775808B", "exceeds the largest size");
  EXPECT_EQ(parsed("8388607TiB"), 8388607 * kTiB);
  // 2^63-1 = 8388607.99999999999909... TiB: the fraction must not tip it over.
  EXPECT_EQ(parsed("8388607.9999999999999999999999TiB"), kLargest);
  expect_refused("8388608TiB", "exceeds the largest size");
  expect_refused("99999999999999999999999999999999B", "exceeds the largest size");
  expect_refused(std::string(10'000, '9') + "TiB", "exceeds the largest size");
}

TEST(ParseBytes, MessagesStayShortAndOnOneLine) {
  const std::string hostile = "12\n34" + std::string(5000, 'x') + '\0' + "\x1b[31m";
  const std::string message = refusal(hostile);
  EXPECT_LT(message.size(), 250u);
  for (const char c : message) EXPECT_GE(c, ' ');
}

TEST(FormatBytes, PicksTheLargestUnitThatLeavesOne) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1), "1 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(512_MiB), "512.00 MiB");
  EXPECT_EQ(format_bytes(1_GiB), "1.00 GiB");
  EXPECT_EQ(format_bytes(65'466'039'009), "60.97 GiB");
  EXPECT_EQ(format_bytes(3 * kTiB / 2), "1.50 TiB");
}

TEST(FormatBytes, KeepsTheSign) {
  EXPECT_EQ(format_bytes(-1), "-1 B");
  EXPECT_EQ(format_bytes(-512_MiB), "-512.00 MiB");
  EXPECT_EQ(format_bytes(kLargest), "8388608.00 TiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<Bytes>::min()), "-8388608.00 TiB");
}

TEST(FormatBytes, IsReadBackWithinItsTwoDigits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const Bytes bytes = static_cast<Bytes>(random() >> (2 + random() % 61));
    const double error = std::abs(static_cast<double>(parsed(format_bytes(bytes)) - bytes));
    EXPECT_LE(error, 0.006 * static_cast<double>(bytes) + 1) << bytes;
  }
}

TEST(FormatBytes, RoundedUpIsReadBackAsEnough) {
  EXPECT_EQ(format_bytes_up(0), "0 B");
  EXPECT_EQ(format_bytes_up(1023), "1023 B");
  EXPECT_EQ(format_bytes_up(2_MiB), "2.00 MiB");
  EXPECT_EQ(format_bytes_up(2_MiB + 1), "2.01 MiB");
  std::mt19937_64 random(8);
  for (int i = 0; i < 1000; ++i) {
    const Bytes bytes = static_cast<Bytes>(random() >> (12 + random() % 51));
    EXPECT_GE(parsed(format_bytes_up(bytes)), bytes) << bytes;
  }
}

TEST(CheckedArithmetic, StopsAtOverflow) {
  EXPECT_EQ(checked_multiply(0, kLargest), 0);
  EXPECT_EQ(checked_multiply(1, kLargest), kLargest);
  EXPECT_EQ(checked_multiply(2, kLargest), std::nullopt);
  EXPECT_EQ(checked_multiply(Bytes{1} << 31, Bytes{1} << 31), Bytes{1} << 62);
  EXPECT_EQ(checked_multiply(Bytes{1} << 32, Bytes{1} << 31), std::nullopt);
  EXPECT_EQ(checked_add(kLargest, 0), kLargest);
  EXPECT_EQ(checked_add(kLargest - 1, 1), kLargest);
  EXPECT_EQ(checked_add(kLargest, 1), std::nullopt);
}

TEST(RoundUp, GivesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 512), 0);
  EXPECT_EQ(round_up(1, 512), 512);
  EXPECT_EQ(round_up(512, 512), 512);
  EXPECT_EQ(round_up(513, 512), 1024);
  EXPECT_EQ(round_up(7, 1), 7);
}

}  // namespace
}  // namespace tidemark
