#include "integrations/ci/load_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/result.h"
#include "integrations/ci/decimal_text.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

constexpr std::string_view kExample = "write p99, a number like 1.5 or {trace: FILE, quantile: p99}";

/// `p99.9`: a quantile above 0 and at most kMostLoadQuantile, which is as far out as loads are sampled.
Result<double> parse_quantile(std::string_view text) {
  const std::optional<double> percent = text.starts_with('p') ? parse_decimal(text.substr(1)) : std::nullopt;
  if (!percent) return bad_input(fmt::format("{} is no quantile; write it like p99", formats::shown(text)));
  if (!(*percent > 0 && *percent <= kMostLoadQuantile * 100))
    return bad_input(fmt::format("{} is not above p0 and at most p{}", formats::shown(text), kMostLoadQuantile * 100));
  return std::min(*percent / 100, kMostLoadQuantile);  // 99.9 / 100 is a little above 0.999
}

Result<LoadChoice> parse_load(std::string_view text) {
  if (text.starts_with('p')) {
    const Result<double> quantile = parse_quantile(text);
    if (!quantile) return quantile.error();
    return LoadChoice{.quantile = quantile.value()};
  }
  const std::optional<double> load = parse_decimal(text);
  if (!load) return bad_input(fmt::format("{} is no expert load; {}", formats::shown(text), kExample));
  const formats::RealRange range = formats::real_range_of("load");
  if (!range.holds(*load))
    return bad_input(fmt::format("{} must be above {} and at most {}", formats::shown(text), range.least, range.most));
  if (*load < 1)
    return bad_input(fmt::format("{} is below 1; the fullest device of a group has the mean load at least, {}",
                                 formats::shown(text), kExample));
  return LoadChoice{.load = *load};
}

}  // namespace

void read_load(formats::YamlMap& map, std::optional<LoadChoice>& out) {
  const formats::YamlNode* node = map.any("load", "p99", formats::Need::optional);
  if (node == nullptr) return;
  LoadChoice read;
  if (node->is_map()) {
    std::optional<formats::YamlMap> section = map.section("load", formats::Need::optional);
    double quantile = 0;
    section->text("trace", read.trace, formats::Need::required);
    section->quantity("quantile", quantile, parse_quantile, "p99", formats::Need::required);
    section->finish();
    read.quantile = quantile;
  } else {
    map.quantity("load", read, parse_load, "p99", formats::Need::optional);
  }
  out = read;
}

}  // namespace tidemark::ci
