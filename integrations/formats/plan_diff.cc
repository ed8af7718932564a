#include "integrations/formats/plan_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "integrations/formats/field_visitors.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Kind = DecisionChange::Kind;
constexpr std::array<std::string_view, 5> kKindNames = {"added", "removed", "grown", "shrunk", "changed"};

/// Owned copy of NamedDecision::key.
using Key = std::tuple<std::int32_t, std::string, std::string, std::int32_t, std::int32_t, std::int32_t>;

Kind kind_of(const NamedDecision& before, const NamedDecision& after) {
  if (before.moved() == 0) return Kind::added;
  if (after.moved() == 0) return Kind::removed;
  if (after.moved_bytes() != before.moved_bytes())
    return after.moved_bytes() > before.moved_bytes() ? Kind::grown : Kind::shrunk;
  return Kind::changed;
}

bool same(const NamedDecision& a, const NamedDecision& b) {
  return a.kept == b.kept && a.recomputed == b.recomputed && a.swapped == b.swapped && a.recipe == b.recipe &&
         a.instance_bytes == b.instance_bytes;
}

std::vector<DecisionChange> diff_decisions(const PlanFile& before, const PlanFile& after) {
  std::map<Key, DecisionChange> changes;
  for (const PlanFile::Rank& rank : before.ranks)
    for (NamedDecision& d : named_decisions(rank)) changes[Key(d.key())].before = std::move(d);
  for (const PlanFile::Rank& rank : after.ranks)
    for (NamedDecision& d : named_decisions(rank)) changes[Key(d.key())].after = std::move(d);
  std::vector<DecisionChange> list;
  for (auto& [key, change] : changes) {
    if (same(change.before, change.after)) continue;
    change.kind = kind_of(change.before, change.after);
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::greater<>{}, [](const DecisionChange& c) { return std::abs(c.delta_bytes()); });
  return list;
}

std::vector<RankChange> diff_ranks(const PlanFile& before, const PlanFile& after) {
  std::map<std::int32_t, RankChange> changes;
  for (const PlanFile::Rank& rank : before.ranks) {
    RankChange& change = changes[rank.figures.rank];
    change.before = rank.figures;
    change.has_before = true;
  }
  for (const PlanFile::Rank& rank : after.ranks) {
    RankChange& change = changes[rank.figures.rank];
    change.after = rank.figures;
    change.has_after = true;
  }
  std::vector<RankChange> list;
  for (auto& [rank, change] : changes) {
    change.rank = rank;
    list.push_back(std::move(change));
  }
  return list;
}

template <class T>
Json json_of(const T& value) {
  std::string text;
  JsonText json(text);
  write_object(json, value);
  return Json::parse(text);
}

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Values by key; lists as one text each.
void list_values(const std::string& key, const Json& value, std::map<std::string, std::string>& values) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) list_values(key.empty() ? name : key + "." + name, member, values);
  } else if (!value.is_null()) {
    values[key] = value.dump();
  }
}

std::map<std::string, std::string> inputs_of(const PlanFile& plan) {
  Json inputs = json_of(plan.job);
  inputs["device"] = json_of(plan.machine);
  inputs["policy"] = plan.policy;
  inputs["budget_bytes"] = json_of(plan.budget_bytes);
  inputs["host_budget_bytes"] = json_of(plan.host_budget_bytes);
  inputs["load"] = json_of(plan.load);
  inputs["time_scale"] = plan.time_scale;
  if (plan.graph != nullptr) inputs["step"] = plan.step_name;
  std::map<std::string, std::string> values;
  list_values("", inputs, values);
  return values;
}

std::vector<InputChange> diff_inputs(const PlanFile& before, const PlanFile& after) {
  std::map<std::string, InputChange> changes;
  for (const auto& [key, value] : inputs_of(before)) changes[key].before = value;
  for (const auto& [key, value] : inputs_of(after)) changes[key].after = value;
  std::vector<InputChange> list;
  for (auto& [key, change] : changes) {
    if (change.before == change.after) continue;
    const bool is_list = change.before.starts_with('[') || change.after.starts_with('[');
    list.push_back(is_list ? InputChange{.key = key}
                           : InputChange{.key = key, .before = change.before, .after = change.after});
  }
  return list;
}

