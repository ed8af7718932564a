// Damaged inputs: no crash, and either a value that keeps its promises or one clear error. The same bytes every time.

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/fuzz/input_bodies.h"
#include "tests/fuzz/mutation.h"

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
  constexpr int kLargeInput = 4096;
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  ASSERT_FALSE(seeds.empty());
  std::size_t longest = 0;
  for (const std::string& seed : seeds) {
    bool accepted = false;
    ASSERT_EQ(target.run(seed, accepted), std::nullopt);
    ASSERT_TRUE(accepted) << "a seed is not valid: " << literal(seed);
    longest = std::max(longest, seed.size());
  }
  const int rounds = longest > kLargeInput ? 2'000 : 30'000;
  Mutator mutator(seeds, target.words(), 20'240'501);
  int accepted_rounds = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string bytes = mutator.next();
    bool accepted = false;
    const std::optional<std::string> wrong = target.run(bytes, accepted);
    ASSERT_EQ(wrong, std::nullopt) << "round " << round << ":\n\"" << literal(bytes) << '"';
    accepted_rounds += accepted ? 1 : 0;
  }
  // Neither all nor none: the wounds reach behind the first check, and are wounds.
  EXPECT_GT(accepted_rounds, rounds / 200);
  EXPECT_LT(accepted_rounds, rounds * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Formats, DamagedInput, ::testing::ValuesIn(fuzz_targets()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tidemark::testing
