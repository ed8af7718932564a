#include "integrations/formats/shell_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "integrations/formats/shell_arithmetic.h"
#include "integrations/formats/shell_effects.h"
#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

/// A character of a sum is looked at by every level of its grammar.
constexpr std::size_t kStepsOfSum = 8;

/// What the shell itself goes by: with it set, words are cut or read in another way.
bool changes_the_shell(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"IFS", "POSIXLY_CORRECT", "BASH_COMPAT", "GLOBIGNORE"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_kept_by_shell(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"EUID", "UID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO"};
  return std::ranges::find(kNames, name) != kNames.end();
}

/// `[3]=x` in `A=([3]=x)`.
bool has_index(std::string_view item) {
  return item.starts_with('[') &&
         (item.find("]=") != std::string_view::npos || item.find("]+=") != std::string_view::npos);
}

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0) == std::string_view::npos;
}

/// What is known of it is no number.
bool has_text(const std::vector<ShellText>& items) {
  return std::ranges::any_of(items,
                             [](const ShellText& item) { return !item.unresolved && !is_number(item.characters); });
}

}  // namespace

std::size_t held_characters(const ShellVariable& variable) {
  std::size_t count = 1 + variable.doubts.size();
  for (const ShellText& item : variable.items) count += item.characters.size() + 1;
  return count;
}

ShellVariables::ShellVariables(std::string_view script, ShellBudget& budget) : script_(script), budget_(budget) {
  for (std::size_t i = 0; i < script.size(); ++i)
    if (script[i] == '\n') line_ends_.push_back(i);
}

std::int32_t ShellVariables::line_at(std::size_t offset) const {
  return static_cast<std::int32_t>(std::ranges::lower_bound(line_ends_, offset) - line_ends_.begin()) + 1;
}

void ShellVariables::note_problem(std::int32_t line, std::string what) {
  constexpr std::size_t kMost = 20;
  const auto is_same = [&](const Problem& one) { return one.line == line && one.what == what; };
  if (problems_.size() < kMost && std::ranges::none_of(problems_, is_same))
    problems_.push_back({.line = line, .what = std::move(what)});
}

/// Of a name that no line sets: to `set -u` it is an error, unless the environment has it.
void ShellVariables::note_unset(const Known& known, std::size_t at) {
  if (state_.refuses_unset && known.variable == nullptr && known.lost_line == 0 && !known.is_outside)
    note_problem(line_at(at), "the script ends here, as `set -u` asks for, where nothing gives this name a value");
}

// ---- assignments ----------------------------------------------------------------------------------------------------

ShellVariable& ShellVariables::declared(const std::string& name) {
  const auto [place, is_new] = state_.variables.try_emplace(name);
  if (is_new) place->second.is_set = false;
  return place->second;
}

bool ShellVariables::assign(const ShellWord& word, bool exported) {
  const std::string_view text = raw(word);
  if (!is_shell_assignment(text)) return false;
  const std::size_t length = shell_name_length(text);
  const bool appends = text[length] == '+';
  const std::string name(text.substr(0, length));
  const std::int32_t line = line_at(word.begin);
  const std::set<std::int32_t> outer = take_reached();
  std::vector<ShellText> items = items_of(word, word.begin + length + (appends ? 2 : 1));
  ShellVariable& variable = declared(name);
  if (!appends) variable.doubts.clear();
  variable.doubts.insert(reached_.begin(), reached_.end());
  reached_ = outer;
  variable.exported |= exported || state_.exports_all;
  if (std::ranges::any_of(word.items, [this](const ShellWord& item) { return has_index(raw(item)); })) {
    lose(name, line);
  } else if (appends) {
    append_value(variable, name, std::move(items), word.is_array, line);
  } else {
    assign_value(variable, name, std::move(items), word.is_array, line);
  }
  return true;
}

std::vector<ShellText> ShellVariables::items_of(const ShellWord& word, std::size_t value_at) {
  if (!word.is_array) return {expand_whole(value_at, word.end)};
  std::vector<ShellText> items;
  for (const ShellWord& item : word.items)
    for (ShellText& field : expand(item)) items.push_back(std::move(field));
  return items;
}

/// An array keeps its other items where one value is given.
void ShellVariables::assign_value(ShellVariable& variable, const std::string& name, std::vector<ShellText> items,
                                  bool is_array, std::int32_t line) {
  note_assigned(variable, name, line);
  variable.held_text |= has_text(items);
  if (variable.is_integer && !variable.is_changed && !compute_items(items, line)) {
    note_problem(line, fmt::format("what {} becomes is not computed", name));
    return lose(name, line);
  }
  if (variable.is_changed) return lose(name, line);
  const bool is_first = variable.is_array && !is_array;
  if (is_first && (variable.lost_line > 0 || (!variable.items.empty() && variable.items.front().unresolved)))
    return lose(name, line);
  variable.is_array |= is_array;
  variable.is_set = true;
  variable.lost_line = 0;
  if (is_first && !variable.items.empty()) {
    variable.items.front() = std::move(items.front());
  } else {
    variable.items = std::move(items);
  }
}

