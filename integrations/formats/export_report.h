#pragma once
// What `tidemark export` prints: the settings, what they come to by the planner's own evaluation, and what of the plan
// they do not say.

#include <string>

#include "integrations/formats/export_arguments.h"

namespace tidemark::formats {

/// Borrowed for the call.
struct ExportReport {
  const PlanFile& plan;
  const ExportVocabulary& vocabulary;
  const search::SettingOutcome& settings;
};

[[nodiscard]] std::string export_text(const ExportReport& report);
[[nodiscard]] std::string export_json(const ExportReport& report);

}  // namespace tidemark::formats
