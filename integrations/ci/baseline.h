#pragma once
// What jobs held when a team last agreed to it: Holdings written down, without a path, a date or a line, so that the
// same jobs give the same bytes on every machine and a file that is renamed changes nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

/// What one input of a job held.
struct InputHash {
  std::string role;           ///< `model`, `device`, `calibration`, `trace`: not a path
  std::uint64_t fnv1a64 = 0;  ///< of its bytes (content_hash.h)
  friend bool operator==(const InputHash&, const InputHash&) = default;
};

struct BaselineStorage {
  std::string name;
  budget::Category category = budget::Category::other;
  std::int64_t count = 0;
  Bytes bytes = 0;
  friend bool operator==(const BaselineStorage&, const BaselineStorage&) = default;
};

struct BaselineRank {
  std::int64_t rank = 0;
  std::string place;  ///< of an estimate, whose rows stand for stages: `pp1`; else empty
  Bytes peak_bytes = 0;
  std::optional<Bytes> host_bytes;
  budget::CategoryBytes by_category{};
  std::vector<BaselineStorage> storages;  ///< largest first, ties by name
  friend bool operator==(const BaselineRank&, const BaselineRank&) = default;
};

struct RunPeak {
  std::int64_t rank = 0;
  Bytes peak_bytes = 0;
  friend bool operator==(const RunPeak&, const RunPeak&) = default;
};
/// The peaks of one measured run, ascending by rank.
using BaselineRun = std::vector<RunPeak>;

struct BaselineJob {
  std::string name;
  budget::Basis basis = budget::Basis::planned;
  std::vector<InputHash> inputs;    ///< ascending by role, then by hash
  std::vector<BaselineRun> runs;    ///< measured only: in the order they were added
  std::vector<BaselineRank> ranks;  ///< ascending; of several runs, each rank as in the run where it was highest
  /// What its files said about its memory (control_texts.h): texts of lines, without files and numbers.
  std::vector<std::string> controls;
  friend bool operator==(const BaselineJob&, const BaselineJob&) = default;
};

struct Baseline {
  std::string tool_version;
  std::vector<BaselineJob> jobs;  ///< ascending by name, each name once
  friend bool operator==(const Baseline&, const Baseline&) = default;
};

/// Lowest and highest peak of one rank in the runs of a measured baseline.
struct Spread {
  Bytes least_bytes = 0, most_bytes = 0;
  [[nodiscard]] Bytes width_bytes() const { return most_bytes - least_bytes; }
};

[[nodiscard]] BaselineJob baseline_of(std::string_view name, std::vector<InputHash> inputs,
                                      const budget::Holdings& holdings);

/// Whether a run of these inputs is in it already.
[[nodiscard]] bool has_run(const BaselineJob& job, const std::vector<InputHash>& inputs);

/// Adds one more measured run. Errors (bad_input, without a place): either side is not measured, the run lacks a rank
/// or is in it already, or there are as many runs as a baseline holds. Then `job` is as it was.
[[nodiscard]] Status add_run(BaselineJob& job, std::vector<InputHash> inputs, const budget::Holdings& run);
inline constexpr std::size_t kMostBaselineRuns = 100;

/// Puts a job in its place by name, instead of one of its name.
void put_job(Baseline& baseline, BaselineJob job);
[[nodiscard]] const BaselineJob* find_job(const Baseline& baseline, std::string_view name);
/// Its jobs that are not named, ascending. `names`: those of a budget file.
[[nodiscard]] std::vector<std::string> names_beyond(const Baseline& baseline, const std::vector<std::string>& names);
/// Takes out jobs that are not named. `names`: those of a budget file.
void keep_jobs(Baseline& baseline, const std::vector<std::string>& names);

/// What growth is counted from; without phases, controls and the files of measured ranks, which a baseline does not
/// hold.
[[nodiscard]] budget::Holdings holdings_of(const BaselineJob& job);

/// The same job with the peaks of `judged` in place of its own: `judged` is holdings_of(job), of which something was
/// taken out. Runs of a rank are lower by as much as the rank is. REQUIRES: the same ranks.
[[nodiscard]] BaselineJob lowered_to(const BaselineJob& job, const budget::Holdings& judged);

/// Nothing: not measured, or no run has that rank.
[[nodiscard]] std::optional<Spread> spread_of(const BaselineJob& job, std::int64_t rank);

}  // namespace tidemark::ci
