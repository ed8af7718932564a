#include "integrations/configs/key_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::configs {
namespace {

using estimate::Standing;

constexpr std::size_t kLongestName = 80;  // of what reaches messages and is compared with other names
constexpr std::string_view kOtherKey = "another key of the file decides it";
constexpr int kMostHints = 20;  // of a file: each costs a look at every name

std::string short_name(std::string_view path) {
  return formats::printable(path.substr(0, kLongestName)) + (path.size() > kLongestName ? "..." : "");
}

}  // namespace

bool is_off(const ConfigKey& key, std::string_view off) {
  if (key.is_unset || key.value.empty() || key.value == "[]" || key.value == "none") return true;
  if (!off.empty() && key.value == off) return true;
  return estimate::switch_value(key.value) == false || estimate::is_unset(key.value);
}

KeyJudge::KeyJudge(std::string_view file_name, const std::vector<ConfigKey>& keys, const KeyTable& table)
    : file_(file_name), keys_(keys), table_(table) {
  for (const KeyRule& rule : table.rules) rules_.emplace(rule.path, &rule);
  for (const ConfigKey& key : keys)
    if (!key.is_unset) by_path_[key.path] = &key;
}

const KeyRule* KeyJudge::rule_of(std::string_view path) const {
  if (const auto found = rules_.find(path); found != rules_.end()) return found->second;
  // Of sections the innermost that is named.
  for (std::size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > 0; dot = path.rfind('.', dot - 1)) {
    const std::string section = std::string(path.substr(0, dot)) + ".*";
    if (section.size() > 2 * kLongestName) continue;
    if (const auto found = rules_.find(section); found != rules_.end()) return found->second;
  }
  return nullptr;
}

std::string KeyJudge::place_of(const ConfigKey& key) const {
  return fmt::format("{}:{}", file_, key.line);
}

Error KeyJudge::wrong(const ConfigKey& key, std::string_view message) const {
  return bad_input(fmt::format("{}:{}: {}: {}", file_, key.line, short_name(key.path), message));
}

void KeyJudge::note(const ConfigKey& key, Standing standing, std::string_view reason) {
  const std::string name = short_name(key.path);
  judged_.push_back({.judged = {.name = name,
                                .place = place_of(key),
                                .standing = standing,
                                .reason = reason,
                                .key = name,
                                .said = key.value},
                     .line = key.line});
}

void KeyJudge::unknown(const ConfigKey& key) {
  note(key, Standing::not_understood, estimate::kUnknownKey);
  if (key.path.size() > kLongestName || ++hints_ > kMostHints) return;
  if (names_.empty()) {
    for (const KeyRule& rule : table_.rules)
      if (!rule.path.ends_with('*')) names_.emplace_back(rule.path);
    if (table_.more_names != nullptr)
      for (std::string& name : table_.more_names()) names_.push_back(std::move(name));
  }
  if (const auto near = formats::find_near_miss(key.path, names_))
    judged_.back().judged.hint = fmt::format(" (did you mean {}?)", *near);
}

/// Of keys for one argument the one of higher priority counts; of equal ones that which switches it on.
void KeyJudge::give(const ConfigKey& key, std::string argument, int priority) {
  Given given{.argument = {.name = argument, .value = key.value, .place = place_of(key), .key = short_name(key.path)},
              .key = &key,
              .priority = priority};
  const auto [found, is_new] = chosen_.try_emplace(std::move(argument), given_.size());
  if (is_new) {
    given_.push_back(std::move(given));
    return;
  }
  Given& before = given_[found->second];
  const bool again = before.argument.key == given.argument.key;  // of equal keys the last counts, as in Python
  const bool stronger =
      again || priority > before.priority ||
      (priority == before.priority && estimate::switch_value(before.argument.value) == false && !is_off(key));
  if (!stronger) {
    note(key, Standing::no_effect, kOtherKey);
    return;
  }
  if (before.key != nullptr) note(*before.key, Standing::no_effect, kOtherKey);
  before = std::move(given);
}

Status KeyJudge::apply(const ConfigKey& key, const KeyRule& rule) {
  if (key.is_unset) {
    note(key, Standing::no_effect, "left at its default");
    return {};
  }
  switch (rule.effect) {
    case KeyEffect::argument:
      give(key, std::string(rule.argument), rule.priority);
      return {};
    case KeyEffect::own:
      note(key, Standing::used);
      return {};
    case KeyEffect::none:
      note(key, Standing::no_effect, rule.reason);
      return {};
    case KeyEffect::not_modelled:
      if (is_off(key, rule.off)) {
        note(key, Standing::no_effect, "switched off");
      } else {
        note(key, Standing::not_understood, rule.reason);
      }
      return {};
    case KeyEffect::refused:
      if (!is_off(key, rule.off)) return wrong(key, rule.reason);
      note(key, Standing::no_effect, "switched off");
      return {};
  }
  return {};
}

