#pragma once
// Names in a shell script: what is one, what assigns to one, and which of them the shell itself gives a value. Private
// to formats.

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace tidemark::formats {

/// Length of the name at the beginning of `text`; 0: none.
[[nodiscard]] std::size_t shell_name_length(std::string_view text);

/// `NAME=` or `NAME+=` and anything behind it.
[[nodiscard]] bool is_shell_assignment(std::string_view text);

/// A name in `text` is one of `names`.
[[nodiscard]] bool speaks_of_name(std::string_view text, const std::set<std::string, std::less<>>& names);

/// `NAME[2]=value`.
[[nodiscard]] bool is_element_assignment(std::string_view text);

/// The shell, a login or the machine sets it (PATH, HOME, RANDOM): what it holds, no script says, though none sets it.
[[nodiscard]] bool is_set_outside(std::string_view name);

/// Of those, what a script sets does not stay (RANDOM, SECONDS, `_`).
[[nodiscard]] bool is_set_anew(std::string_view name);

}  // namespace tidemark::formats
