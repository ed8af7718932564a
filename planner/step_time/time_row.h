#pragma once
// A training run that was timed, as a row of a file of measured step times says it. docs/formats.md has the members.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

struct TimeRow {
  std::string id;
  std::string group;      ///< runs of the same job: layouts are ranked inside it
  std::string split_key;  ///< near-copies share it: counted as one
  std::string track;      ///< that it is scored in (tracks.h)
  std::string software;   ///< name of a Software; empty: not known, and refused
  std::string device;     ///< as the row says it
  std::string precision;  ///< as the row says it
  std::int64_t devices = 0;
  std::optional<double> measured_s;         ///< a step; none: not stated, only predicted
  std::optional<double> model_flops_per_s;  ///< a device, causal, no recompute: for the rival
  bool is_scored = false;                   ///< its arguments are complete and its figure is not from memory
  TimedRun run;
  std::string refused;             ///< why nothing is predicted; empty: `run` is there
  std::vector<std::string> notes;  ///< what changes time and is not priced, or was assumed; a line each
};

}  // namespace tidemark::step_time
