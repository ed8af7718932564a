// What words become: quotes removed, variables replaced.

#include <algorithm>
#include <optional>
#include <utility>

#include "integrations/formats/shell_effects.h"
#include "integrations/formats/shell_names.h"
#include "integrations/formats/shell_variables.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr int kDeepest = 32;

/// Between quotes, `$@` and `${NAME[@]}` alone are as many words as they hold: of none, no word.
bool is_list(std::string_view quoted) {
  if (quoted == "$@" || (quoted.starts_with("${@") && quoted.find('}') == quoted.size() - 1)) return true;
  if (!quoted.starts_with("${")) return false;
  const std::string_view inner = quoted.substr(2);
  return inner.substr(shell_name_length(inner)) == "[@]}";
}

/// `([0]*3+[1]*5)`: to a shell a pattern, but no file is called as it asks for.
bool is_list_expression(std::string_view text) {
  return text.find_first_not_of("0123456789[]()*+,|") == std::string_view::npos &&
         text.find("]*") != std::string_view::npos &&
         (text.starts_with('(') || text.find('+') != std::string_view::npos);
}

/// `{a,b}` or `{1..3}` somewhere in a word as written: it may become several.
bool has_alternatives(std::string_view word) {
  for (std::size_t at = word.find('{'); at != std::string_view::npos; at = word.find('{', at + 1)) {
    if (at > 0 && word[at - 1] == '$') continue;
    const std::string_view rest = word.substr(at);
    return rest.find('}') != std::string_view::npos &&
           (rest.find(',') != std::string_view::npos || rest.find("..") != std::string_view::npos);
  }
  return false;
}

}  // namespace

/// Fields under construction.
struct ShellVariables::Fields {
  std::vector<ShellText> done;
  ShellText current;
  bool splits = true;             ///< false: all is one field, as on the right of an assignment
  bool started = false;           ///< an empty pair of quotes is a field, too
  bool is_pattern = false;        ///< the current one may stand for names of files
  bool is_elsewhere = false;      ///< or for a home folder, or for several words
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
  void add_unknown(char c, std::int32_t line) {
    current.unknown.push_back(static_cast<std::uint32_t>(current.characters.size()));
    current.unresolved = true;
    add(c, line);
  }
  void finish() {
    if (is_elsewhere || (is_pattern && splits && !is_list_expression(current.characters))) current.make_unknown();
    is_elsewhere = is_pattern = false;
    if (started) done.push_back(std::move(current));
    current = {};
    started = false;
  }
};

std::vector<ShellText> ShellVariables::expand(const ShellWord& word) {
  at_ = word.begin;
  spend(kShellCharactersOfWord);
  const std::string_view text = raw(word);
  Fields fields;
  if (find_bare(text, "<>") != std::string_view::npos || has_alternatives(text)) fields.is_elsewhere = true;
  const bool is_elsewhere = fields.is_elsewhere;
  expand_into(word.begin, word.end, false, fields, 0);
  fields.finish();
  if (is_elsewhere)
    for (ShellText& field : fields.done) field.make_unknown();
  return std::move(fields.done);
}

ShellText ShellVariables::expand_whole(std::size_t begin, std::size_t end, int depth) {
  Fields fields;
  fields.splits = false;
  if (depth == 0 && find_bare(script_.substr(begin, end - begin), "<>") != std::string_view::npos)
    fields.is_elsewhere = true;  // <(command)
  expand_into(begin, end, false, fields, depth);
  fields.finish();
  return fields.done.empty() ? ShellText{} : std::move(fields.done.front());
}

void ShellVariables::expand_into(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  at_ = begin;
  spend(end - begin);
  if (depth > kDeepest) return leave(begin, end, out);
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
      const std::size_t unit = end_of_unit(at, end, false);
      for (std::size_t i = at + 1; i + 1 < unit; ++i) out.add(script_[i], line_at(i));
      at = unit;
    } else if (c == '"') {
      // Between quotes it belongs to the word of `${NAME:-word}`.
      at = quoted ? at + 1 : expand_quotation(at, end, out, depth);
    } else if (c == '$') {
      at = expand_dollar(at, end, quoted, out, depth);
    } else if (c == '`') {
      const std::size_t unit = end_of_unit(at, end, quoted);
      leave(at, unit, out);
      at = unit;
    } else if (!quoted && out.splits && kBlank.find(c) != std::string_view::npos) {
      out.finish();
      ++at;
    } else {
      if (!quoted && std::string_view("*?[").find(c) != std::string_view::npos) out.is_pattern = true;
      const char before = at == begin ? '=' : script_[at - 1];
      if (!quoted && c == '~' && (before == '=' || before == ':')) out.is_elsewhere = true;
      out.add(c, line_at(at));
      ++at;
    }
  }
}

