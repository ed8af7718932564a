#include "integrations/ci/job_limit.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/plain_words.h"
#include "integrations/ci/rank_choice_text.h"
#include "integrations/ci/tolerance_text.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/yaml_fields.h"

namespace tidemark::ci {
namespace {

using formats::Need;
using formats::YamlDocument;
using formats::YamlMap;
using formats::YamlNode;

template <class Value, std::size_t Count>
std::vector<std::pair<std::string_view, Value>> numbered(const std::array<std::string_view, Count>& words) {
  std::vector<std::pair<std::string_view, Value>> pairs;
  for (std::size_t i = 0; i < Count; ++i) pairs.emplace_back(words[i], static_cast<Value>(i));
  return pairs;
}

/// What a limit or a waiver is for: at most one of phase, category and host (and growth).
void read_scope(YamlMap& map, WaiverScope& scope, bool may_be_growth) {
  const auto phases = numbered<budget::Phase>(budget::kPhaseWords);
  const auto categories = numbered<budget::Category>(budget::kCategoryWords);
  budget::Phase phase{};
  budget::Category category{};
  if (map.choice<budget::Phase>("phase", phase, phases, Need::optional)) scope.phase = phase;
  if (map.choice<budget::Category>("category", category, categories, Need::optional)) scope.category = category;
  map.boolean("host", scope.is_host, Need::optional);
  if (may_be_growth) map.boolean("growth", scope.is_growth, Need::optional);
  std::string_view first;
  for (const std::string_view key : {"phase", "category", "host", "growth"}) {
    if (!map.has(key) || (key == "host" && !scope.is_host) || (key == "growth" && !scope.is_growth)) continue;
    if (!first.empty()) map.wrong(key, fmt::format("{} and {} are not told together; keep one of them", first, key));
    if (first.empty()) first = key;
  }
}

void read_most(YamlMap& map, Bytes& most) {
  map.quantity("at_most", most, parse_bytes, "50GiB", Need::required);
  if (most > formats::kMostPlanBytes)
    map.wrong("at_most", fmt::format("at_most is {}; it is at most {}", format_bytes(most),
                                     format_bytes(formats::kMostPlanBytes)));
}

budget::Limit read_limit(YamlMap map, const budget::Tolerance& near) {
  budget::Limit limit{.near = near, .line = map.line()};
  WaiverScope scope;
  read_scope(map, scope, false);
  limit.phase = scope.phase;
  limit.category = scope.category;
  limit.is_host = scope.is_host;
  map.quantity("ranks", limit.ranks, parse_rank_choice, "0-3,15", Need::optional);
  read_most(map, limit.most_bytes);
  read_tolerance(map, "near", limit.near);
  if (limit.near.percent >= 100) map.wrong("near", "near must be below 100 %");
  map.finish();
  return limit;
}

/// Of its words in the log of a job. Ends of lines are shown as `?`.
void expect_fit_words(YamlMap& map, std::string_view key, const std::string& text) {
  const std::optional<std::string_view> why = unfit_text(text);
  if (why) map.wrong(key, fmt::format("{} {} {}", key, formats::shown(text), *why));
}

Waiver read_waiver(YamlMap map) {
  Waiver waiver{.line = map.line()};
  map.text("owner", waiver.owner, Need::required);
  map.text("reason", waiver.reason, Need::required);
  expect_fit_words(map, "owner", waiver.owner);
  expect_fit_words(map, "reason", waiver.reason);
  map.quantity("expires", waiver.expires, parse_date, "2026-12-31", Need::required);
  map.quantity("ranks", waiver.ranks, parse_rank_choice, "0-3,15", Need::optional);
  read_scope(map, waiver.scope, true);
  read_most(map, waiver.at_most_bytes);
  map.finish();
  return waiver;
}

/// A section of each item of a list, by its own path, so that lines of one are not taken for those of another.
template <class Read>
void each_item(YamlDocument& document, YamlMap& map, std::string_view key, std::string_view example, Read read) {
  const YamlNode* list = map.list(key, example, Need::optional);
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const YamlNode& item = *list->items[i].value;
    read(YamlMap(document, item, fmt::format("{}[{}]", map.path_of(key), i), item.line));
  }
}

}  // namespace

void read_limits(YamlDocument& document, YamlMap& map, BudgetJob& job) {
  each_item(document, map, "limits", "[{phase: backward, at_most: 50GiB}]",
            [&](YamlMap item) { job.limits.push_back(read_limit(std::move(item), job.near)); });
}

void read_waivers(YamlDocument& document, YamlMap& map, BudgetJob& job) {
  each_item(document, map, "waivers", "[{owner: a@b.c, reason: why, expires: 2026-12-31, at_most: 62GiB}]",
            [&](YamlMap item) { job.waivers.push_back(read_waiver(std::move(item))); });
}

}  // namespace tidemark::ci
