#pragma once
// A limit that may be exceeded for a while: by whom, why, up to how much, through which day.

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "integrations/ci/date.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// What a waiver is for: the device total, unless it names another thing as limits do.
struct WaiverScope {
  std::optional<budget::Phase> phase;
  std::optional<budget::Category> category;
  bool is_host = false;
  bool is_growth = false;  ///< growth above the baseline, in place of a limit
  friend bool operator==(const WaiverScope&, const WaiverScope&) = default;
};

struct Waiver {
  std::string owner;   ///< who answers for it
  std::string reason;  ///< one line
  Date expires{};      ///< its last day: it holds through that day
  budget::RankChoice ranks;
  WaiverScope scope;
  Bytes at_most_bytes = 0;  ///< more than this is a FAIL whatever the waiver says
  int line = 0;             ///< of the budget file
  [[nodiscard]] bool is_expired(Date today) const { return today > expires; }
  friend bool operator==(const Waiver&, const Waiver&) = default;
};

}  // namespace tidemark::ci
