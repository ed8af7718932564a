#pragma once
// Text on its way into HTML.

#include <string>
#include <string_view>

#include "integrations/formats/shown.h"

namespace tidemark::formats {

/// Safe between tags and inside a quoted attribute; what turns the direction of text is `?`.
[[nodiscard]] inline std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : without_turns(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// JSON that may stand inside a script element: no `<` can close it, and what turns the direction of text is `?`.
[[nodiscard]] inline std::string script_text(std::string_view json) {
  std::string escaped;
  for (const char c : without_turns(json)) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace tidemark::formats
