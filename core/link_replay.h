#pragma once
// The pages of a schedule carried out on a link, copy by copy: how long ops wait, and what host memory holds.
//
// Rules. Ops run one after the other. Copying out begins when the op at Swap::after has run, copying in when the op at
// Swap::back is the next to run and all that must be gone before it is. Each direction carries one copy at a time, in
// the order in which they may begin; among those that may begin at once the one that is needed first, then the storage
// with the lower number. Nothing is copied in before it is copied out. The op at Swap::gone waits for the copy out,
// the one at Swap::before for the copy in. What has one version only is copied out once: the copy stays in host memory
// until its last page in.

#include <cstdint>
#include <vector>

#include "core/op_schedule.h"

namespace tidemark {

struct LinkReplay {
  std::int64_t waited = 0;  ///< by all ops together, in cost quanta
  Bytes host_peak_bytes = 0;
};

/// REQUIRES: the schedule keeps the rules of core/op_schedule.h. O(positions + pages * log(pages)).
[[nodiscard]] LinkReplay replay_link(const OpList& list, const OpSchedule& schedule);

}  // namespace tidemark
