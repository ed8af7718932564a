#pragma once
// A day, as waivers name their last one. The caller says which day it is: nothing here asks a clock.

#include <chrono>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark::ci {

using Date = std::chrono::year_month_day;

/// `2026-12-31`. Errors (bad_input, without a place): another form, a day that no calendar has.
[[nodiscard]] Result<Date> parse_date(std::string_view text);
/// REQUIRES: a day that the calendar has, of the years 0 to 9999.
[[nodiscard]] std::string date_text(Date date);

}  // namespace tidemark::ci