Status KeyJudge::judge() {
  for (const ConfigKey& key : keys_) {
    const KeyRule* rule = rule_of(key.path);
    if (rule != nullptr) {
      if (Status status = apply(key, *rule); !status) return status;
      continue;
    }
    const std::optional<std::string> argument =
        table_.argument_of != nullptr && key.path.size() <= kLongestName ? table_.argument_of(key.path) : std::nullopt;
    if (!argument) {
      unknown(key);
    } else if (key.is_unset) {
      note(key, Standing::no_effect, "left at its default");
    } else {
      give(key, *argument, 0);
    }
  }
  return {};
}

const ConfigKey* KeyJudge::find(std::string_view path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? nullptr : found->second;
}

bool KeyJudge::is_on(std::string_view path) const {
  const ConfigKey* key = find(path);
  return key != nullptr && !is_off(*key);
}

std::string_view KeyJudge::text(std::string_view path, std::string_view otherwise) const {
  const ConfigKey* key = find(path);
  return key == nullptr ? otherwise : std::string_view(key->value);
}

Result<std::int64_t> KeyJudge::count(std::string_view path, std::int64_t least, std::int64_t most,
                                     std::int64_t otherwise) const {
  const ConfigKey* key = find(path);
  if (key == nullptr) return otherwise;
  const std::optional<std::int64_t> number = estimate::whole_number(key->value);
  if (!number || *number < least || *number > most)
    return wrong(*key, fmt::format("{} is not a value it takes; write a whole number from {} to {}",
                                   formats::shown(key->value), least, most));
  return *number;
}

void KeyJudge::add(std::string_view argument, std::string value, const ConfigKey* key) {
  Given given{.argument = {.name = std::string(argument), .value = std::move(value)}, .key = key, .priority = 100};
  if (key != nullptr) {
    given.argument.place = place_of(*key);
    given.argument.key = short_name(key->path);
  }
  const auto [found, is_new] = chosen_.try_emplace(std::string(argument), given_.size());
  if (is_new) {
    given_.push_back(std::move(given));
    return;
  }
  Given& before = given_[found->second];
  if (before.key != nullptr && before.argument.key != given.argument.key)
    note(*before.key, Standing::no_effect, kOtherKey);
  before = std::move(given);
}

void KeyJudge::add_decoder_defaults() {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kCommon = {
      {{"normalization", "RMSNorm"},
       {"swiglu", "true"},
       {"disable-bias-linear", "true"},
       {"position-embedding-type", "rope"},
       {"hidden-dropout", "0"},
       {"attention-dropout", "0"}}};
  for (const auto& [argument, value] : kCommon) add(argument, std::string(value), nullptr);
}

void KeyJudge::doubt(const ConfigKey& key, std::string_view reason) {
  note(key, Standing::not_understood, reason);
}

void KeyJudge::doubt_all(std::string_view reason) {
  judged_.push_back(
      {.judged = {.place = std::string(file_), .standing = Standing::not_understood, .reason = reason}, .line = 0});
}

Result<estimate::ImportedRun> KeyJudge::import(const estimate::RunHints& hints) const {
  estimate::ArgumentSet set;
  for (const Given& given : given_) set.arguments.push_back(given.argument);
  Result<estimate::ImportedRun> imported = estimate::import_run(set, hints);
  if (!imported) {
    const std::string& message = imported.error().message;
    return message.starts_with(file_) ? imported.error() : bad_input(fmt::format("{}: {}", file_, message));
  }
  // import_run judges each argument once, in their order. What a default of the framework says is of no key.
  std::vector<Judged> all = judged_;
  std::vector<estimate::JudgedArgument>& judged = imported.value().judged;
  for (std::size_t i = 0; i < judged.size() && i < given_.size(); ++i) {
    const ConfigKey* key = given_[i].key;
    if (key == nullptr) continue;
    judged[i].said = key->value;
    all.push_back({.judged = std::move(judged[i]), .line = key->line});
  }
  std::ranges::stable_sort(all, {}, &Judged::line);
  judged.clear();
  for (Judged& one : all) judged.push_back(std::move(one.judged));
  return imported;
}

}  // namespace tidemark::configs