std::size_t ShellVariables::expand_quotation(std::size_t at, std::size_t end, Fields& out, int depth) {
  const std::size_t unit = end_of_unit(at, end, false);
  const std::size_t stop = std::max(at + 1, unit - 1);
  const std::string_view inner = script_.substr(at + 1, stop - at - 1);
  const bool has_list = inner.find("$@") != std::string_view::npos || inner.find("@]") != std::string_view::npos ||
                        inner.find("{@") != std::string_view::npos;
  const bool was_started = out.started;
  const std::size_t fields = out.done.size(), characters = out.current.characters.size();
  out.started |= !is_list(inner);
  expand_into(at + 1, stop, true, out, depth + 1);
  // Beside a list of none an empty text is a word or not.
  const bool is_nothing = !was_started && fields == out.done.size() && characters == out.current.characters.size();
  if (has_list && is_nothing && !is_list(inner)) leave(at, unit, out);
  return unit;
}

/// `$'...'`.
std::size_t ShellVariables::expand_escaped(std::size_t at, std::size_t end, Fields& out) {
  constexpr std::string_view kLetters = "ntr\\'\"?", kMeant = "\n\t\r\\'\"?";
  const std::size_t unit = end_of_unit(at, end, false);
  const std::size_t stop = std::max(at + 2, unit - 1);
  for (std::size_t i = at + 2; i + 1 < stop; ++i) {
    if (script_[i] != '\\') continue;
    if (kLetters.find(script_[i + 1]) == std::string_view::npos) {
      leave(at, unit, out);
      return unit;
    }
    ++i;
  }
  out.started = true;
  for (std::size_t i = at + 2; i < stop; ++i) {
    const bool escaped = script_[i] == '\\' && i + 1 < stop;
    if (escaped) ++i;
    out.add(escaped ? kMeant[kLetters.find(script_[i])] : script_[i], line_at(i));
  }
  return unit;
}

std::size_t ShellVariables::end_of_unit(std::size_t at, std::size_t end, bool quoted) {
  const std::size_t unit = end_of_shell_unit(script_, at, quoted);
  budget_.spend_steps(unit - at, at);
  return std::min(unit, end);
}

/// `$((...))`: what `$` begins in it is replaced first, then names are numbers or sums of them. What it sets has no
/// value behind it.
void ShellVariables::expand_arithmetic(std::size_t at, std::size_t unit, bool quoted, Fields& out, int depth) {
  const std::size_t begin = at + 3, end = std::max(begin, unit - std::min<std::size_t>(unit, 2));
  const bool is_closed = unit >= at + 5 && script_.substr(unit - 2, 2) == "))";
  ShellEffects effects = effects_of_expansion(script_.substr(at, unit - at));
  if (!is_closed || !effects.names.empty() || effects.any) {
    doubt_numbers(script_.substr(at, unit - at), at);
    return leave(at, unit, out);
  }
  Fields inner;
  inner.splits = false;
  expand_into(begin, end, true, inner, depth + 1);
  inner.finish();
  const ShellText expression = inner.done.empty() ? ShellText{} : std::move(inner.done.front());
  if (!expression.unresolved) lose_effects(expression.characters, at);
  const auto value = expression.unresolved ? std::nullopt : sum(expression.characters, at);
  if (!value) {
    doubt_numbers(expression.characters, at);
    const std::int32_t lost_line = expression.unresolved ? expression.lost_line : sum_lost_line_;
    if (!expression.unresolved && !is_sum_open_ && !budget_.is_spent())
      note_problem(line_at(at), "this arithmetic is not followed");
    return leave(at, unit, out, lost_line);
  }
  ShellText text;
  text.add(std::to_string(*value), line_at(at));
  const std::int32_t assumed_line = std::max(sum_assumed_line_, expression.assumed_line());
  if (assumed_line > 0)
    for (std::uint32_t i = 0; i < text.characters.size(); ++i) text.assumed.push_back({i, assumed_line});
  insert_text(text, quoted, out);
}

