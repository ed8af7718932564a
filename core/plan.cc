#include "core/plan.h"

#include <algorithm>

namespace tidemark {

const Decision* Plan::find(const GapKey& key) const {
  const auto it = std::lower_bound(decisions.begin(), decisions.end(), key,
                                   [](const Decision& d, const GapKey& k) { return d.key < k; });
  return it != decisions.end() && it->key == key ? &*it : nullptr;
}

Action Plan::action_of(const GapKey& key, std::int32_t micro_batch) const {
  const Decision* decision = find(key);
  if (decision == nullptr) return Action::keep;
  const auto& list = decision->exceptions;
  const auto it = std::lower_bound(list.begin(), list.end(), micro_batch,
                                   [](const Decision::Exception& e, std::int32_t mb) { return e.micro_batch < mb; });
  return it != list.end() && it->micro_batch == micro_batch ? it->action : decision->action;
}

}  // namespace tidemark
