#include "integrations/formats/shell_variables.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "integrations/formats/shell_arithmetic.h"
#include "integrations/formats/shell_effects.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr int kDeepest = 32;
/// A character of a sum is looked at by every level of its grammar.
constexpr std::size_t kStepsOfSum = 8;

/// Between quotes, `$@` and `${NAME[@]}` are as many words as they hold: of none, no word.
bool is_list(std::string_view quoted) {
  if (quoted.starts_with("$@") || quoted.starts_with("${@")) return true;
  if (!quoted.starts_with("${")) return false;
  const std::string_view inner = quoted.substr(2);
  return inner.substr(shell_name_length(inner)).starts_with("[@]");
}

}  // namespace

/// Fields under construction.
struct ShellVariables::Fields {
  std::vector<ShellText> done;
  ShellText current;
  bool started = false;           ///< an empty pair of quotes is a field, too
  std::int32_t assumed_line = 0;  ///< what is added now is a default that this line may replace

  void add(char c, std::int32_t line) {
    if (assumed_line > 0) add_assumed(assumed_line);
    current.add(c, line);
    started = true;
  }
  /// Of the character that is added next.
  void add_assumed(std::int32_t line) {
    const auto at = static_cast<std::uint32_t>(current.characters.size());
    if (current.assumed.empty() || current.assumed.back().at != at) current.assumed.push_back({at, line});
  }
  void finish() {
    if (started) done.push_back(std::move(current));
    current = {};
    started = false;
  }
};

ShellVariables::ShellVariables(std::string_view script, ShellBudget& budget) : script_(script), budget_(budget) {
  for (std::size_t i = 0; i < script.size(); ++i)
    if (script[i] == '\n') line_ends_.push_back(i);
}

std::int32_t ShellVariables::line_at(std::size_t offset) const {
  return static_cast<std::int32_t>(std::ranges::lower_bound(line_ends_, offset) - line_ends_.begin()) + 1;
}

std::vector<ShellText> ShellVariables::expand(const ShellWord& word) {
  at_ = word.begin;
  spend(kShellCharactersOfWord);
  Fields fields;
  expand_into(word.begin, word.end, false, fields, 0);
  fields.finish();
  return std::move(fields.done);
}

ShellText ShellVariables::expand_whole(std::size_t begin, std::size_t end, int depth) {
  Fields fields;
  expand_into(begin, end, false, fields, depth);
  fields.finish();
  ShellText whole;
  for (const ShellText& field : fields.done) {
    if (!whole.characters.empty()) whole.add(' ', field.line(line_at(begin)));
    whole.add(field);
  }
  return whole;
}

