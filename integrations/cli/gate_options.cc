#include "integrations/cli/gate_options.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "integrations/ci/tolerance_text.h"
#include "integrations/cli/options.h"

namespace tidemark::cli {
namespace {

constexpr std::string_view kGrowth = "growth=";
/// Of the year 9999: what a date of four digits of a year can say.
constexpr std::int64_t kLastSecond = 253'402'300'799;

ci::Date day_of(std::chrono::sys_seconds seconds) {
  return ci::Date{std::chrono::floor<std::chrono::days>(seconds)};
}

}  // namespace

Result<budget::Tolerance> parse_fail_on(std::string_view text) {
  if (!text.starts_with(kGrowth))
    return bad_input(fmt::format("'{}' is not known; write growth=2% or growth=512MiB", text));
  return ci::parse_tolerance(text.substr(kGrowth.size()));
}

void add_fail_on(CLI::App& app, std::optional<budget::Tolerance>& value, const std::string& help) {
  app.add_option_function<std::string>(
         "--fail-on",
         [&value](const std::string& text) {
           Result<budget::Tolerance> parsed = parse_fail_on(text);
           if (!parsed) throw CLI::ValidationError("--fail-on", parsed.error().message);
           value = parsed.value();
         },
         help)
      ->type_name("growth=2%");
}

void add_today(CLI::App& app, std::optional<ci::Date>& value) {
  app.add_option_function<std::string>(
         "--today",
         [&value](const std::string& text) {
           Result<ci::Date> parsed = ci::parse_date(text);
           if (!parsed) throw CLI::ValidationError("--today", parsed.error().message);
           value = parsed.value();
         },
         "the day that waivers are held against; default: SOURCE_DATE_EPOCH, else the clock's (UTC)")
      ->type_name("YYYY-MM-DD");
}

Result<ci::Date> today_of(const std::optional<ci::Date>& given) {
  if (given) return *given;
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr || *epoch == '\0')
    return day_of(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  const std::string_view text = epoch;
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0 || seconds > kLastSecond)
    return bad_input(
        fmt::format("SOURCE_DATE_EPOCH: '{}' is no number of seconds since 1970; --today would say", text));
  return day_of(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
}

}  // namespace tidemark::cli
