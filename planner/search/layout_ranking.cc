#include "planner/search/layout_ranking.h"

#include <iterator>

namespace tidemark::search {

void LayoutRanking::add(LayoutStep planned) {
  planned_.insert(planned);
  find_last();
}

void LayoutRanking::expect(LayoutStep least) {
  expected_.insert(least);
  find_last();
}

std::vector<std::size_t> LayoutRanking::take(std::int64_t step_ns, std::size_t most) {
  std::vector<std::size_t> ids;
  while (ids.size() < most && !expected_.empty() && expected_.begin()->step_ns <= step_ns) {
    ids.push_back(expected_.begin()->id);
    expected_.erase(expected_.begin());
  }
  find_last();
  return ids;
}

/// The places of both lists merged, and those of what is planned alone.
void LayoutRanking::find_last() {
  least_last_ns_ = most_last_ns_ = kNoStep;
  if (planned_.size() >= places_)
    most_last_ns_ = std::next(planned_.begin(), static_cast<std::ptrdiff_t>(places_) - 1)->step_ns;
  if (planned_.size() + expected_.size() < places_) return;
  auto planned = planned_.begin(), expected = expected_.begin();
  for (std::size_t place = 0; place < places_; ++place) {
    const bool is_planned =
        expected == expected_.end() || (planned != planned_.end() && planned->step_ns <= expected->step_ns);
    least_last_ns_ = is_planned ? (planned++)->step_ns : (expected++)->step_ns;
  }
}

}  // namespace tidemark::search
