#pragma once
// A rank's memory over the modelled step as few enough points to draw: what is held by role, and by whom.

#include <array>
#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// Bytes held from `time_ns` until the next sample.
struct MemorySample {
  std::int32_t clock = 0;    ///< half-step of the compute clock (core/schedule.h)
  std::int64_t time_ns = 0;  ///< modelled
  std::array<Bytes, kStorageRoleCount> bytes{};
  [[nodiscard]] Bytes total() const;
};

/// At most `points` samples that keep every maximum: the step is cut into slices of equal modelled time, and of each
/// slice the highest position and the last are taken. The rank's peak is always among them. REQUIRES: points >= 2.
[[nodiscard]] std::vector<MemorySample> memory_samples(const plan::RankPlan& rank, std::int64_t step_ns,
                                                       std::int32_t points);

/// The modelled time of a half-step of the rank's compute clock.
[[nodiscard]] std::int64_t time_of(const plan::RankPlan& rank, const std::vector<TaskId>& compute_tasks,
                                   std::int32_t clock);

/// Tasks on the compute lane, in order: the k-th spans half-steps 2k and 2k+1.
[[nodiscard]] std::vector<TaskId> compute_tasks_of(const Schedule& schedule);

/// Storages of one template in one layer: who holds bytes.
struct Holder {
  StorageTemplateId storage_template = kNone<StorageTemplateId>;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
};

struct HolderSeries {
  std::vector<Holder> holders;
  struct Share {
    std::int32_t holder = 0;  ///< row of `holders`
    std::int32_t count = 0;   ///< storages held
    Bytes bytes = 0;          ///< together
  };
  std::vector<std::vector<Share>> shares;  ///< per sample, largest first
};

/// The `most` largest holders at each sample (ascending clock), static storages left out. One sweep over the
/// residencies.
[[nodiscard]] HolderSeries largest_holders(const plan::RankPlan& rank, const std::vector<MemorySample>& samples,
                                           std::size_t most);

}  // namespace tidemark::formats
