#include "integrations/formats/shell_variables.h"

#include <charconv>
#include <optional>

#include "integrations/formats/shell_arithmetic.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr int kDeepest = 32;

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9');
}

/// Length of the name at the beginning of `text`; 0: none.
std::size_t name_length(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) return 0;
  std::size_t length = 1;
  while (length < text.size() && is_name(text[length])) ++length;
  return length;
}

/// Between quotes, `$@` and `${NAME[@]}` are as many words as they hold: of none, no word.
bool is_list(std::string_view quoted) {
  if (quoted.starts_with("$@") || quoted.starts_with("${@")) return true;
  if (!quoted.starts_with("${")) return false;
  const std::string_view inner = quoted.substr(2);
  return inner.substr(name_length(inner)).starts_with("[@]");
}

}  // namespace

/// Fields under construction.
struct ShellVariables::Fields {
  std::vector<ShellText> done;
  ShellText current;
  bool started = false;  ///< an empty pair of quotes is a field, too

  void add(char c, std::int32_t line) {
    current.add(c, line);
    started = true;
  }
  void finish() {
    if (started) done.push_back(std::move(current));
    current = {};
    started = false;
  }
};

ShellVariables::ShellVariables(std::string_view script) : script_(script) {
  for (std::size_t i = 0; i < script.size(); ++i)
    if (script[i] == '\n') line_ends_.push_back(i);
}

std::int32_t ShellVariables::line_at(std::size_t offset) const {
  return static_cast<std::int32_t>(std::ranges::lower_bound(line_ends_, offset) - line_ends_.begin()) + 1;
}

std::vector<ShellText> ShellVariables::expand(const ShellWord& word) {
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
  const std::size_t length = name_length(text);
  const bool appends = length > 0 && text.substr(length).starts_with("+=");
  if (length == 0 || (!appends && !text.substr(length).starts_with('='))) return false;
  const std::string name(text.substr(0, length));
  std::vector<ShellText> items;
  if (word.is_array) {
    for (const ShellWord& item : word.items)
      for (ShellText& field : expand(item)) items.push_back(std::move(field));
  } else {
    items.push_back(expand_whole(word.begin + length + (appends ? 2 : 1), word.end));
  }
  ShellVariable& variable = variables_[name];
  variable.exported |= exported;
  if (!appends) {
    variable.items = std::move(items);
  } else if (word.is_array || variable.items.size() > 1) {
    variable.items.insert(variable.items.end(), items.begin(), items.end());
  } else {
    if (variable.items.empty()) variable.items.emplace_back();
    variable.items.front().add(items.front());
  }
  return true;
}