std::size_t ShellVariables::expand_dollar(std::size_t at, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::string_view rest = script_.substr(at + 1, end - at - 1);
  if (const std::size_t length = shell_name_length(rest); length > 0) {
    const Known known = look_up(rest.substr(0, length));
    note_unset(known, at);
    if (known.variable == nullptr) {
      leave(at, at + 1 + length, out, known.lost_line);
    } else {
      insert(*known.variable, quoted, Items::first, out);
    }
    return at + 1 + length;
  }
  if (rest.starts_with('\'') && !quoted) return expand_escaped(at, end, out);
  const std::size_t unit = end_of_unit(at, end, quoted);
  if (rest.starts_with("((")) {
    expand_arithmetic(at, unit, quoted, out, depth);
    return unit;
  }
  if (rest.starts_with('{')) {
    expand_braces(at + 2, std::max(at + 2, unit - 1), quoted, out, depth);
    return unit;
  }
  if (rest.starts_with('@') || rest.starts_with('*')) {
    expand_own_arguments(at, at + 2, quoted, rest.starts_with('*'), out);
    return at + 2;
  }
  if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    const OwnArgument own = own_argument(rest.front());
    if (own.value) {
      insert(*own.value, quoted, Items::first, out);
    } else if (!own.is_known) {
      leave(at, at + 2, out);
    }
    return at + 2;
  }
  if (rest.starts_with('[') || (rest.starts_with('"') && !quoted)) {  // old arithmetic, translated texts
    const std::size_t close =
        rest.starts_with('[') ? std::min(script_.find(']', at), end - 1) + 1 : end_of_unit(at + 1, end, false);
    leave(at, close, out);
    return close;
  }
  if (!rest.starts_with('(') &&
      (rest.empty() || std::string_view("#?!$-").find(rest.front()) == std::string_view::npos)) {
    out.add('$', line_at(at));
    return at + 1;
  }
  const std::size_t stop = rest.starts_with('(') ? unit : at + 2;
  leave(at, stop, out);
  return stop;
}

/// `$@`: as many words as there are. Of a function's from its caller nothing is known.
void ShellVariables::expand_own_arguments(std::size_t at, std::size_t end, bool quoted, bool star, Fields& out) {
  if (!state_.own.known) return leave(at, end, out, line_at(at));
  if (!state_.own.items) return leave(at, end, out);
  insert(ShellVariable{.items = *state_.own.items}, quoted, star ? Items::joined : Items::apart, out);
}

/// The default behind `:-`, of a name that a line may set which is not followed: it is marked. One that is empty may
/// hide any words.
void ShellVariables::expand_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out,
                                    int depth) {
  if (argument >= end) return leave(begin - 2, end + 1, out);
  const std::int32_t outer = std::exchange(out.assumed_line, state_.others_lost_line);
  expand_into(argument, end, quoted, out, depth + 1);
  out.assumed_line = outer;
}

/// The same of `:=`, which the name keeps.
void ShellVariables::assign_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out,
                                    int depth) {
  ShellText value = expand_whole(argument, end, depth + 1);
  if (value.characters.empty()) return leave(begin - 2, end + 1, out);
  value.assumed.clear();
  for (std::uint32_t i = 0; i < value.characters.size(); ++i) value.assumed.push_back({i, state_.others_lost_line});
  insert_text(value, quoted, out);
  const std::string_view name = script_.substr(begin, shell_name_length(script_.substr(begin)));
  set(std::string(name), std::move(value), line_at(begin));
}

/// Between the braces of `${...}`: a name, `[@]`, or `:-` and the like with a default.
void ShellVariables::expand_braces(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth) {
  const std::string_view inner = script_.substr(begin, end - begin);
  std::size_t length = shell_name_length(inner);
  OwnArgument own;
  const bool is_own = length == 0 && !inner.empty() && inner.front() >= '0' && inner.front() <= '9';
  if (is_own) {
    length = 1;
    own = own_argument(inner.front());
    if (!own.is_known && !own.is_taken_as_none) return leave(begin - 2, end + 1, out);
  }
  if (length == 0) return expand_list_of_own(begin, end, quoted, out);
  std::string_view rest = inner.substr(length);
  const Known known = look_up(inner.substr(0, length));
  const ShellVariable* variable = own.value ? &*own.value : known.variable;
  const std::size_t behind = begin + length + (rest.starts_with(':') ? 2 : 1);
  if (known.is_unnamed && (rest.starts_with(":-") || rest.starts_with('-')))
    return expand_default(begin, behind, end, quoted, out, depth);
  if (known.is_unnamed && (rest.starts_with(":=") || rest.starts_with('=')))
    return assign_default(begin, behind, end, quoted, out, depth);
  if (known.lost_line > 0 || known.is_outside) return leave(begin - 2, end + 1, out, known.lost_line);
  Items which = Items::first;
  if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
    which = rest[1] == '@' ? Items::apart : Items::joined;
    rest.remove_prefix(3);
  }
  const bool has_default =
      !rest.empty() &&
      (rest.starts_with(':') ? rest.size() > 1 && std::string_view("-=?+").find(rest[1]) != std::string_view::npos
                             : std::string_view("-=?+").find(rest[0]) != std::string_view::npos);
  if (!is_own && !has_default && which == Items::first) note_unset(known, begin);
  if (rest.empty()) {
    variable == nullptr ? leave(begin - 2, end + 1, out) : insert(*variable, quoted, which, out);
    return;
  }
  const bool colon = rest.front() == ':';
  const char operation = rest.size() > (colon ? 1U : 0U) ? rest[colon ? 1 : 0] : '\0';
  const std::size_t argument = end - rest.size() + (colon ? 2 : 1);
  const bool is_set = variable != nullptr && !variable->items.empty();
  // Of what the script alone does not say it may be empty.
  const bool is_open = is_set && colon && variable->items.front().unresolved;
  const bool has_value = is_set && !(colon && variable->items.front().characters.empty());
  const bool is_list_open = colon && which != Items::first && is_set && !has_value && variable->items.size() > 1;
  if (is_list_open || (quoted && rest.find("\\}") != std::string_view::npos)) {
    leave(begin - 2, end + 1, out);
  } else if (is_open && operation == '=') {
    leave(begin - 2, end + 1, out);
  } else if ((operation == '-' || operation == '=' || operation == '?') && has_value) {
    insert(*variable, quoted, which, out);
  } else if (operation == '-') {
    expand_into(argument, end, quoted, out, depth + 1);
  } else if (operation == '=' && !is_own) {
    ShellText value = expand_whole(argument, end, depth + 1);
    insert_text(value, quoted, out);
    set(std::string(inner.substr(0, length)), std::move(value), line_at(begin));
  } else if (operation == '+' && !is_open) {
    if (has_value) expand_into(argument, end, quoted, out, depth + 1);
  } else {
    leave(begin - 2, end + 1, out);
  }
}

