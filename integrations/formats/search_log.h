#pragma once
// What a search of layouts has finished, a line each, so that it can go on where it was stopped: a header with a
// fingerprint of the request, then one line of tab-separated fields per layout. Only ever appended to; a last line that
// was cut off is dropped. Values to text and back; no files.

#include <map>
#include <string>
#include <string_view>

#include "core/result.h"
#include "planner/search/layout_search.h"

namespace tidemark::formats {

/// The first line, newline included. Requests differ in it if any figure may differ: job, device, budgets, load,
/// policy.
[[nodiscard]] std::string search_header(const plan::PlanRequest& request, std::string_view version);

/// One line, newline included.
[[nodiscard]] std::string search_line(const search::SearchLayout& layout, const search::LayoutFigures& figures);

struct SearchLog {
  std::map<std::string, search::LayoutFigures> known;  ///< by layout_text
  std::size_t whole_bytes = 0;                         ///< without a last line that was cut off
};

/// Empty text is an empty log. Errors (bad_input): `file:line:` another search's, or a line that is none.
[[nodiscard]] Result<SearchLog> read_search_log(std::string_view text, std::string_view file_name,
                                                std::string_view header);

}  // namespace tidemark::formats
