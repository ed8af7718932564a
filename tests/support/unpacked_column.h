#pragma once
// The plain reader of integrations/formats/packed_column.h: one number at a time, no tables.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/packed_column.h"

namespace tidemark::testing {

class UnpackedColumn {
 public:
  static std::vector<std::int64_t> read(std::string_view text, formats::Packing packing) {
    UnpackedColumn reader(text);
    const std::int64_t scale = reader.number();
    std::vector<std::int64_t> values = reader.words();
    for (std::size_t i = 1; packing == formats::Packing::delta && i < values.size(); ++i) values[i] += values[i - 1];
    for (std::int64_t& value : values) value *= scale;
    return values;
  }

 private:
  explicit UnpackedColumn(std::string_view text) : text_(text) {}

  std::vector<std::int64_t> words() {
    std::vector<std::int64_t> words;
    while (at_ < text_.size() && !::testing::Test::HasFailure()) {
      if (text_[at_] != '*') {
        words.push_back(number());
        continue;
      }
      ++at_;
      const std::int64_t distance = number(), count = number();
      EXPECT_GE(distance, 1);
      EXPECT_LE(distance, static_cast<std::int64_t>(words.size()));
      if (distance < 1 || distance > static_cast<std::int64_t>(words.size())) break;
      for (std::int64_t i = 0; i < count; ++i)
        words.push_back(words[words.size() - static_cast<std::size_t>(distance)]);
    }
    return words;
  }

  std::int64_t number() {
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::int64_t folded = 0, weight = 1;
    for (;; weight *= 32) {
      const std::size_t digit = at_ < text_.size() ? digits.find(text_[at_]) : std::string_view::npos;
      EXPECT_NE(digit, std::string_view::npos) << "at " << at_;
      if (digit == std::string_view::npos) return 0;
      ++at_;
      folded += weight * static_cast<std::int64_t>(digit % 32);
      if (digit < 32) break;
    }
    return folded % 2 == 0 ? folded / 2 : -(folded / 2) - 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tidemark::testing
