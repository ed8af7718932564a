#pragma once
// What the ranks of a framework's run hold, term by term: `tidemark estimate` with --megatron-args. JSON members are a
// contract with scripts (docs/cli.md).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/rank_memory.h"

namespace tidemark::formats {

struct RankMemoryReport {
  std::string what;  ///< the file
  const estimate::ImportedRun* imported = nullptr;
  std::vector<estimate::RankMemory> stages;
  std::vector<std::string> notes;  ///< one line each: calibrations that were used
};

/// `H100`, as reports name it.
[[nodiscard]] std::string_view accelerator_text(estimate::Accelerator accelerator);

/// `most`: terms listed per stage.
[[nodiscard]] std::string rank_memory_text(const RankMemoryReport& report, std::size_t most);
/// Every term.
[[nodiscard]] std::string rank_memory_json(const RankMemoryReport& report);

}  // namespace tidemark::formats