void ShellVariables::append_value(ShellVariable& variable, const std::string& name, std::vector<ShellText> items,
                                  bool is_array, std::int32_t line) {
  note_assigned(variable, name, line);
  variable.held_text |= has_text(items);
  if (variable.lost_line > 0) return lose(name, variable.lost_line);
  const bool is_several = variable.is_array && !variable.items.empty() && variable.items.front().unresolved;
  if (variable.is_changed || variable.is_integer || (is_several && !is_array)) return lose(name, line);
  variable.is_set = true;
  if (is_array) {
    variable.is_array = true;
    for (ShellText& item : items) variable.items.push_back(std::move(item));
  } else {
    if (variable.items.empty()) variable.items.emplace_back();
    variable.items.front().add(items.front());
  }
}

void ShellVariables::note_assigned(const ShellVariable& variable, const std::string& name, std::int32_t line) {
  if (variable.is_readonly)
    note_problem(line, fmt::format("{} is readonly here, or may be: the shell does not take what it is given", name));
  if (changes_the_shell(name)) note_problem(line, fmt::format("{} changes how the shell reads what follows", name));
  if (is_kept_by_shell(name)) note_problem(line, fmt::format("{} is the shell's own, and it takes no value", name));
}

/// Of `declare -i`: the sums of the items. False: they have none that is known.
bool ShellVariables::compute_items(std::vector<ShellText>& items, std::int32_t line) {
  for (ShellText& item : items) {
    const auto none = [](std::string_view) { return std::optional<std::int64_t>(); };
    budget_.spend_steps(kStepsOfSum * item.characters.size(), at_);
    const auto value = item.is_known() && !budget_.is_spent() ? shell_arithmetic(item.characters, none) : std::nullopt;
    if (!value) return false;
    item = {};
    item.add(std::to_string(*value), line);
  }
  return true;
}

void ShellVariables::set(const std::string& name, ShellText text, std::int32_t line) {
  std::vector<ShellText> items;
  items.push_back(std::move(text));
  ShellVariable& variable = declared(name);
  variable.exported |= state_.exports_all;
  variable.doubts.clear();
  assign_value(variable, name, std::move(items), false, line);
}

std::optional<std::vector<ShellText>> ShellVariables::added_by(const ShellWord& word) {
  const std::string name(raw(word).substr(0, shell_name_length(raw(word))));
  const auto found = state_.variables.find(name);
  const bool existed = found != state_.variables.end();
  if (existed && found->second.lost_line > 0) return std::nullopt;
  if (existed) budget_.spend_steps(2 * tidemark::formats::held_characters(found->second), word.begin);
  if (budget_.is_spent()) return std::nullopt;
  const ShellVariable before = existed ? found->second : ShellVariable{};
  assign(word, false);
  ShellVariable after = std::move(state_.variables[name]);
  restore(name, existed ? &before : nullptr);
  if (after.held_text) declared(name).held_text = true;
  if (after.lost_line > 0 || after.items.size() < before.items.size()) return std::nullopt;
  // Options that may be in it by another variable would be forgotten.
  if (!std::ranges::includes(before.doubts, after.doubts)) return std::nullopt;
  std::vector<ShellText> added;
  for (std::size_t i = 0; i < after.items.size(); ++i) {
    const std::string kept = i < before.items.size() ? before.items[i].characters : std::string();
    if (!after.items[i].characters.starts_with(kept)) return std::nullopt;
    if (after.items[i].characters.size() > kept.size()) added.push_back(after.items[i].part(kept.size()));
  }
  return added;
}

void ShellVariables::lose(const std::string& name, std::int32_t line) {
  ShellVariable& variable = declared(name);
  variable.is_set = true;
  variable.held_options |= !variable.items.empty() && variable.items.front().characters.starts_with("--");
  variable.items.clear();
  variable.lost_line = line;
  if (changes_the_shell(name)) note_problem(line, fmt::format("{} changes how the shell reads what follows", name));
}

void ShellVariables::lose_all(std::int32_t line, std::size_t at) {
  budget_.spend_steps(state_.variables.size(), at);
  if (budget_.is_spent()) return;
  for (auto& [name, variable] : state_.variables) {
    variable.is_set = true;
    variable.held_options |= !variable.items.empty() && variable.items.front().characters.starts_with("--");
    variable.items.clear();
    variable.lost_line = line;
  }
  state_.others_lost_line = line;
  state_.own.is_lost |= state_.own.items.has_value();
  state_.own.items.reset();
}

