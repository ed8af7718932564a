#pragma once
// UTF-8 as RFC 3629 (section 4) has it: no overlong form, no surrogate, nothing above U+10FFFF. Texts of input are
// refused where they are something else, so that what is printed and written is UTF-8, and JSON is JSON. Names of files
// are bytes to the system: they are opened as they are and shown with `\xNN` for what is no character.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark::formats {

/// Bytes of the character that a text begins with; 0: it begins with none. REQUIRES: a text that is not empty.
[[nodiscard]] std::size_t utf8_size(std::string_view text);

/// The first byte that belongs to no character; npos: there is none. O(size), some GB/s of ASCII.
[[nodiscard]] std::size_t find_bad_utf8(std::string_view text);

/// Errors (bad_input): `file:line: ...` of the first byte that belongs to no character, or of the first NUL, which no
/// text has and every parser takes for something else: whichever comes first.
[[nodiscard]] Status require_utf8(std::string_view text, std::string_view file_name);

/// The same text with `\xNN` for every byte that belongs to no character.
[[nodiscard]] std::string utf8_text(std::string_view bytes);

/// As much of a text as `most_bytes` hold without cutting a character.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, std::size_t most_bytes);

}  // namespace tidemark::formats
