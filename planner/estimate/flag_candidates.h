#pragma once
// Flags that lower what a run holds, as its framework has them: only those it would take beside what is given.

#include <string_view>
#include <vector>

#include "planner/estimate/flag_edit.h"

namespace tidemark::estimate {

struct FlagCandidate {
  std::string_view family;  ///< two of one family are never taken together: levels of one thing
  std::vector<Flag> flags;  ///< with what the framework needs beside it
};

/// In a fixed order, from what changes nothing about the arithmetic to what changes most: of equal costs the first is
/// taken. Rules that forbid a flag come from the frameworks' own checks (megatron/training/arguments.py,
/// megatron/core/transformer/transformer_config.py, mindspeed/features_manager). Whether a candidate lowers anything is
/// for an estimate to say. World size and global batch are kept.
[[nodiscard]] std::vector<FlagCandidate> flag_candidates(const ArgumentSet& set, const TrainingRun& run);

/// No rule of a framework is against these flags beside each other, and none makes another one moot.
[[nodiscard]] bool fit_together(const std::vector<Flag>& flags);

}  // namespace tidemark::estimate
