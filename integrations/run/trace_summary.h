#pragma once
// What a plan did under a trace of loads, for people and for programs. Every time is simulated.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "integrations/run/trace_run.h"

namespace tidemark::run {

/// Loads of one step, of all devices of the group, also where one of them plays.
struct StepLoadFigures {
  std::int64_t step = 0;
  double most = 0;          ///< the highest of any site
  double fullest_mean = 0;  ///< of the fullest device, mean over sites: what times follow
};

struct TraceOutcome {
  std::string file;     ///< of loads
  std::string product;  ///< of the simulated device
  TraceAsk ask;
  graph_build::LoadShape shape;
  bool matched = false;         ///< ranks wait for each other's messages
  std::int64_t planned_ns = 0;  ///< of the step as planned
  double most_load = 0;
  double least_planned_load = 0, most_planned_load = 0;  ///< over ranks
  Bytes budget_bytes = 0;                                ///< of a rank
  std::vector<StepLoadFigures> loads;
  std::vector<TracedStep> steps;

  [[nodiscard]] std::int64_t refused() const;
  [[nodiscard]] std::int64_t refused_after() const;  ///< of them, since another device of the group was
  [[nodiscard]] std::int64_t races() const;
  [[nodiscard]] bool ok() const { return refused() == 0 && races() == 0; }
};

/// Plays every step of the file, one after the other; memory is that of one step and of the outcome. Errors: of the
/// file
/// (`file:line: what`), and as TraceRun.
[[nodiscard]] Result<TraceOutcome> play_trace(const plan::PlanOutcome& plan, const Machine& machine,
                                              const graph_build::LoadShape& shape, const TraceAsk& ask,
                                              const std::filesystem::path& file);

[[nodiscard]] std::string trace_text(const TraceOutcome& outcome);
/// One JSON object, documented in docs/cli.md; ends with a newline.
[[nodiscard]] std::string trace_json(const TraceOutcome& outcome);

}  // namespace tidemark::run