bool ShellVariables::assign(const ShellWord& word, bool exported) {
  const std::string_view text = raw(word);
  const std::size_t length = shell_name_length(text);
  const bool appends = length > 0 && text.substr(length).starts_with("+=");
  if (length == 0 || (!appends && !text.substr(length).starts_with('='))) return false;
  const std::string name(text.substr(0, length));
  const std::set<std::int32_t> outer = take_reached();
  std::vector<ShellText> items = items_of(word, word.begin + length + (appends ? 2 : 1));
  ShellVariable& variable = variables_[name];
  if (!appends) variable.doubts.clear();
  variable.doubts.insert(reached_.begin(), reached_.end());
  reached_ = outer;
  variable.exported |= exported;
  if (appends && (variable.is_integer || variable.lost_line > 0)) {
    lose(name, variable.lost_line > 0 ? variable.lost_line : line_at(word.begin));
  } else if (!appends) {
    variable.lost_line = 0;
    variable.items = std::move(items);
  } else if (word.is_array || variable.items.size() > 1) {
    variable.items.insert(variable.items.end(), items.begin(), items.end());
  } else {
    if (variable.items.empty()) variable.items.emplace_back();
    variable.items.front().add(items.front());
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

void ShellVariables::set(const std::string& name, ShellText text) {
  ShellVariable& variable = variables_[name];
  variable.lost_line = 0;
  variable.items = {std::move(text)};
}

std::optional<std::vector<ShellText>> ShellVariables::added_by(const ShellWord& word) {
  const std::string name(raw(word).substr(0, shell_name_length(raw(word))));
  const auto found = variables_.find(name);
  const bool existed = found != variables_.end();
  const ShellVariable before = existed ? found->second : ShellVariable{};
  if (before.lost_line > 0) return std::nullopt;
  for (const ShellText& item : before.items) budget_.spend_steps(1 + item.characters.size(), word.begin);
  if (budget_.is_spent()) return std::nullopt;
  assign(word, false);
  ShellVariable after = std::move(variables_[name]);
  restore(name, existed ? &before : nullptr);
  if (after.lost_line > 0 || after.items.size() < before.items.size()) return std::nullopt;
  std::vector<ShellText> added;
  for (std::size_t i = 0; i < after.items.size(); ++i) {
    const std::string kept = i < before.items.size() ? before.items[i].characters : std::string();
    if (!after.items[i].characters.starts_with(kept)) return std::nullopt;
    if (after.items[i].characters.size() > kept.size()) added.push_back(after.items[i].part(kept.size()));
  }
  return added;
}

void ShellVariables::lose(const std::string& name, std::int32_t line) {
  ShellVariable& variable = variables_[name];
  variable.held_options |= !variable.items.empty() && variable.items.front().characters.starts_with("--");
  variable.items.clear();
  variable.lost_line = line;
}

void ShellVariables::lose_all(std::int32_t line, std::size_t at) {
  budget_.spend_steps(variables_.size(), at);
  if (budget_.is_spent()) return;
  for (const auto& [name, variable] : variables_) lose(name, line);
  others_lost_line_ = line;
}

void ShellVariables::restore(const std::string& name, const ShellVariable* before) {
  if (before == nullptr) {
    variables_.erase(name);
  } else {
    variables_[name] = *before;
  }
}

ShellVariables::Known ShellVariables::look_up(std::string_view name) const {
  const auto found = variables_.find(std::string(name));
  if (found != variables_.end()) {
    const std::int32_t lost_line = found->second.lost_line;
    return {.variable = lost_line > 0 ? nullptr : &found->second, .lost_line = lost_line};
  }
  const std::int32_t lost_line = shell_name_length(name) > 0 ? others_lost_line_ : 0;
  return {.variable = nullptr, .lost_line = lost_line, .is_unnamed = lost_line > 0};
}

std::optional<ShellVariable> ShellVariables::own_argument(char digit) const {
  const auto number = static_cast<std::size_t>(digit - '0');
  if (!own_.items || number == 0 || number > own_.items->size()) return std::nullopt;
  return ShellVariable{.items = {(*own_.items)[number - 1]}};
}

void ShellVariables::take_over(const ShellVariables& other) {
  variables_ = other.variables_;
  others_lost_line_ = other.others_lost_line_;
}

void ShellVariables::move_to_line(std::int32_t line, const ShellVariables& before) {
  for (auto& entry : variables_) {
    auto& variable = entry.second;  // clang 14: no lambda may name a structured binding
    const auto old = before.variables_.find(entry.first);
    const auto is_old = [&](std::size_t i) {
      return old != before.variables_.end() && i < old->second.items.size() &&
             old->second.items[i].characters == variable.items[i].characters &&
             old->second.items[i].lines == variable.items[i].lines;
    };
    for (std::size_t i = 0; i < variable.items.size(); ++i)
      if (!is_old(i)) std::ranges::fill(variable.items[i].lines, line);
    const bool was_lost = old != before.variables_.end() && old->second.lost_line > 0;
    if (variable.lost_line > 0 && !was_lost) variable.lost_line = line;
  }
}

std::size_t ShellVariables::held_characters() const {
  std::size_t count = 0;
  for (const auto& [name, variable] : variables_) {
    count += name.size() + 1;
    for (const ShellText& item : variable.items) count += item.characters.size() + 1;
  }
  return count;
}

void ShellVariables::expand_into(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  at_ = begin;
  spend(end - begin);
  if (depth > kDeepest) return;
  for (std::size_t at = begin; at < end && !budget_.is_spent();) {
    const char c = script_[at];
    if (c == '\\' && at + 1 < end) {
      const std::size_t next = script_[at + 1] == '\r' && at + 2 < end ? at + 2 : at + 1;
      const bool kept = quoted && std::string_view("$`\"\\\n").find(script_[next]) == std::string_view::npos;
      if (kept) out.add('\\', line_at(at));
      if (script_[next] != '\n') out.add(script_[next], line_at(next));
      at = next + 1;
    } else if (c == '\'' && !quoted) {
      out.started = true;
      const std::size_t unit = end_of_unit(at, end);
      for (std::size_t i = at + 1; i + 1 < unit; ++i) out.add(script_[i], line_at(i));
      at = unit;
    } else if (c == '"' && !quoted) {
      const std::size_t unit = end_of_unit(at, end);
      const std::size_t stop = std::max(at + 1, unit - 1);
      out.started |= !is_list(script_.substr(at + 1, stop - at - 1));
      expand_into(at + 1, stop, true, out, depth + 1);
      at = unit;
    } else if (c == '$') {
      at = expand_dollar(at, end, quoted, out, depth);
    } else if (c == '`') {
      const std::size_t unit = end_of_unit(at, end);
      leave(at, unit, out);
      at = unit;
    } else if (!quoted && kBlank.find(c) != std::string_view::npos) {
      out.finish();
      ++at;
    } else {
      out.add(c, line_at(at));
      ++at;
    }
  }
}

std::size_t ShellVariables::end_of_unit(std::size_t at, std::size_t end) {
  const std::size_t unit = end_of_shell_unit(script_, at);
  budget_.spend_steps(unit - at, at);
  return std::min(unit, end);
}

std::optional<std::int64_t> ShellVariables::arithmetic(std::string_view expression, std::size_t at) {
  const std::optional<std::int64_t> value = sum(expression, at);
  return sum_assumed_line_ > 0 ? std::nullopt : value;
}

std::optional<std::int64_t> ShellVariables::sum(std::string_view expression, std::size_t at) {
  sum_lost_line_ = 0;
  sum_assumed_line_ = 0;
  const auto value_of = [this, at](std::string_view name) -> std::optional<std::int64_t> {
    const Known known = look_up(name);
    sum_lost_line_ = std::max(sum_lost_line_, known.lost_line);
    if (known.variable == nullptr || known.variable->items.empty()) return std::nullopt;
    const std::string& text = known.variable->items.front().characters;
    sum_lost_line_ = std::max(sum_lost_line_, known.variable->items.front().lost_line);
    sum_assumed_line_ = std::max(sum_assumed_line_, known.variable->items.front().assumed_line());
    budget_.spend_steps(kStepsOfSum * (text.size() + 1), at);
    if (budget_.is_spent()) return std::nullopt;
    return shell_arithmetic(text, [](std::string_view) { return std::nullopt; });
  };
  budget_.spend_steps(kStepsOfSum * expression.size(), at);
  return shell_arithmetic(expression, value_of);
}

/// `$((...))`, whose names are numbers or sums of them.
void ShellVariables::expand_arithmetic(std::size_t at, std::size_t unit, bool quoted, Fields& out) {
  const std::string_view inner = script_.substr(at + 3, unit - std::min(unit, at + 5));
  if (const auto value = sum(inner, at)) {
    ShellText text;
    text.add(std::to_string(*value), line_at(at));
    if (sum_assumed_line_ > 0)
      for (std::uint32_t i = 0; i < text.characters.size(); ++i) text.assumed.push_back({i, sum_assumed_line_});
    insert_text(text, quoted, out);
  } else {
    leave(at, unit, out, sum_lost_line_);
  }
}

std::size_t ShellVariables::expand_dollar(std::size_t at, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::size_t unit = end_of_unit(at, end);
  const std::string_view rest = script_.substr(at + 1, end - at - 1);
  if (rest.starts_with("((")) {
    expand_arithmetic(at, unit, quoted, out);
    return unit;
  }
  if (rest.starts_with('{')) {
    expand_braces(at + 2, std::max(at + 2, unit - 1), quoted, out, depth);
    return unit;
  }
  if (const std::size_t length = shell_name_length(rest); length > 0) {
    const Known known = look_up(rest.substr(0, length));
    if (known.variable == nullptr) {
      leave(at, at + 1 + length, out, known.lost_line);
    } else {
      insert(*known.variable, quoted, false, out);
    }
    return at + 1 + length;
  }
  if (rest.starts_with('@') || rest.starts_with('*')) {
    expand_own_arguments(at, at + 2, quoted, out);
    return at + 2;
  }
  if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    if (const std::optional<ShellVariable> own = own_argument(rest.front())) {
      insert(*own, quoted, false, out);
    } else if (!own_.items || rest.front() == '0') {
      leave(at, at + 2, out);
    }
    return at + 2;
  }
  if (!rest.starts_with('(') &&
      (rest.empty() || std::string_view("0123456789#?!$-").find(rest.front()) == std::string_view::npos)) {
    out.add('$', line_at(at));
    return at + 1;
  }
  const std::size_t stop = rest.starts_with('(') ? unit : at + 2;
  leave(at, stop, out);
  return stop;
}

/// `$@`: as many words as there are. Of a function's from its caller nothing is known.
void ShellVariables::expand_own_arguments(std::size_t at, std::size_t end, bool quoted, Fields& out) {
  if (!own_.known) return leave(at, end, out, line_at(at));
  if (!own_.items) return leave(at, end, out);
  insert(ShellVariable{.items = *own_.items}, quoted, true, out);
}

/// The default behind `:-`, of a name that a line may set which is not followed: it is marked. One that is empty may
/// hide any words.
void ShellVariables::expand_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out,
                                    int depth) {
  if (argument >= end) return leave(begin - 2, end + 1, out);
  const std::int32_t outer = std::exchange(out.assumed_line, others_lost_line_);
  expand_into(argument, end, quoted, out, depth + 1);
  out.assumed_line = outer;
}

