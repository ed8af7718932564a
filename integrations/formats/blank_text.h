#pragma once
// Text of which a person sees nothing.

#include <string_view>

namespace tidemark::formats {

/// Blanks, controls and characters without width or ink alone (Unicode's White_Space and Default_Ignorable_Code_Point,
/// and the braille blank U+2800), or no text at all. False of bytes that are no UTF-8: they are shown as `\xNN`.
[[nodiscard]] bool shows_nothing(std::string_view text);

}  // namespace tidemark::formats
