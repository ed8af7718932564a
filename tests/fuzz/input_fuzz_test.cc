// Damaged inputs: no crash, and either a value that keeps its promises or one clear error. The same bytes every time.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/fuzz/input_bodies.h"
#include "tests/fuzz/mutation.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {

std::ostream& operator<<(std::ostream& out, const FuzzTarget& target) {
  return out << target.name;
}

namespace {

/// Bytes as a C literal, to paste into a named test.
std::string literal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7f && c != '"' && c != '\\')
      text += c;
    else
      text += std::string("\\x") + kDigits[code >> 4] + kDigits[code & 15] + "\"\"";
  }
  return text;
}

class DamagedInput : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(DamagedInput, IsReadOrRefused) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    Reached reached;
    ASSERT_EQ(target.run(seed, reached), std::nullopt);
    ASSERT_EQ(reached["accepted"], 1) << "a seed is not valid: " << literal(seed);
  }
  Mutator mutator(seeds, target.words(), 20'240'501, target.wounds);
  Reached reached;
  const int rounds = kSanitized ? target.rounds / 3 : target.rounds;
  for (int round = 0; round < rounds; ++round) {
    const std::string bytes = mutator.next();
    const std::optional<std::string> wrong = target.run(bytes, reached);
    ASSERT_EQ(wrong, std::nullopt) << "round " << round << ":\n\"" << literal(bytes) << '"';
  }
  // Neither all nor none: the wounds reach behind the first check, and are wounds.
  EXPECT_GT(reached["accepted"], rounds / 200);
  EXPECT_GT(reached["refused"], rounds / 10);
  for (const std::string_view place : target.places)
    EXPECT_GE(reached[std::string(place)], kSanitized ? 1 : 3) << "no input came as far as '" << place << "'";
  for (const auto& [place, count] : reached) RecordProperty(place, std::to_string(count));
}

INSTANTIATE_TEST_SUITE_P(Formats, DamagedInput, ::testing::ValuesIn(fuzz_targets()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tidemark::testing