/// The same of `:=`, which the name keeps.
void ShellVariables::assign_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out,
                                    int depth) {
  ShellText value = expand_whole(argument, end, depth + 1);
  if (value.characters.empty()) return leave(begin - 2, end + 1, out);
  value.assumed.clear();
  for (std::uint32_t i = 0; i < value.characters.size(); ++i) value.assumed.push_back({i, others_lost_line_});
  insert_text(value, quoted, out);
  const std::string_view name = script_.substr(begin, shell_name_length(script_.substr(begin)));
  variables_[std::string(name)].items = {std::move(value)};
}

/// Between the braces of `${...}`: a name, `[@]`, or `:-` and the like with a default.
void ShellVariables::expand_braces(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::string_view inner = script_.substr(begin, end - begin);
  std::size_t length = shell_name_length(inner);
  std::optional<ShellVariable> own;
  if (length == 0 && !inner.empty() && inner.front() >= '0' && inner.front() <= '9') {
    length = 1;
    own = own_argument(inner.front());
    if (!own_.known) return leave(begin - 2, end + 1, out);
  }
  std::string_view rest = inner.substr(length);
  const Known known = look_up(inner.substr(0, length));
  const ShellVariable* variable = own ? &*own : known.variable;
  const std::size_t behind = begin + length + (rest.starts_with(':') ? 2 : 1);
  if (known.is_unnamed && (rest.starts_with(":-") || rest.starts_with('-')))
    return expand_default(begin, behind, end, quoted, out, depth);
  if (known.is_unnamed && (rest.starts_with(":=") || rest.starts_with('=')))
    return assign_default(begin, behind, end, quoted, out, depth);
  if (known.lost_line > 0) {
    leave(begin - 2, end + 1, out, known.lost_line);
    return;
  }
  bool all = false;
  for (const std::string_view index : {"[@]", "[*]"}) {
    if (!rest.starts_with(index)) continue;
    all = true;
    rest.remove_prefix(index.size());
  }
  if (length == 0) {
    const bool of_own = inner.starts_with('@') || inner.starts_with('*');
    const bool none = of_own && own_.known && own_.items && own_.items->empty();
    if (none) return;
    if (of_own && inner.size() == 1) return expand_own_arguments(begin - 2, end + 1, quoted, out);
    return leave(begin - 2, end + 1, out, of_own && !own_.known ? line_at(begin) : 0);
  }
  if (rest.empty()) {
    variable == nullptr ? leave(begin - 2, end + 1, out) : insert(*variable, quoted, all, out);
    return;
  }
  const bool colon = rest.front() == ':';
  const char operation = rest.size() > (colon ? 1U : 0U) ? rest[colon ? 1 : 0] : '\0';
  const std::size_t argument = end - rest.size() + (colon ? 2 : 1);
  const bool has_value = variable != nullptr && !variable->items.empty() &&
                         !(colon && variable->items.size() == 1 && variable->items.front().characters.empty());
  if ((operation == '-' || operation == '=' || operation == '?') && has_value) {
    insert(*variable, quoted, all, out);
  } else if (operation == '-') {
    expand_into(argument, end, quoted, out, depth + 1);
  } else if (operation == '=') {
    const ShellText value = expand_whole(argument, end, depth + 1);
    variables_[std::string(inner.substr(0, length))].items = {value};
    insert_text(value, quoted, out);
  } else if (operation == '+') {
    if (has_value) expand_into(argument, end, quoted, out, depth + 1);
  } else {
    leave(begin - 2, end + 1, out);
  }
}