void ShellVariables::expand_into(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  spend(end - begin);
  if (overgrown() || depth > kDeepest) return;
  for (std::size_t at = begin; at < end;) {
    const char c = script_[at];
    const std::size_t unit = std::min(end_of_shell_unit(script_, at), end);
    if (c == '\\' && at + 1 < end) {
      const std::size_t next = script_[at + 1] == '\r' && at + 2 < end ? at + 2 : at + 1;
      const bool kept = quoted && std::string_view("$`\"\\\n").find(script_[next]) == std::string_view::npos;
      if (kept) out.add('\\', line_at(at));
      if (script_[next] != '\n') out.add(script_[next], line_at(next));
      at = next + 1;
    } else if (c == '\'' && !quoted) {
      out.started = true;
      for (std::size_t i = at + 1; i + 1 < unit; ++i) out.add(script_[i], line_at(i));
      at = unit;
    } else if (c == '"' && !quoted) {
      const std::size_t stop = std::max(at + 1, unit - 1);
      out.started |= !is_list(script_.substr(at + 1, stop - at - 1));
      expand_into(at + 1, stop, true, out, depth + 1);
      at = unit;
    } else if (c == '$') {
      at = expand_dollar(at, end, quoted, out, depth);
    } else if (c == '`') {
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

std::size_t ShellVariables::expand_dollar(std::size_t at, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::size_t unit = std::min(end_of_shell_unit(script_, at), end);
  const std::string_view rest = script_.substr(at + 1, end - at - 1);
  if (rest.starts_with("((")) {
    const auto value_of = [this](std::string_view name) -> std::optional<std::int64_t> {
      const auto found = variables_.find(std::string(name));
      if (found == variables_.end() || found->second.items.empty()) return std::nullopt;
      const std::string& text = found->second.items.front().characters;
      return shell_arithmetic(text, [](std::string_view) { return std::nullopt; });
    };
    const std::string_view inner = script_.substr(at + 3, unit - std::min(unit, at + 5));
    if (const auto value = shell_arithmetic(inner, value_of)) {
      ShellText text;
      text.add(std::to_string(*value), line_at(at));
      insert_text(text, quoted, out);
    } else {
      leave(at, unit, out);
    }
    return unit;
  }
  if (rest.starts_with('{')) {
    expand_braces(at + 2, std::max(at + 2, unit - 1), quoted, out, depth);
    return unit;
  }
  if (const std::size_t length = name_length(rest); length > 0) {
    const auto found = variables_.find(std::string(rest.substr(0, length)));
    if (found == variables_.end()) {
      leave(at, at + 1 + length, out);
    } else {
      insert(found->second, quoted, false, out);
    }
    return at + 1 + length;
  }
  if (rest.starts_with('@') || rest.starts_with('*')) return at + 2;  // the script's own arguments: none
  if (!rest.starts_with('(') &&
      (rest.empty() || std::string_view("0123456789#?!$-").find(rest.front()) == std::string_view::npos)) {
    out.add('$', line_at(at));
    return at + 1;
  }
  const std::size_t stop = rest.starts_with('(') ? unit : at + 2;
  leave(at, stop, out);
  return stop;
}

/// Between the braces of `${...}`: a name, `[@]`, or `:-` and the like with a default.
void ShellVariables::expand_braces(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::string_view inner = script_.substr(begin, end - begin);
  std::size_t length = name_length(inner);
  if (length == 0 && !inner.empty() && inner.front() >= '0' && inner.front() <= '9') length = 1;
  std::string_view rest = inner.substr(length);
  const auto found = variables_.find(std::string(inner.substr(0, length)));
  const ShellVariable* variable = found == variables_.end() ? nullptr : &found->second;
  bool all = false;
  for (const std::string_view index : {"[@]", "[*]"}) {
    if (!rest.starts_with(index)) continue;
    all = true;
    rest.remove_prefix(index.size());
  }
  if (length == 0) {
    if (!inner.starts_with('@') && !inner.starts_with('*')) leave(begin - 2, end + 1, out);
    return;
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
  for (std::size_t i = 0; i < variable.items.size() && (all || i == 0) && !overgrown(); ++i) {
    if (i > 0) spend(kShellCharactersOfWord);
    if (i > 0) out.finish();
    insert_text(variable.items[i], quoted, out);
    if (all && quoted) out.started = true;
  }
}

void ShellVariables::insert_text(const ShellText& text, bool quoted, Fields& out) {
  spend(text.characters.size());
  if (overgrown()) return;
  for (std::size_t i = 0; i < text.characters.size(); ++i) {
    const char c = text.characters[i];
    if (!quoted && kBlank.find(c) != std::string_view::npos) {
      if (out.started) spend(kShellCharactersOfWord);
      out.finish();
    } else {
      out.add(c, text.lines[i]);
      out.current.unresolved |= text.unresolved && c == '$';
    }
  }
}

void ShellVariables::leave(std::size_t begin, std::size_t end, Fields& out) {
  for (std::size_t i = begin; i < std::min(end, script_.size()); ++i) out.add(script_[i], line_at(i));
  out.current.unresolved = true;
}

}  // namespace tidemark::formats