void ShellVariables::unset(const std::string& name, std::int32_t line) {
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) return;
  if (found->second.is_readonly) note_problem(line, fmt::format("{} is readonly here, or may be", name));
  state_.variables.erase(found);
  taken_away_.insert(name);
}

void ShellVariables::restore(const std::string& name, const ShellVariable* before) {
  if (before == nullptr) {
    state_.variables.erase(name);
  } else {
    state_.variables[name] = *before;
  }
}

// ---- what a name holds ----------------------------------------------------------------------------------------------

ShellVariables::Known ShellVariables::look_up(std::string_view name) const {
  if (is_set_anew(name)) return {.is_outside = true};
  const auto found = state_.variables.find(std::string(name));
  if (found != state_.variables.end() && found->second.is_set) {
    const std::int32_t lost_line = found->second.lost_line;
    return {.variable = lost_line > 0 ? nullptr : &found->second, .lost_line = lost_line};
  }
  if (is_set_outside(name)) return {.is_outside = true};
  const std::int32_t lost_line = shell_name_length(name) > 0 ? state_.others_lost_line : 0;
  return {.variable = nullptr, .lost_line = lost_line, .is_unnamed = lost_line > 0};
}

/// An argument before it that may be several words, or none, leaves open which one it is.
ShellVariables::OwnArgument ShellVariables::own_argument(char digit) const {
  const auto number = static_cast<std::size_t>(digit - '0');
  if (number == 0 || !state_.own.known || state_.own.is_lost) return {};
  if (!state_.own.items) return {.is_taken_as_none = true};
  const std::vector<ShellText>& items = *state_.own.items;
  const std::size_t count = std::min(number, items.size());
  for (std::size_t i = 0; i < count; ++i)
    if (items[i].unresolved) return {};
  if (number > items.size()) return {.is_known = true};
  return {.is_known = true, .value = ShellVariable{.items = {items[number - 1]}}};
}

void ShellVariables::take_over(const ShellVariables& other) {
  state_ = other.state_;
}

ShellVariables::State ShellVariables::state(std::size_t at) {
  constexpr std::size_t kStepsOfState = 16;
  std::size_t own = 0;
  if (state_.own.items)
    for (const ShellText& item : *state_.own.items) own += 1 + item.characters.size();
  budget_.spend_steps(kStepsOfState + held_characters() + own, at);
  return budget_.is_spent() ? State{} : state_;
}

void ShellVariables::move_to_line(std::int32_t line, const ShellVariables& before) {
  for (auto& entry : state_.variables) {
    auto& variable = entry.second;  // clang 14: no lambda may name a structured binding
    const auto old = before.all().find(entry.first);
    const auto is_old = [&](std::size_t i) {
      return old != before.all().end() && i < old->second.items.size() &&
             old->second.items[i].characters == variable.items[i].characters &&
             old->second.items[i].lines == variable.items[i].lines;
    };
    for (std::size_t i = 0; i < variable.items.size(); ++i)
      if (!is_old(i)) std::ranges::fill(variable.items[i].lines, line);
    const bool was_lost = old != before.all().end() && old->second.lost_line > 0;
    if (variable.lost_line > 0 && !was_lost) variable.lost_line = line;
  }
}

