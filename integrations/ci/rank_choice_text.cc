#include "integrations/ci/rank_choice_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/number_ranges.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

using Kind = budget::RankChoice::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 4> kWords = {
    {{"all", Kind::all}, {"first", Kind::first}, {"middle", Kind::middle}, {"last", Kind::last}}};
constexpr std::string_view kExample = "write all, first, middle, last or ranks like 0-3,15";

std::optional<std::int64_t> rank_in(std::string_view text) {
  std::int64_t rank = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc{} || rest != text.data() + text.size() || rank < 0) return std::nullopt;
  return rank;
}

/// `3` or `0-3`; nothing: another form, or the wrong order.
std::optional<std::pair<std::int64_t, std::int64_t>> range_in(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<std::int64_t> first = rank_in(text.substr(0, dash));
  const std::optional<std::int64_t> last = dash == std::string_view::npos ? first : rank_in(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Error refused(std::string_view text, std::string_view why) {
  const std::vector<std::string> words = {"all", "first", "middle", "last"};
  const std::optional<std::string> near = formats::find_near_miss(text, words);
  return bad_input(fmt::format("{} {}; {}{}", formats::shown(text), why,
                               near ? fmt::format("did you mean '{}'? ", *near) : "", kExample));
}

}  // namespace

Result<budget::RankChoice> parse_rank_choice(std::string_view text) {
  for (const auto& [word, kind] : kWords)
    if (text == word) return budget::RankChoice{.kind = kind};
  budget::RankChoice choice{.kind = Kind::listed};
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const auto range = range_in(trimmed(rest.substr(0, comma)));
    if (!range) return refused(text, "names no ranks");
    if (range->second > kMostListedRank) return refused(text, fmt::format("goes beyond rank {}", kMostListedRank));
    if (!choice.listed.empty() && range->first <= choice.listed.back())
      return refused(text, "is not ascending with each rank once");
    for (std::int64_t rank = range->first; rank <= range->second; ++rank) choice.listed.push_back(rank);
    if (comma == std::string_view::npos) return choice;
    rest.remove_prefix(comma + 1);
  }
}

std::string rank_choice_text(const budget::RankChoice& choice) {
  for (const auto& [word, kind] : kWords)
    if (choice.kind == kind) return std::string(word);
  return number_ranges(choice.listed, ",");
}

}  // namespace tidemark::ci
