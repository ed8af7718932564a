#include "integrations/formats/interval_gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMostNumber = std::int64_t{1} << 62;

/// Two numbers around a separator, or nothing.
std::optional<std::pair<std::int64_t, std::int64_t>> read_pair(std::string_view text, char separator) {
  const std::size_t middle = text.find(separator);
  if (middle == std::string_view::npos) return std::nullopt;
  const Result<std::int64_t> first = read_whole("", text.substr(0, middle), 0, kMostNumber);
  const Result<std::int64_t> second = read_whole("", text.substr(middle + 1), 0, kMostNumber);
  if (!first || !second) return std::nullopt;
  return std::pair(first.value(), second.value());
}

Error wrong(std::string_view word, const std::string& what) {
  return bad_input(fmt::format("gap {} {}", shown(word), what));
}

Result<IntervalTable::Gap> read_gap(std::string_view word, const GapPlace& place) {
  const std::size_t at = std::min(word.find('@'), word.size());
  const auto life = read_pair(word.substr(0, at), '-');
  if (!life) return wrong(word, "is not understood; write 3-7, or 3-7@0:512 where bytes 0 to 512 stay");
  IntervalTable::Gap gap{.lower = life->first, .upper = life->second + (place.end_counts ? 1 : 0)};
  if (gap.upper <= gap.lower) return wrong(word, "is empty; its end must be behind its begin");
  if (gap.lower < place.lower || gap.upper > place.upper)
    return wrong(word, fmt::format("leaves the life of the buffer, {} to {}", place.lower,
                                   place.upper - (place.end_counts ? 1 : 0)));
  if (at == word.size()) return gap;
  const auto window = read_pair(word.substr(at + 1), ':');
  if (!window) return wrong(word, "is not understood; the bytes that stay are written like @0:512");
  if (window->second <= window->first || window->second > place.bytes)
    return wrong(word, fmt::format("keeps bytes that are not there; they must be some of 0 to {}", place.bytes));
  gap.window_begin = window->first;
  gap.window_end = window->second;
  return gap;
}

}  // namespace

Status read_gaps(std::string_view text, const GapPlace& place, std::vector<IntervalTable::Gap>& gaps) {
  const auto first = static_cast<std::ptrdiff_t>(gaps.size());
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(" \t"));
    Result<IntervalTable::Gap> gap = read_gap(word, place);
    if (!gap) return gap.error();
    gaps.push_back(gap.value());
    text.remove_prefix(word.size());
  }
  std::sort(gaps.begin() + first, gaps.end(), [](const auto& a, const auto& b) { return a.lower < b.lower; });
  for (auto gap = gaps.begin() + first; gap != gaps.end(); ++gap) {
    if (gap == gaps.begin() + first || std::prev(gap)->upper <= gap->lower) continue;
    return bad_input(fmt::format("two gaps hold time {}; they must not meet", gap->lower));
  }
  return {};
}

}  // namespace tidemark::formats
