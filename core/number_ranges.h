#pragma once
// A list of numbers as text, neighbours as one range. Pure.

#include <iterator>
#include <string>
#include <string_view>

namespace tidemark {

/// `0-3, 7, 9-10` with `between` ", "; empty: no numbers. REQUIRES: whole numbers, ascending; equal ones are said once.
template <class Numbers>
[[nodiscard]] std::string number_ranges(const Numbers& numbers, std::string_view between) {
  std::string text;
  for (auto it = std::begin(numbers); it != std::end(numbers);) {
    const auto first = *it;
    auto last = first;
    while (++it != std::end(numbers) && *it - last <= 1) last = *it;
    if (!text.empty()) text += between;
    text += std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

}  // namespace tidemark
