#pragma once
// A plan as the settings that training frameworks understand: which settings exist, which of them a plan resembles, and
// the text that a user pastes. Settings say far less than a plan: no choice by micro-batch, mostly none by layer or
// rank. search_settings finds the values; nothing is evaluated here.

#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/program_file.h"
#include "planner/search/setting_search.h"

namespace tidemark::formats {

enum class Framework : std::uint8_t { megatron, mindspeed, mindformers };

/// A setting, and how it is written.
struct ExportWord {
  std::string option;  ///< `--recompute-modules`, `recompute`
  std::string value;   ///< one item of its list; empty: none
  Action action = Action::keep;
  std::vector<std::string> storages;   ///< module path and name; empty: whole layers
  std::int32_t rank = -1, chunk = -1;  ///< where a list per stage says it; -1: no such list
  std::string source;                  ///< where the framework defines it
};

struct ExportVocabulary {
  Framework framework = Framework::megatron;
  std::vector<ExportWord> words;
  std::vector<search::Setting> settings;  ///< of `words`, one each
  std::vector<std::string> remarks;       ///< what to mind with these settings, a line each
};

/// The settings of `framework` that do something in this job.
[[nodiscard]] ExportVocabulary vocabulary_of(Framework framework, const PlanFile& plan);

/// Where to start from: what the plan itself moves mostly, nothing, and as much as goes together.
[[nodiscard]] std::vector<search::SettingValues> starts_of(const ExportVocabulary& vocabulary, const PlanFile& plan);

/// Arguments, an option a line, or YAML; ends with a newline. Says so in a comment where nothing is set.
[[nodiscard]] std::string settings_text(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                                        const PlanFile& plan);

/// One storage that the plan and the settings treat otherwise.
struct ExportDifference {
  std::string storage;
  std::int64_t instances = 0;  ///< layers x micro-batches on the ranks planned; of state, layers
  std::int64_t plan_recomputed = 0, plan_swapped = 0;
  std::int64_t plan_offloaded = 0;  ///< of state: in host memory between steps, which no setting says
  std::int64_t settings_recomputed = 0, settings_swapped = 0;
};

/// In the order a layer makes them. `outcome`: of plan_step with the settings as policy.
[[nodiscard]] std::vector<ExportDifference> differences(const PlanFile& plan, const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
