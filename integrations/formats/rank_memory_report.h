#pragma once
// What the ranks of a framework's run hold, term by term, and whether that fits: `tidemark estimate` and
// `tidemark check` with --megatron-args. JSON members are a contract with scripts (docs/cli.md).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/error_band.h"
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

enum class BandVerdict : std::uint8_t {
  pass,  ///< the highest peak and the band above it are within the budget
  near,  ///< the peak is, the band is not: it may not fit
  fail,
};

struct BandCheck {
  BandVerdict verdict = BandVerdict::pass;
  std::size_t worst = 0;  ///< of the stages
  Bytes peak_bytes = 0;   ///< of the worst, without the band
  Bytes band_bytes = 0;
  Bytes budget_bytes = 0;
};

/// REQUIRES: at least one stage. `stages` are of a cautious run (error_band.h).
/// `understood`: every argument is. Where one is not, nothing measured says how far off the prediction is: no PASS.
[[nodiscard]] BandCheck check_band(const std::vector<estimate::RankMemory>& stages, const estimate::ErrorBand& band,
                                   Bytes budget_bytes, bool understood);

[[nodiscard]] std::string band_check_text(const RankMemoryReport& report, const BandCheck& check, std::size_t most);
[[nodiscard]] std::string band_check_json(const RankMemoryReport& report, const BandCheck& check);

}  // namespace tidemark::formats
