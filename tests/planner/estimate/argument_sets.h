#pragma once
// Argument sets for tests, written as a command line.

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/argument_table.h"

namespace tidemark::estimate::testing {

/// `--num-layers 4 --bf16`: options with their values; lists keep one blank between items.
[[nodiscard]] inline ArgumentSet arguments(std::string_view line) {
  ArgumentSet set;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      set.arguments.push_back({.name = word.substr(2),
                               .value = "",
                               .is_switch = true,
                               .place = "run.sh:" + std::to_string(set.arguments.size() + 1)});
    } else {
      Argument& last = set.arguments.back();
      last.value += (last.value.empty() ? "" : " ") + word;
      last.is_switch = false;
    }
  }
  return set;
}

/// A small GPT that fits eight devices.
inline constexpr std::string_view kSmall =
    "--num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --micro-batch-size 4 "
    "--global-batch-size 32 --bf16 ";

/// Megatron-LM's, on eight devices.
[[nodiscard]] inline RunHints on_eight() {
  return {.platform = {.devices = 8}};
}

/// `more` after kSmall: of equal names the last counts.
[[nodiscard]] inline Result<ImportedRun> import_small(std::string_view more, const RunHints& hints = on_eight()) {
  return import_run(arguments(std::string(kSmall) + std::string(more)), hints);
}

[[nodiscard]] inline RunHints on_ascend(std::int64_t devices = 8) {
  return {.platform = {.framework = Framework::mindspeed_llm, .accelerator = Accelerator::ascend, .devices = devices}};
}

}  // namespace tidemark::estimate::testing
