#pragma once
// What the ranks of one job hold, whatever kind of job it is: the road from a file to what a gate judges.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/ci/baseline.h"
#include "integrations/ci/budget_job.h"
#include "integrations/cli/job_request.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"
#include "planner/budget/remedy.h"

namespace tidemark::cli {

class Console;

struct AnsweredJob {
  budget::Holdings holdings;
  std::optional<Bytes> device_capacity_bytes;  ///< what the device shows; nothing: no device is named
  Bytes device_reserve_bytes = 0;              ///< of an estimate: what the device file keeps from the framework
  std::optional<Bytes> host_capacity_bytes;    ///< of a plan: the host memory that it was made for
  std::string broken_rule;                     ///< of a plan file whose program is not sound; empty: it is
  std::vector<ci::InputHash> inputs;           ///< ascending by role
  /// The cheapest change after which the limits are kept; empty: this kind of job has none (it was measured).
  std::function<Result<budget::Remedy>(const std::vector<budget::Limit>&)> find_remedy;
  std::string why_no_remedy;  ///< where find_remedy is empty: a line
};

/// A file of a job with the options that go with it: those of the command line, or of a budget file. The file is
/// `model` of a model or plan, `megatron_args` of what a framework reads, else `measured`.
struct JobFile {
  ci::JobKind kind = ci::JobKind::model;
  JobOptions options;
  std::filesystem::path measured;  ///< a file of a run, or its folder of ranks
  /// Off the capacity in place of the device file's reserve: what a policy that plans to a budget has to know.
  std::optional<Bytes> reserve_bytes;
};

/// Errors: those of the readers, of planning and of estimating; one line that names the file.
[[nodiscard]] Result<AnsweredJob> answer(const JobFile& file, const Console& console);

/// The parts of `answer`, a kind each.
[[nodiscard]] Result<AnsweredJob> answer_model(const JobFile& file, const Console& console);
[[nodiscard]] Result<AnsweredJob> answer_plan(const JobFile& file, const Console& console);
[[nodiscard]] Result<AnsweredJob> answer_arguments(const JobFile& file, const Console& console);
[[nodiscard]] Result<AnsweredJob> answer_measured(const JobFile& file, const Console& console);

/// The file that names the job in messages.
[[nodiscard]] std::filesystem::path subject_of(const JobFile& file);

}  // namespace tidemark::cli
