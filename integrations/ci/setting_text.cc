#include "integrations/ci/setting_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tidemark::ci {
namespace {

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> whole_number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Numbers as every program prints them; other words as they are.
std::string canonical_scalar(std::string_view text) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53: integers up to it are exact
  if (const auto integer = whole_number_of<std::int64_t>(text)) return fmt::format("{}", *integer);
  const auto real = whole_number_of<double>(text);
  if (!real || !std::isfinite(*real)) return std::string(text);
  if (*real == std::floor(*real) && std::abs(*real) < kMostExact)
    return fmt::format("{}", static_cast<std::int64_t>(*real));
  return fmt::format("{}", *real);
}

/// One value of YAML in its flow style. Nothing: it is none, or was cut.
class FlowValue {
 public:
  explicit FlowValue(std::string_view text) : rest_(text) {}

  std::optional<std::string> read() && {
    std::optional<std::string> value = read_value(0);
    return without_blanks(rest_).empty() ? value : std::nullopt;
  }

 private:
  static constexpr int kMostLevels = 32;

  std::optional<std::string> read_value(int level) {
    rest_ = without_blanks(rest_);
    if (level > kMostLevels) return std::nullopt;
    if (take('{')) return read_parts('}', true, level);
    if (take('[')) return read_parts(']', false, level);
    return canonical_scalar(take_word(",]}"));
  }

  std::optional<std::string> read_parts(char end, bool is_map, int level) {
    std::vector<std::string> parts;
    rest_ = without_blanks(rest_);
    while (!take(end)) {
      if (!parts.empty() && !take(',')) return std::nullopt;
      std::string part;
      if (is_map) {
        part = std::string(take_word(":,]}")) + ':';
        if (!take(':')) return std::nullopt;
      }
      const std::optional<std::string> value = read_value(level + 1);
      if (!value || rest_.empty()) return std::nullopt;
      parts.push_back(part + *value);
      rest_ = without_blanks(rest_);
    }
    if (is_map) std::ranges::sort(parts);
    return fmt::format("{}{}{}", is_map ? '{' : '[', fmt::join(parts, ","), end);
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view take_word(std::string_view ends) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(word.size());
    return without_blanks(word);
  }

  std::string_view rest_;
};

std::string canonical_value(std::string_view value) {
  const bool is_flow = value.starts_with('{') || value.starts_with('[');
  if (!is_flow) return canonical_scalar(value);
  return FlowValue(value).read().value_or(std::string(value));
}

}  // namespace

Setting setting_of(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of(" :="), text.size());
  std::string_view value = text.substr(end);
  for (const std::string_view mark : {": ", " = ", ":", "=", " "}) {
    if (!value.starts_with(mark)) continue;
    value.remove_prefix(mark.size());
    break;
  }
  return {.key = text.substr(0, end), .value = value};
}

std::string canonical_text(std::string_view text) {
  const Setting setting = setting_of(text);
  return fmt::format("{} {}", setting.key, canonical_value(without_blanks(setting.value)));
}

}  // namespace tidemark::ci