std::size_t ShellVariables::held_characters() const {
  std::size_t count = 0;
  for (const auto& [name, variable] : state_.variables) {
    count += name.size() + tidemark::formats::held_characters(variable);
  }
  return count;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

std::optional<std::int64_t> ShellVariables::arithmetic(std::string_view expression, std::size_t at) {
  const std::optional<std::int64_t> value = sum(expression, at);
  return sum_assumed_line_ > 0 ? std::nullopt : value;
}

std::optional<std::int64_t> ShellVariables::sum(std::string_view expression, std::size_t at) {
  sum_lost_line_ = 0;
  sum_assumed_line_ = 0;
  is_sum_open_ = false;
  const auto value_of = [this, at](std::string_view name) { return number_of(name, at); };
  budget_.spend_steps(kStepsOfSum * expression.size(), at);
  return shell_arithmetic(expression, value_of);
}

/// `NAME` is computed, and what it says may set others; `$NAME` stands for its text.
std::optional<std::int64_t> ShellVariables::number_of(std::string_view name, std::size_t at) {
  const bool is_text = name.starts_with('$');
  const Known known = look_up(name.substr(is_text ? 1 : 0));
  note_unset(known, at);
  sum_lost_line_ = std::max(sum_lost_line_, known.lost_line);
  is_sum_open_ |= known.variable == nullptr;
  if (known.variable == nullptr || known.variable->items.empty()) return std::nullopt;
  const ShellText& text = known.variable->items.front();
  sum_lost_line_ = std::max(sum_lost_line_, text.lost_line);
  sum_assumed_line_ = std::max(sum_assumed_line_, text.assumed_line());
  budget_.spend_steps(kStepsOfSum * (text.characters.size() + 1), at);
  is_sum_open_ |= text.unresolved;
  if (budget_.is_spent() || text.unresolved) return std::nullopt;
  const bool is_number = text.characters.find_first_not_of("0123456789") == std::string::npos;
  if (is_text && !is_number) return std::nullopt;
  const std::string characters = text.characters;
  lose_effects(characters, at);
  return shell_arithmetic(characters, [](std::string_view) { return std::nullopt; });
}

/// Of text that is no number the shell ends with an error, or computes what it says.
void ShellVariables::doubt_numbers(std::string_view expression, std::size_t at) {
  for (std::size_t i = 0; i < expression.size();) {
    const std::size_t length = shell_name_length(expression.substr(i));
    if (length > 0) {
      const auto found = state_.variables.find(std::string(expression.substr(i, length)));
      if (found != state_.variables.end() &&
          (has_text(found->second.items) || (found->second.lost_line > 0 && found->second.held_text)))
        note_problem(line_at(at), "this arithmetic is not followed");
    }
    i += std::max<std::size_t>(1, length);
  }
}

void ShellVariables::doubt_sums(std::string_view word, std::size_t at) {
  for (std::size_t i = word.find('$'); i != std::string_view::npos && !budget_.is_spent(); i = word.find('$', i + 1)) {
    const std::string_view rest = word.substr(i + 1);
    if (!rest.starts_with("((") && !rest.starts_with('[') && !rest.starts_with('{')) continue;
    const std::size_t end =
        rest.starts_with('[') ? std::min(word.find(']', i), word.size() - 1) + 1 : end_of_shell_unit(word, i);
    budget_.spend_steps(end - i, at);
    if (rest.starts_with('{')) {
      doubt_left(word.substr(i, end - i), at);
    } else {
      doubt_numbers(word.substr(i, end - i), at);
    }
  }
}

/// What stays as it is written may be no more than an error, which ends the script.
void ShellVariables::doubt_left(std::string_view unit, std::size_t at) {
  if (!unit.starts_with("${")) return;
  const std::string_view inner = unit.substr(2, unit.size() - std::min<std::size_t>(unit.size(), 3));
  const auto text_of = [this](std::string_view name) {
    const Known known = look_up(name.substr(0, shell_name_length(name)));
    const bool has = known.variable != nullptr && !known.variable->items.empty();
    return has                         ? std::optional(known.variable->items.front().characters)
           : known.variable != nullptr ? std::optional<std::string>("")
                                       : std::nullopt;
  };
  if (inner.starts_with('!')) {
    const std::optional<std::string> name = text_of(inner.substr(1));
    if (name && (name->empty() || shell_name_length(*name) != name->size()))
      note_problem(line_at(at), "which variable this is, is not followed");
    return;
  }
  const std::size_t length = shell_name_length(inner);
  const std::string_view rest = inner.substr(length);
  if (length == 0 || rest.empty()) return;
  const bool is_offset =
      rest.starts_with(':') && rest.size() > 1 && std::string_view("-=?+").find(rest[1]) == std::string_view::npos;
  if (rest.starts_with('[') || is_offset) {
    doubt_numbers(rest, at);
    const bool is_error =
        rest.find('/') != std::string_view::npos || rest.find('%') != std::string_view::npos ||
        (is_offset && rest.find('-', std::min(rest.find(':', 1), rest.size())) != std::string_view::npos);
    if (is_error) note_problem(line_at(at), "this arithmetic is not followed");
    return;
  }
  if (rest.starts_with('?') || rest.starts_with(":?")) {
    const std::string name(inner.substr(0, length));
    const bool is_taken_away = taken_away_.contains(name) && !state_.variables.contains(name);
    if (text_of(inner) == "" || is_taken_away)
      note_problem(line_at(at), "the script may end here, as this has no value");
    return;
  }
  if (std::string_view(":-=+#%/^,@").find(rest.front()) == std::string_view::npos)
    note_problem(line_at(at), "this is no way to write a value that is known");
}

void ShellVariables::lose_effects(std::string_view expression, std::size_t at) {
  const ShellEffects effects = effects_of_arithmetic(expression);
  for (const std::string& name : effects.names) lose(name, line_at(at));
  if (effects.any) lose_all(line_at(at), at);
}

}  // namespace tidemark::formats