/// Sizes with a unit, in bytes where rounding would hide what differs.
std::string value_text(const InputChange& change, const std::string& value) {
  if (value.empty()) return "the default";
  if (!change.key.ends_with("_bytes")) return value;
  const auto size = [](const std::string& bytes) {
    const Json parsed = bytes.empty() ? Json() : Json::parse(bytes);
    return parsed.is_number_integer() ? format_bytes(parsed.get<Bytes>()) : bytes;
  };
  return size(change.before) == size(change.after) ? value + " B" : size(value);
}

std::string input_lines(const std::vector<InputChange>& inputs) {
  if (inputs.empty()) return {};
  std::string text = "Asked for otherwise\n";
  for (const InputChange& c : inputs)
    text += c.before.empty() && c.after.empty()
                ? fmt::format("  {}\n", c.key)
                : fmt::format("  {}: {} before, {} after\n", c.key, value_text(c, c.before), value_text(c, c.after));
  return text + "\n";
}

std::string signed_gib(Bytes bytes) {
  return (bytes > 0 ? "+" : "") + gib_text(bytes);
}

std::string signed_ms(std::int64_t ns) {
  return (ns > 0 ? "+" : "") + ms_text(ns);
}

std::string percent(double before, double after) {
  return before == 0 ? "-" : fmt::format("{:+.2f} %", 100.0 * (after - before) / before);
}

std::string rank_lines(const std::vector<RankChange>& ranks) {
  TextTable table({"rank", "f before", "after", "peak before", "after", "change", "", "host change", "swap change",
                   "added ms before", "after", "change", ""},
                  {12});
  for (const RankChange& c : ranks) {
    const auto d = [&](auto member) { return c.after.*member - c.before.*member; };
    table.add({fmt::format("{}", c.rank), fmt::format("{:.2f}", c.before.load), fmt::format("{:.2f}", c.after.load),
               gib_text(c.before.peak_bytes), gib_text(c.after.peak_bytes),
               signed_gib(d(&plan::RankFigures::peak_bytes)),
               percent(static_cast<double>(c.before.peak_bytes), static_cast<double>(c.after.peak_bytes)),
               signed_gib(d(&plan::RankFigures::host_bytes)), signed_gib(d(&plan::RankFigures::swapped_bytes_per_step)),
               ms_text(c.before.added_ns), ms_text(c.after.added_ns), signed_ms(d(&plan::RankFigures::added_ns)),
               !c.has_before  ? "added"
               : !c.has_after ? "removed"
                              : ""});
  }
  return "Ranks (GiB; ms per step, modelled)\n" + table.text();
}

std::string decision_lines(const std::vector<DecisionChange>& decisions, std::size_t most) {
  if (decisions.empty()) return "\nDecisions  no change\n";
  TextTable table({"", "rank", "GiB/step", "storage", "where", "before", "after"}, {0, 3, 4, 5, 6});
  for (std::size_t i = 0; i < std::min(most, decisions.size()); ++i) {
    const DecisionChange& c = decisions[i];
    table.add({std::string(kKindNames[static_cast<std::size_t>(c.kind)]), fmt::format("{}", c.shown().rank),
               signed_gib(c.delta_bytes()), c.shown().storage, place_text(c.shown()),
               c.before.moved() == 0 ? "keep" : action_text(c.before),
               c.after.moved() == 0 ? "keep" : action_text(c.after)});
  }
  std::string text =
      "\nDecisions (bytes moved off the device per step, one way; counts are micro-batches)\n" + table.text();
  if (decisions.size() > most) text += fmt::format("[{} others]\n", decisions.size() - most);
  return text;
}

struct Totals {
  std::array<std::size_t, 5> kinds{};
  Bytes up = 0, down = 0;
  Bytes peak_before = 0, peak_after = 0;
  std::int64_t added_before = 0, added_after = 0;
};

