#include "device/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

namespace tidemark {
namespace {

std::string_view without_blanks_around(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// All of `text` as a number that a list may hold.
std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || text.front() == '-' || error != std::errc{} || stop != end || number > kLargestNumber)
    return std::nullopt;
  return number;
}

Error wrong_list(std::string_view part, std::string_view place) {
  std::string shown;
  for (const char c : part.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  return bad_input(fmt::format("{}: '{}' is no number or range; numbers from 0 to {} as in '0-3,8' would be right",
                               place, shown, kLargestNumber));
}

}  // namespace

Result<CpuList> read_cpu_list(std::string_view text, std::string_view place) {
  std::string_view rest = without_blanks_around(text);
  CpuList list;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::optional<int> first = number_of(part.substr(0, dash));
    const std::optional<int> last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last || *last < *first) return wrong_list(part, place);
    for (int number = *first; number <= *last; ++number) list.push_back(number);
    // Repeated ranges must not make much of little text.
    if (list.size() > 2 * std::size_t{kLargestNumber}) return wrong_list(part, place);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return wrong_list(rest, place);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::string text_of_list(const CpuList& list) {
  if (list.empty()) return "none";
  std::string text;
  for (std::size_t first = 0, last = 0; first < list.size(); first = last + 1) {
    last = first;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", list[first]) : fmt::format("{}-{}", list[first], list[last]);
  }
  return text;
}

bool holds(const CpuList& list, int number) {
  return std::binary_search(list.begin(), list.end(), number);
}

CpuList in_both(const CpuList& one, const CpuList& other) {
  CpuList both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
  return both;
}

CpuList in_either(const CpuList& one, const CpuList& other) {
  CpuList either;
  std::set_union(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(either));
  return either;
}

CpuList in_first_only(const CpuList& one, const CpuList& other) {
  CpuList rest;
  std::set_difference(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(rest));
  return rest;
}

}  // namespace tidemark
