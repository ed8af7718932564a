#pragma once
// JSON and patterns in tests, with the code behind them compiled once (json_text.cc): a reader, a writer and a matcher
// of their own are half of what a test that looks into JSON takes to compile.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern template class nlohmann::basic_json<>;

namespace tidemark::testing {

/// Throws nlohmann::json::parse_error, which fails the test, where `text` is no JSON.
[[nodiscard]] nlohmann::json parsed(std::string_view text);

/// Whether `pattern` (ECMAScript) matches somewhere in `text`.
[[nodiscard]] bool has_match(const std::string& text, const std::string& pattern);

/// Every match of `pattern` in `text` as `by`.
[[nodiscard]] std::string with_matches_as(const std::string& text, const std::string& pattern, const std::string& by);

}  // namespace tidemark::testing
