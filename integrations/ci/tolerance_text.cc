#include "integrations/ci/tolerance_text.h"

#include <fmt/format.h>

#include <optional>

#include "core/bytes.h"
#include "integrations/ci/decimal_text.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

/// `2%` or `2.5 %`: digits, with a point or without.
std::optional<double> percent_in(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  if (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  return parse_decimal(text);
}

std::string most_percent_text() {
  return fmt::format("a percentage is from 0 to {:.0f}", kMostTolerancePercent);
}

std::string most_bytes_text() {
  return fmt::format("a size is at most {}", format_bytes(formats::kMostPlanBytes));
}

void read_tolerance_map(formats::YamlMap map, budget::Tolerance& out) {
  if (!map.has("percent") && !map.has("bytes"))
    map.wrong("percent", "a tolerance says neither percent nor bytes; write {percent: 2, bytes: 512MiB}");
  budget::Tolerance read{};
  map.real("percent", read.percent, formats::Need::optional);
  map.quantity("bytes", read.bytes, parse_bytes, "512MiB", formats::Need::optional);
  if (read.percent < 0 || read.percent > kMostTolerancePercent) map.wrong("percent", most_percent_text());
  if (read.bytes > formats::kMostPlanBytes) map.wrong("bytes", most_bytes_text());
  map.finish();
  out = read;
}

}  // namespace

Result<budget::Tolerance> parse_tolerance(std::string_view text) {
  constexpr std::string_view kExample = "write a tolerance like 2% or 512MiB";
  if (text.ends_with('%')) {
    const std::optional<double> percent = percent_in(text);
    if (!percent) return bad_input(fmt::format("{} is not a percentage; {}", formats::shown(text), kExample));
    if (*percent > kMostTolerancePercent)
      return bad_input(fmt::format("{} is too much; {}", formats::shown(text), most_percent_text()));
    return budget::Tolerance{.percent = *percent, .bytes = 0};
  }
  const Result<Bytes> bytes = parse_bytes(text);
  if (!bytes)
    return bad_input(fmt::format("{} is neither a percentage nor a size; {}", formats::shown(text), kExample));
  if (bytes.value() > formats::kMostPlanBytes)
    return bad_input(fmt::format("{} is too much; {}", formats::shown(text), most_bytes_text()));
  return budget::Tolerance{.percent = 0, .bytes = bytes.value()};
}

std::string tolerance_text(const budget::Tolerance& tolerance) {
  if (tolerance.bytes == 0) return fmt::format("{} %", tolerance.percent);
  if (tolerance.percent == 0) return format_bytes(tolerance.bytes);
  return fmt::format("{} % or {}", tolerance.percent, format_bytes(tolerance.bytes));
}

void read_tolerance(formats::YamlMap& map, std::string_view key, budget::Tolerance& out) {
  const formats::YamlNode* node = map.any(key, "2%", formats::Need::optional);
  if (node == nullptr) return;
  if (node->is_map()) {
    if (std::optional<formats::YamlMap> section = map.section(key, formats::Need::optional))
      read_tolerance_map(*std::move(section), out);
    return;
  }
  map.quantity(key, out, parse_tolerance, "2%", formats::Need::optional);
}

}  // namespace tidemark::ci
