#pragma once
// Numbers in the words of a budget file. Private to ci.

#include <optional>
#include <string_view>

namespace tidemark::ci {

/// `2`, `2.5`: all of the text, without an exponent. Nothing: it is no such number.
[[nodiscard]] std::optional<double> parse_decimal(std::string_view text);

}  // namespace tidemark::ci
