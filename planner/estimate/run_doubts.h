#pragma once
// Arguments whose values are taken, but with which no measured run agrees, or there is none: the estimate is made, the
// error band does not hold for it.

#include <string_view>
#include <vector>

#include "planner/estimate/argument_draft.h"

namespace tidemark::estimate {

struct Doubt {
  std::string_view argument;  ///< empty: of an argument that is not there
  std::string_view reason;
};

/// REQUIRES: derive found no problem. The argument may have been left at its default.
[[nodiscard]] std::vector<Doubt> doubts_of(const Draft& draft);

}  // namespace tidemark::estimate
