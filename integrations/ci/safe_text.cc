#include "integrations/ci/safe_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "integrations/formats/utf8.h"

namespace tidemark::ci {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// One character of a text: its bytes, and its code point; of a byte that begins none U+FFFD.
struct Character {
  std::string_view bytes;
  std::uint32_t code = 0;
};

/// REQUIRES: a text that is not empty.
Character next_of(std::string_view text) {
  const std::size_t size = formats::utf8_size(text);
  if (size == 0) return {text.substr(0, 1), 0xfffd};
  std::uint32_t code = static_cast<unsigned char>(text.front());
  if (size > 1) code &= 0x7fU >> size;
  for (const char c : text.substr(1, size - 1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  return {text.substr(0, size), code};
}

/// Calls `take` with every character; where there was none, with U+FFFD.
template <class Take>
void each_character(std::string_view text, Take take) {
  while (!text.empty()) {
    const Character next = next_of(text);
    take(Character{next.code == 0xfffd ? kReplacement : next.bytes, next.code});
    text.remove_prefix(next.bytes.size());
  }
}

bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/// What Unicode keeps for no character at all.
bool is_no_character(std::uint32_t code) {
  return (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
}

/// Unicode's bidirectional embeddings, overrides and isolates: what stands beside them would read as something else.
bool is_turn(std::uint32_t code) {
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/// What is U+FFFD wherever text is shown.
bool is_unfit(std::uint32_t code) {
  return is_control(code) || is_no_character(code) || is_turn(code);
}

bool is_one_of(std::uint32_t code, std::string_view ascii) {
  return code < 0x80 && ascii.find(static_cast<char>(code)) != std::string_view::npos;
}

/// Ends of lines as blanks.
std::string_view on_one_line(const Character& c) {
  if (c.code == '\n' || c.code == '\r' || c.code == '\t' || c.code == 0x2028 || c.code == 0x2029) return " ";
  return is_unfit(c.code) ? kReplacement : c.bytes;
}

std::string_view xml_escape(const Character& c) {
  switch (c.code) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\t':
      return "&#9;";
    case '\n':
      return "&#10;";
    case '\r':
      return " ";  // as a reference it is a mistake of HTML
    default:
      return is_unfit(c.code) ? kReplacement : c.bytes;
  }
}

void append_percent(std::string& out, unsigned char byte) {
  fmt::format_to(std::back_inserter(out), "%{:02X}", byte);
}

/// `escaped`: the bytes that are percent-encoded.
std::string with_percents(std::string_view bytes, std::string_view escaped) {
  std::string text;
  for (const char c : with_replacements(bytes)) {
    if (escaped.find(c) != std::string_view::npos)
      append_percent(text, static_cast<unsigned char>(c));
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string with_replacements(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  each_character(bytes, [&](const Character& c) { text += c.bytes; });
  return text;
}

std::string xml_text(std::string_view bytes) {
  std::string text;
  each_character(bytes, [&](const Character& c) { text += xml_escape(c); });
  return text;
}

std::string markdown_text(std::string_view bytes) {
  std::string text;
  bool is_number = true;  // so far nothing but digits: `1.` would begin a list
  each_character(bytes, [&](const Character& c) {
    const std::string_view shown = on_one_line(c);
    if (text.empty() && shown == " ") return;  // four blanks would begin a block of code
    const bool begins = text.empty() && is_one_of(c.code, "#+-=:");
    const bool numbers = !text.empty() && is_number && is_one_of(c.code, ".)");
    if (begins || numbers || is_one_of(c.code, "\\`*_[]<>|~&$")) text += '\\';
    is_number = is_number && is_one_of(c.code, "0123456789");
    text += shown;
  });
  return text;
}

std::string github_message(std::string_view bytes) {
  return with_percents(bytes, "%\r\n");
}

std::string github_property(std::string_view bytes) {
  return with_percents(bytes, "%\r\n:,");
}

std::string uri_of_path(std::string_view path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";  // unreserved, and the separator
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos)
      uri += c;
    else
      append_percent(uri, static_cast<unsigned char>(c));
  }
  return uri;
}

}  // namespace tidemark::ci
