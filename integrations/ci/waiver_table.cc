#include "integrations/ci/waiver_table.h"

#include <optional>

#include "core/bytes.h"

namespace tidemark::ci {

const std::vector<WaiverMatch>& WaiverTable::of(const budget::Limit& limit, const budget::Holdings& holdings) {
  const Key key{limit.phase ? static_cast<int>(*limit.phase) : -1,
                limit.category ? static_cast<int>(*limit.category) : -1, limit.is_host};
  const auto [place, is_new] = rows_.try_emplace(key);
  if (!is_new) return place->second;
  const WaiverScope scope{.phase = limit.phase, .category = limit.category, .is_host = limit.is_host};
  for (std::size_t row = 0; row < holdings.ranks.size(); ++row) {
    const std::optional<Bytes> bytes = budget::measure(holdings.ranks[row], limit);
    place->second.push_back(bytes ? match_waiver(job_, scope, holdings, row, *bytes, today_) : WaiverMatch{});
  }
  return place->second;
}

}  // namespace tidemark::ci
