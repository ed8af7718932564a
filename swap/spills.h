#pragma once
// When a routed storage that the plan keeps may leave device memory after all: between its last touch by forward and
// its first by backward, if that lasts long enough for both copies three times over.
//
//   trigger ........ release_at ............ return_at ... begin ... needed_at      (compute tasks)
//     | copy out         | waits for it           | copy in             | waits for it
//     '- d2h ------------'  its bytes are free    '- h2d ---------------'
//
// It is back, or lost, when the section that needs it begins: that one then knows whether it runs in chunks.
//
// How long a copy takes is what the plan's own copies take. A plan without any has none to tell by, and spills nothing.
//
// Pure. Threads: none. Cost: O(tasks + touches).

#include <cstdint>
#include <optional>
#include <vector>

#include "core/row_sections.h"
#include "swap/bound_program.h"

namespace tidemark::swap {

struct Spill {
  TaskId trigger = kNone<TaskId>;
  TaskId release_at = kNone<TaskId>;
  TaskId return_at = kNone<TaskId>;
  TaskId needed_at = kNone<TaskId>;
};

/// One a row of Program::routed; nothing: it may not leave. Storages that a task off the compute lane touches, or that
/// the plan copies, may not.
[[nodiscard]] std::vector<std::optional<Spill>> spills_of(const BoundProgram& bound,
                                                          const std::vector<RowSection>& sections);

}  // namespace tidemark::swap