void ShellVariables::insert(const ShellVariable& variable, bool quoted, bool all, Fields& out) {
  budget_.spend_steps(variable.doubts.size(), at_);
  reached_.insert(variable.doubts.begin(), variable.doubts.end());
  for (std::size_t i = 0; i < variable.items.size() && (all || i == 0) && !budget_.is_spent(); ++i) {
    if (i > 0) spend(kShellCharactersOfWord);
    if (i > 0) out.finish();
    insert_text(variable.items[i], quoted, out);
    if (all && quoted) out.started = true;
  }
}

void ShellVariables::insert_text(const ShellText& text, bool quoted, Fields& out) {
  spend(text.characters.size());
  if (budget_.is_spent()) return;
  auto assumed = text.assumed.begin();
  for (std::size_t i = 0; i < text.characters.size(); ++i) {
    const char c = text.characters[i];
    while (assumed != text.assumed.end() && assumed->at < i) ++assumed;
    const bool is_assumed = assumed != text.assumed.end() && assumed->at == i;
    if (!quoted && kBlank.find(c) != std::string_view::npos) {
      if (out.started) spend(kShellCharactersOfWord);
      out.finish();
    } else {
      if (is_assumed) out.add_assumed(assumed->line);
      out.add(c, text.lines[i]);
      if (!text.unresolved || c != '$') continue;
      out.current.unresolved = true;
      out.current.lost_line = std::max(out.current.lost_line, text.lost_line);
    }
  }
}

void ShellVariables::leave(std::size_t begin, std::size_t end, Fields& out, std::int32_t lost_line) {
  for (std::size_t i = begin; i < std::min(end, script_.size()); ++i) out.add(script_[i], line_at(i));
  out.current.unresolved = true;
  out.current.lost_line = std::max(out.current.lost_line, lost_line);
}

}  // namespace tidemark::formats
