#include "integrations/formats/rank_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "core/number_ranges.h"

namespace tidemark::formats {

std::string ranks_text(const std::vector<std::int32_t>& ranks) {
  if (ranks.empty()) return "none";
  return (ranks.size() == 1 ? "rank " : "ranks ") + number_ranges(ranks, ", ");
}

std::string listed_ranks_text(const std::vector<std::int64_t>& ranks) {
  assert(!ranks.empty());
  const std::size_t listed = std::min(kMostListedRanks, ranks.size());
  const std::string text =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                  fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(listed), ", "));
  return listed < ranks.size() ? fmt::format("{} and {} more", text, ranks.size() - listed) : text;
}

}  // namespace tidemark::formats
