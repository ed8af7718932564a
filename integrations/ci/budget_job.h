#pragma once
// One job of a budget file, with the defaults of the file merged in.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/load_choice.h"
#include "integrations/ci/waiver.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// What a job is described by: the key that names its file.
enum class JobKind : std::uint8_t { model, plan, script, bridge, torchtitan, mindformers, measured };
inline constexpr std::array<std::string_view, 7> kJobKindWords = {"model",      "plan",        "script",  "bridge",
                                                                  "torchtitan", "mindformers", "measured"};
[[nodiscard]] std::string_view word_of(JobKind kind);

inline constexpr budget::Tolerance kDefaultNear{.percent = 3, .bytes = 0};
inline constexpr budget::Tolerance kDefaultGrowth{.percent = 2, .bytes = 0};

inline constexpr std::int32_t kMostWorldSize = 1 << 24;  ///< devices of a job

struct BudgetJob {
  std::string name;  ///< unique in its file; empty: a job of no budget file
  JobKind kind = JobKind::model;
  std::string file;  ///< as written, relative to the budget file; a folder of ranks for measured jobs
  /// Device memory a job may use; nothing: what its device shows.
  std::optional<Bytes> capacity_bytes;
  /// Of it kept for driver, collectives and fragmentation, in place of what a device file says; nothing: not given.
  std::optional<Bytes> reserve_bytes;
  std::optional<Bytes> host_bytes;  ///< host memory per rank; nothing: not limited
  budget::Tolerance near = kDefaultNear;
  budget::Tolerance growth = kDefaultGrowth;  ///< allowed above the baseline
  std::optional<LoadChoice> load;
  std::string policy;                      ///< of a model; empty: not given
  std::string device;                      ///< of a model or an estimate; empty: not given
  std::string accelerator;                 ///< of an estimate, a word of --accelerator
  std::optional<std::int32_t> world_size;  ///< of an estimate
  std::string calibration;                 ///< file, relative to the budget file
  std::string predicted_by;                ///< of a measured job: the job that predicts it; empty: none
  std::vector<budget::Limit> limits;       ///< beside the device's and the host's
  std::vector<Waiver> waivers;
  int line = 0;                                ///< of the budget file; 0: of none
  std::map<std::string, int, std::less<>> at;  ///< lines of its keys, those of defaults included
  /// Where a key is said, or where the job begins.
  [[nodiscard]] int line_of(std::string_view key) const;
};

}  // namespace tidemark::ci
