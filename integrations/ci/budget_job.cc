#include "integrations/ci/budget_job.h"

#include <cstddef>

namespace tidemark::ci {

std::string_view word_of(JobKind kind) {
  return kJobKindWords[static_cast<std::size_t>(kind)];
}

int BudgetJob::line_of(std::string_view key) const {
  const auto found = at.find(key);
  return found == at.end() ? line : found->second;
}

}  // namespace tidemark::ci
