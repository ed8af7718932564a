#include "planner/estimate/argument_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tidemark::estimate {
namespace {

constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: whole numbers up to here are exact as doubles

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, text) != words.end();
}

/// Python's numbers may have a `_` between two digits, 4_096.
std::string without_bars(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (text[i] != '_' || !between) plain += text[i];
  }
  return plain;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::optional<double> number = real_number(text);
  if (!number || std::abs(*number) >= kLargestWhole || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<double> real_number(std::string_view text) {
  const std::string plain = without_bars(text);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error != std::errc{} || end != plain.data() + plain.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> switch_value(std::string_view text) {
  const std::string word = lower_case(text);
  if (word.empty() || is_one_of(word, std::array<std::string_view, 4>{"true", "1", "yes", "on"})) return true;
  if (is_one_of(word, std::array<std::string_view, 4>{"false", "0", "no", "off"})) return false;
  return std::nullopt;
}

bool is_unset(std::string_view text) {
  return is_one_of(text, std::array<std::string_view, 4>{"None", "null", "NULL", "~"});
}

std::vector<std::string> list_items(std::string_view text) {
  constexpr std::string_view kSeparators = "[]() ,'\"\t\r\n";
  std::vector<std::string> items;
  std::size_t begin = text.find_first_not_of(kSeparators);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    items.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return items;
}

std::optional<std::vector<std::int64_t>> number_list(std::string_view text, std::size_t most) {
  std::vector<std::int64_t> numbers;
  for (const std::string& item : list_items(text)) {
    const std::optional<std::int64_t> number = whole_number(item);
    if (!number || numbers.size() == most) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto code = static_cast<unsigned char>(c);
    out += code >= 0x20 && code != 0x7f ? c : '?';
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

}  // namespace tidemark::estimate
