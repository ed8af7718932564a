#pragma once
// Which keys of a job decide how many bytes a storage takes, and how many of it there are: what a person would change.
// Keys are dotted paths of the job's YAML (docs/formats.md).

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/graph.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::plan {

/// Of a storage that planner/graph_build makes for this job: the keys that change its size, the most direct first, then
/// those that change how many a rank holds. At least one; keys that this job's kind of model does not have are left
/// out, and keys that would only set a device's properties are not named.
[[nodiscard]] std::vector<std::string_view> control_keys(const StorageTemplate& storage,
                                                         const graph_build::JobSpec& job);

/// Parts of graph_build::ReserveMemory.
enum class ReservePart : std::uint8_t { context, workspace, collectives, framework };
/// Keys of the job; `device` stands for the file that it names.
[[nodiscard]] std::vector<std::string_view> control_keys(ReservePart part);

}  // namespace tidemark::plan
