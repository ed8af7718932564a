#pragma once
// The text of an argument's value as a number, a switch or a list. Frameworks' own spellings: Python's True and None,
// numbers that a configuration file turned into 1.0, lists in brackets or separated by blanks or commas.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::estimate {

/// A whole number, also as `1.0`, `1e3` or `4_096`. Nothing: it is none, or its magnitude is 2^53 or more.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

/// A finite number.
[[nodiscard]] std::optional<double> real_number(std::string_view text);

/// Empty (a switch), true, 1, yes, on: on. false, 0, no, off: off. In any case of letters.
[[nodiscard]] std::optional<bool> switch_value(std::string_view text);

/// None, null, ~: as if the argument were not there.
[[nodiscard]] bool is_unset(std::string_view text);

/// Words of a list: brackets, quotes, blanks and commas separate them.
[[nodiscard]] std::vector<std::string> list_items(std::string_view text);

/// Whole numbers of a list, or nothing if an item is none or there are more than `most`.
[[nodiscard]] std::optional<std::vector<std::int64_t>> number_list(std::string_view text, std::size_t most);

/// Lower case, ASCII.
[[nodiscard]] std::string lower_case(std::string_view text);

/// `'text'`, cut and free of control characters, for a one-line message.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace tidemark::estimate