/// `${@}`, and what stands for something else than a variable's value.
void ShellVariables::expand_list_of_own(std::size_t begin, std::size_t end, bool quoted, Fields& out) {
  const std::string_view inner = script_.substr(begin, end - begin);
  const bool of_own = inner.starts_with('@') || inner.starts_with('*');
  const OwnArguments& own = state_.own;
  if (of_own && own.known && own.items && own.items->empty() &&
      (inner.size() == 1 || (inner[1] == ':' && inner.find_first_not_of("0123456789", 2) == std::string_view::npos)))
    return;
  if (of_own && inner.size() == 1) return expand_own_arguments(begin - 2, end + 1, quoted, inner.starts_with('*'), out);
  leave(begin - 2, end + 1, out, of_own && !own.known ? line_at(begin) : 0);
}

void ShellVariables::insert(const ShellVariable& variable, bool quoted, Items which, Fields& out) {
  budget_.spend_steps(variable.doubts.size(), at_);
  reached_.insert(variable.doubts.begin(), variable.doubts.end());
  const std::size_t count =
      which == Items::first ? std::min<std::size_t>(1, variable.items.size()) : variable.items.size();
  const bool joins = !out.splits || (quoted && which == Items::joined);
  for (std::size_t i = 0; i < count && !budget_.is_spent(); ++i) {
    if (i > 0) spend(kShellCharactersOfWord);
    if (i > 0 && joins) out.add(' ', variable.items[i].line(line_at(at_)));
    if (i > 0 && !joins) out.finish();
    insert_text(variable.items[i], quoted, out);
    if (which == Items::apart && quoted) out.started = true;
  }
}

void ShellVariables::insert_text(const ShellText& text, bool quoted, Fields& out) {
  spend(text.characters.size());
  if (budget_.is_spent()) return;
  auto assumed = text.assumed.begin();
  auto unknown = text.unknown.begin();
  for (std::size_t i = 0; i < text.characters.size(); ++i) {
    const char c = text.characters[i];
    while (assumed != text.assumed.end() && assumed->at < i) ++assumed;
    while (unknown != text.unknown.end() && *unknown < i) ++unknown;
    const bool is_unknown = unknown != text.unknown.end() && *unknown == i;
    if (!quoted && out.splits && kBlank.find(c) != std::string_view::npos) {
      if (out.started) spend(kShellCharactersOfWord);
      out.finish();
      continue;
    }
    if (!quoted && std::string_view("*?[").find(c) != std::string_view::npos) out.is_pattern = true;
    if (assumed != text.assumed.end() && assumed->at == i) out.add_assumed(assumed->line);
    if (!is_unknown) {
      out.add(c, text.lines[i]);
      continue;
    }
    out.add_unknown(c, text.lines[i]);
    out.current.lost_line = std::max(out.current.lost_line, text.lost_line);
  }
}

/// What it sets on the way is lost, too.
void ShellVariables::leave(std::size_t begin, std::size_t end, Fields& out, std::int32_t lost_line) {
  end = std::min(end, script_.size());
  const ShellEffects effects = effects_of_expansion(script_.substr(begin, end - begin));
  budget_.spend_steps(end - begin, begin);
  doubt_left(script_.substr(begin, end - begin), begin);
  for (std::size_t i = begin; i < end; ++i) out.add_unknown(script_[i], line_at(i));
  out.current.lost_line = std::max(out.current.lost_line, lost_line);
  for (const std::string& name : effects.names) lose(name, line_at(begin));
  if (effects.any) lose_all(line_at(begin), begin);
}

}  // namespace tidemark::formats
