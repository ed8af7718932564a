#pragma once
// The fixed parts of the report: styles, sections of views, and scripts. The scripts draw what report_data.h describes
// and nothing else.

#include <string>
#include <string_view>

namespace tidemark::formats {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;  ///< memory over the step

/// `tidemarkPicture`: the page's data and the reader of its columns, zooms, and what both views on a canvas share.
/// Before every other script.
extern const std::string_view kPictureStyle, kPictureScript;
[[nodiscard]] std::string pipeline_section();  ///< what each rank does when
[[nodiscard]] std::string address_section();   ///< address over time
extern const std::string_view kPipelineScript, kAddressScript;

}  // namespace tidemark::formats
