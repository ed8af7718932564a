#pragma once
// Which terms of step time the settings of an export rest on. Private to export_report.

#include "core/time_term.h"
#include "integrations/formats/export_arguments.h"

namespace tidemark::formats {

/// Of the settings that are on.
[[nodiscard]] TimeTerms terms_of(const ExportVocabulary& vocabulary, const search::SettingValues& values);

}  // namespace tidemark::formats
