#pragma once
// Names and reasons of other people on their way into a format: what they hold is shown and means nothing there.

#include <string>
#include <string_view>

namespace tidemark::ci {

/// UTF-8, whatever the bytes are: each byte that belongs to no character becomes U+FFFD.
[[nodiscard]] std::string with_replacements(std::string_view bytes);

/// For an element or an attribute of XML 1.0 or HTML: markup escaped; controls, code points that are no characters
/// (U+FFFE, U+FFFF, U+FDD0 to U+FDEF and their like) and what turns the direction of text become U+FFFD. Tabs and ends
/// of lines become character references, which attributes keep.
[[nodiscard]] std::string xml_text(std::string_view bytes);

/// One line of GitHub-flavoured Markdown, safe in a cell of a table: markup escaped by backslashes, controls and
/// what turns the direction of text U+FFFD.
[[nodiscard]] std::string markdown_text(std::string_view bytes);

/// The message, and a property, of a workflow command of GitHub Actions.
[[nodiscard]] std::string github_message(std::string_view bytes);
[[nodiscard]] std::string github_property(std::string_view bytes);

/// A path as a URI reference (RFC 3986): relative ones are kept so, `/x` becomes `file:///x`; bytes outside the
/// unreserved characters and `/` are percent-encoded.
[[nodiscard]] std::string uri_of_path(std::string_view path);

}  // namespace tidemark::ci
