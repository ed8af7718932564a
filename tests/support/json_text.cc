#include "tests/support/json_text.h"

#include <regex>

template class nlohmann::basic_json<>;

namespace tidemark::testing {

nlohmann::json parsed(std::string_view text) {
  return nlohmann::json::parse(text);
}

bool has_match(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

std::string with_matches_as(const std::string& text, const std::string& pattern, const std::string& by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

}  // namespace tidemark::testing
