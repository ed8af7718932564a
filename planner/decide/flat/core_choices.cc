#include "planner/decide/flat/core_choices.h"

#include <limits>

#include "planner/decide/gaps/search.h"

namespace tidemark::decide::flat {

CoreChoices::CoreChoices(const Problem& problem) : gaps_(list_gaps(problem, GapUse::choice)), pricer_(problem, gaps_) {
  add_moves(problem, gaps_);
}

Solution CoreChoices::within(Bytes budget, const std::function<bool()>& should_stop) {
  constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max() / 4;  // host memory is seen to elsewhere
  const gaps::SearchResult found =
      gaps::search_optimal(gaps_.problem, pricer_, budget, kNoLimit, gaps::SearchDepth::rounding, should_stop);
  pricer_.price(found.choice);
  return pricer_.solution();
}

}  // namespace tidemark::decide::flat
