#pragma once
// From what a row of measured step times says to the run that is priced, or why it is not.
//
// Sources print different things and leave different things out; every rule that fills a gap is one function of
// row_run.cc with its reason. Rules look at arguments, the source and the model's name. Two things stand in the id of a
// row only, and are read there: `/PURE` (llm-foundry, reduction in bf16) and `_pack_` (MindSpeed-LLM, packed
// documents); `GRAD_OP` and `swap` beside the members that may say the same.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/step_time/row_words.h"
#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

struct RowRun {
  std::string software;  ///< name of a Software; empty: not known
  TimedRun run;          ///< where nothing is refused: all that step_seconds requires, save that a device has the
                         ///< precision
  std::string refused;   ///< why there is no run; empty: there is one
  std::vector<std::string> notes;  ///< what changes time and is not priced, or was assumed; a line each
};

/// REQUIRES: counts of `row` are at least 0 (dense_layers and moe_every: -1) and at most 2^32, degrees at most 2^20.
/// Pure; any thread.
[[nodiscard]] RowRun run_of(const RowWords& row);

/// fp8row (scales by rows) is fp8. nullopt: not one that is priced.
[[nodiscard]] std::optional<Precision> precision_of(std::string_view word);

}  // namespace tidemark::step_time
