#pragma once
// Whole-number arithmetic as in $((A * B)). Private to formats.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tidemark::formats {

/// The value of an expression of decimal numbers, names, + - * / % **, comparisons, &&, || and parentheses; `value_of`
/// is asked for `NAME` and for `$NAME`, whose text has to be a number. Nothing: it is none, a name has no number,
/// something overflows or is divided by zero.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression, const std::function<std::optional<std::int64_t>(std::string_view name)>& value_of);

}  // namespace tidemark::formats
