#pragma once
// The options of `tidemark calibrate` that name measurements of memory, and the ranks they come to.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/cli/job_request.h"
#include "planner/estimate/measured_run.h"

namespace CLI {
class App;
}

namespace tidemark::cli {

struct MemorySources {
  std::filesystem::path measured;         ///< figures per rank
  std::filesystem::path operator_memory;  ///< torch_npu profiler
  std::filesystem::path snapshot;         ///< PyTorch or torch_npu
  std::filesystem::path truth;            ///< rows with their arguments
  std::string case_name, variant;         ///< of the row in `truth`
  int rank = -1;                          ///< of a profile; -1: the rank the framework logs
};

void add_memory_sources(CLI::App& app, MemorySources& sources);

/// A run and what was measured on its ranks, each with its number and a steady figure.
struct MeasuredMemory {
  estimate::TrainingRun run;
  std::vector<estimate::MeasuredRank> ranks;
  std::string source;  ///< one line, for people
};

/// None: no source is named. The run is that of the row in `truth`, or else of --megatron-args. Errors (bad_input):
/// more than one source, arguments missing, no such row, and those of the readers.
[[nodiscard]] Result<std::optional<MeasuredMemory>> read_measured(const MemorySources& sources, const JobOptions& job);

/// Files named, so that no output replaces an input.
[[nodiscard]] std::vector<std::filesystem::path> inputs_of(const MemorySources& sources);

}  // namespace tidemark::cli