Totals totals_of(const PlanDiff& diff) {
  Totals t;
  for (const DecisionChange& c : diff.decisions) {
    ++t.kinds[static_cast<std::size_t>(c.kind)];
    (c.delta_bytes() > 0 ? t.up : t.down) += c.delta_bytes();
  }
  for (const RankChange& c : diff.ranks) {
    t.peak_before = std::max(t.peak_before, c.before.peak_bytes);
    t.peak_after = std::max(t.peak_after, c.after.peak_bytes);
    t.added_before += c.before.added_ns;
    t.added_after += c.after.added_ns;
  }
  return t;
}

}  // namespace

PlanDiff diff_plans(const PlanFile& before, const PlanFile& after) {
  return {.inputs = diff_inputs(before, after),
          .ranks = diff_ranks(before, after),
          .decisions = diff_decisions(before, after),
          .step_before = before.step,
          .step_after = after.step};
}

std::string diff_text(const PlanDiff& diff, std::size_t most) {
  const Totals t = totals_of(diff);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  std::string text = input_lines(diff.inputs) + rank_lines(diff.ranks) + decision_lines(diff.decisions, most);
  text += fmt::format("\nadd/remove: {}/{} grow/shrink: {}/{} changed: {} up/down: {}/{} GiB per step\n", t.kinds[0],
                      t.kinds[1], t.kinds[2], t.kinds[3], t.kinds[4], signed_gib(t.up), signed_gib(t.down));
  text += fmt::format("Highest peak: before={} GiB, after={} GiB, chg {}\n", gib_text(t.peak_before),
                      gib_text(t.peak_after), percent(number(t.peak_before), number(t.peak_after)));
  text += fmt::format("Added time of all ranks: before={} ms, after={} ms, chg {}\n", ms_text(t.added_before),
                      ms_text(t.added_after), percent(number(t.added_before), number(t.added_after)));
  text += fmt::format("Step (modelled): before={}, after={}, chg {}\n", duration_text(diff.step_before.step_ns),
                      duration_text(diff.step_after.step_ns),
                      percent(number(diff.step_before.step_ns), number(diff.step_after.step_ns)));
  return text;
}

std::string diff_json(const PlanDiff& diff) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  const auto side = [&](bool exists, const plan::RankFigures& f) -> Json {
    if (!exists) return nullptr;
    return {{"load", f.load},
            {"peak_bytes", f.peak_bytes},
            {"host_bytes", f.host_bytes},
            {"swapped_bytes_per_step", f.swapped_bytes_per_step},
            {"added_ms", ms(f.added_ns)},
            {"fits", f.fits}};
  };
  const auto counts = [](const NamedDecision& d) -> Json {
    return {{"recompute", d.recomputed}, {"swap", d.swapped}, {"recipe", d.recipe}, {"moved_bytes", d.moved_bytes()}};
  };
  const auto given = [](const std::string& value) { return value.empty() ? Json() : Json::parse(value); };
  Json json = {{"inputs", Json::array()}, {"ranks", Json::array()}, {"decisions", Json::array()}};
  for (const InputChange& c : diff.inputs)
    json["inputs"].push_back({{"key", c.key}, {"before", given(c.before)}, {"after", given(c.after)}});
  for (const RankChange& c : diff.ranks)
    json["ranks"].push_back(
        {{"rank", c.rank}, {"before", side(c.has_before, c.before)}, {"after", side(c.has_after, c.after)}});
  for (const DecisionChange& c : diff.decisions)
    json["decisions"].push_back({{"kind", kKindNames[static_cast<std::size_t>(c.kind)]},
                                 {"rank", c.shown().rank},
                                 {"storage", c.shown().storage},
                                 {"chunk", c.shown().chunk},
                                 {"layer", c.shown().layer},
                                 {"gap", c.shown().gap},
                                 {"before", counts(c.before)},
                                 {"after", counts(c.after)}});
  const Totals t = totals_of(diff);
  Json kinds;
  for (std::size_t k = 0; k < kKindNames.size(); ++k) kinds[std::string(kKindNames[k])] = t.kinds[k];
  json["totals"] = {{"decisions", kinds},
                    {"moved_up_bytes", t.up},
                    {"moved_down_bytes", t.down},
                    {"peak_before_bytes", t.peak_before},
                    {"peak_after_bytes", t.peak_after},
                    {"step_before_ms", ms(diff.step_before.step_ns)},
                    {"step_after_ms", ms(diff.step_after.step_ns)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
