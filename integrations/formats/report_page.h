#pragma once
// The fixed parts of the report: its style and its script. The script draws what report_data.h describes and nothing
// else.

#include <string_view>

namespace tidemark::formats {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace tidemark::formats
