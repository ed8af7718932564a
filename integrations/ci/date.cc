#include "integrations/ci/date.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

std::optional<int> digits_in(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

Result<Date> parse_date(std::string_view text) {
  const bool is_formed = text.size() == 10 && text[4] == '-' && text[7] == '-';
  const auto year = is_formed ? digits_in(text.substr(0, 4)) : std::nullopt;
  const auto month = is_formed ? digits_in(text.substr(5, 2)) : std::nullopt;
  const auto day = is_formed ? digits_in(text.substr(8, 2)) : std::nullopt;
  if (!year || !month || !day)
    return bad_input(fmt::format("{} is not a day; write it like 2026-12-31", formats::shown(text)));
  const Date date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                  std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return bad_input(fmt::format("{} is a day that no calendar has", formats::shown(text)));
  return date;
}

std::string date_text(Date date) {
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

}  // namespace tidemark::ci
