// What may run or not: nothing in it has a value behind it, and a training in it is named.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "integrations/formats/shell_builtins.h"
#include "integrations/formats/shell_follower.h"
#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

using Kind = ShellNode::Kind;

bool is_lost_word(const ShellText& text) {
  return text.lost_line > 0 && text.characters.starts_with('$');
}

/// What an assignment makes of other names, which may hold something else the next time around.
bool depends_on_others(std::string_view raw, const std::string& name) {
  for (std::size_t at = raw.find_first_of("$`"); at != std::string_view::npos; at = raw.find_first_of("$`", at + 1)) {
    std::string_view rest = raw.substr(at + 1);
    if (raw[at] == '`') return true;
    if (rest.starts_with('{')) rest.remove_prefix(1);
    const std::size_t length = shell_name_length(rest);
    if (rest.substr(0, length) != name) return true;
    if (rest.size() > length && std::string_view(":-+=?#%/^,").find(rest[length]) != std::string_view::npos)
      return true;
  }
  return false;
}

/// A pattern that begins with a letter or a sign which stands for itself.
bool is_never_empty(std::string_view pattern) {
  if (pattern.starts_with('"') || pattern.starts_with('\'')) pattern.remove_prefix(1);
  return !pattern.empty() && std::string_view("\"'`$\\*?[!@+(").find(pattern.front()) == std::string_view::npos;
}

bool is_first_argument(std::string_view raw) {
  constexpr std::array<std::string_view, 6> kNames = {"$1", "\"$1\"", "${1}", "\"${1}\"", "${1-}", "\"${1:-}\""};
  return std::ranges::find(kNames, raw) != kNames.end();
}

/// A word of a test where the script has no arguments. Nothing: it asks for more than these.
std::optional<ShellTestWord> word_without_arguments(std::string_view raw) {
  ShellTestWord word;
  if (raw == "$#" || raw == "\"$#\"" || raw == "${#}") {
    word.text.add('0', 0);
  } else if (is_first_argument(raw)) {
    word.is_bare = !raw.starts_with('"');
  } else if (raw == "=" || raw == "==" || raw == "!=" || is_plain_shell_word(raw)) {
    word.text.add(raw, 0);
  } else if (raw != "\"\"" && raw != "''") {
    return std::nullopt;
  }
  return word;
}

}  // namespace

void ShellFollower::leave_out(const ShellNode& node) {
  budget_.spend_steps(1 + node.words.size(), node.begin);
  if (budget_.is_spent()) return;
  if (++depth_ > kDeepestFollowed) {
    stop_at_depth(node);
  } else {
    lose_expansions(node.redirections);
    leave_kind_out(node);
  }
  --depth_;
}

void ShellFollower::leave_kind_out(const ShellNode& node) {
  switch (node.kind) {
    case Kind::simple:
      return leave_command_out(node);
    case Kind::arithmetic:
      lose(effects_of_arithmetic(variables_.raw(node.words.front())), node.begin);
      return lose_expansions(node.words);
    case Kind::test:
      for (const ShellWord& word : node.words) lose(effects_of_arithmetic(variables_.raw(word)), word.begin);
      return lose_expansions(node.words);
    case Kind::subshell:
      return leave_apart(node.children.front());
    case Kind::pipeline:
      for (const ShellNode& child : node.children) node.children.size() == 1 ? leave_out(child) : leave_apart(child);
      return;
    case Kind::loop:
    case Kind::each:
      return leave_loop_out(node);
    case Kind::choice:
      return leave_choice_out(node);
    case Kind::function:
      return define(node, false);
    case Kind::list:
    case Kind::joined:
    case Kind::group:
    case Kind::decision:
    case Kind::other:
      return leave_children_out(node);
  }
}

void ShellFollower::leave_children_out(const ShellNode& node) {
  for (const ShellNode& child : node.children) child.is_background ? leave_apart(child) : leave_out(child);
}

/// What a shell of its own sets does not outlive it, whether it runs or not.
void ShellFollower::leave_apart(const ShellNode& node) {
  Copy before = copy(node.begin);
  if (budget_.is_spent()) return;
  leave_out(node);
  put_back(std::move(before));
}

/// Over an argument the script does not have, only arms whose patterns may stand for nothing.
void ShellFollower::leave_choice_out(const ShellNode& node) {
  const bool is_empty = left_out_loops_ > 0 && is_over_own_arguments(node);
  bool falls_through = false;
  lose_expansions(node.words);
  for (const ShellNode& arm : node.children) {
    lose_expansions(arm.words);
    const bool may_be = !is_empty || falls_through || std::ranges::any_of(arm.words, [this](const ShellWord& pattern) {
      return !is_never_empty(variables_.raw(pattern));
    });
    falls_through = may_be && arm.falls_through;
    if (may_be) leave_out(arm);
  }
}

/// What is in a loop may run, unless it is over the script's own arguments.
void ShellFollower::leave_loop_out(const ShellNode& node) {
  const bool is_loop = node.kind == Kind::loop;
  const bool over_own = is_over_own_arguments(node);
  if (is_loop && over_own) return leave_out(node.children.front());  // asked once
  if (over_own) return;
  if (!is_loop) {
    const std::string_view name = variables_.raw(node.words[1]);
    lose(effects_of_arithmetic(name), node.begin);
    lose_expansions(Words(node.words).subspan(1));
    if (shell_name_length(name) > 0)
      variables_.lose(std::string(name.substr(0, shell_name_length(name))), variables_.line_at(node.begin));
  }
  ++left_out_loops_;
  leave_children_out(node);
  --left_out_loops_;
}

bool ShellFollower::speaks_of(Words words, std::initializer_list<std::string_view> texts) const {
  return std::ranges::any_of(
      words, [&](const ShellWord& word) { return std::ranges::find(texts, variables_.raw(word)) != texts.end(); });
}

/// `while [ $# -gt 0 ]`, `while getopts`, `for A in "$@"`, and a `case $1` inside a loop. Of a function's arguments
/// nothing is known.
bool ShellFollower::is_over_own_arguments(const ShellNode& node) const {
  const ShellVariables::OwnArguments& own = variables_.own_arguments();
  if (!own.known || own.is_lost || (own.items && !own.items->empty())) return false;
  if (node.kind == Kind::choice) return is_first_argument(variables_.raw(node.words.front()));
  if (node.kind == Kind::each) {
    if (!node.has_list) return shell_name_length(variables_.raw(node.words[1])) > 0;
    return node.words.size() == 3 && speaks_of(Words(node.words).subspan(2), {"$@", "\"$@\"", "$*", "\"$*\""});
  }
  const std::vector<ShellNode>& condition = node.children.front().children;
  return condition.size() == 1 && truth_without_arguments(condition.front()) == node.is_until;
}

/// Of a test at the head of a loop. Nothing: it asks for more than the script's own arguments.
ShellTruth ShellFollower::truth_without_arguments(const ShellNode& condition) const {
  Words words(condition.words);
  const bool is_simple = condition.kind == Kind::simple;
  if ((!is_simple && condition.kind != Kind::test) || words.empty() || !condition.redirections.empty())
    return std::nullopt;
  const std::string_view first = variables_.raw(words.front());
  if (is_simple && first == "getopts") return words.size() == 3 ? ShellTruth(false) : std::nullopt;
  if (is_simple && first != "test" && (first != "[" || variables_.raw(words.back()) != "]")) return std::nullopt;
  if (is_simple) words = words.subspan(1, words.size() - (first == "[" ? 2 : 1));
  if (!is_simple && speaks_of(words, {"||", "(", ")"})) return std::nullopt;
  ShellTruth all = true;
  std::vector<ShellTestWord> part;
  bool is_open = false;
  std::vector<std::string> taken_empty;
  const auto end_part = [&] {
    const ShellTruth truth = is_open ? std::nullopt : test_words(part, taken_empty);
    all = truth == false || all == false ? ShellTruth(false) : truth && all ? ShellTruth(true) : std::nullopt;
    part.clear();
    is_open = false;
  };
  for (const ShellWord& word : words) {
    const std::string_view raw = variables_.raw(word);
    if (!is_simple && raw == "&&") {
      end_part();
      continue;
    }
    std::optional<ShellTestWord> one = word_without_arguments(raw);
    if (!one) is_open = true;
    if (one && !(is_simple && one->is_bare)) part.push_back(std::move(*one));
  }
  end_part();
  return all;
}

// ---- one command ----------------------------------------------------------------------------------------------------

void ShellFollower::lose(const ShellEffects& effects, std::size_t at) {
  for (const std::string& name : effects.names) variables_.lose(name, variables_.line_at(at));
  if (effects.any) variables_.lose_all(variables_.line_at(at), at);
}

/// Names that replacing the variables in words sets.
void ShellFollower::lose_expansions(Words words) {
  for (const ShellWord& word : words) {
    const std::string_view text = variables_.raw(word);
    budget_.spend_steps(text.size(), word.begin);
    lose(effects_of_expansion(text), word.begin);
    variables_.doubt_sums(text, word.begin);
    for (const ShellWord& item : word.items) lose_expansions({&item, 1});
    // {NAME}> opens a file and keeps its number.
    if (const std::size_t length = text.starts_with('{') ? shell_name_length(text.substr(1)) : 0;
        length > 0 && text.substr(1 + length).starts_with('}') && text.find_first_of("<>") != std::string_view::npos)
      variables_.lose(std::string(text.substr(1, length)), variables_.line_at(word.begin));
  }
}

void ShellFollower::leave_command_out(const ShellNode& node) {
  find_inner_trainings(node);
  Words words(node.words);
  lose_expansions(words);
  const auto command = std::ranges::find_if_not(words, [this](const ShellWord& word) {
    return is_shell_assignment(variables_.raw(word)) || is_element_assignment(variables_.raw(word));
  });
  const Words assignments(words.begin(), command);
  if (command == words.end()) {
    for (const ShellWord& word : assignments) leave_assignment_out(word);
    return;
  }
  words = {command, words.end()};
  bool skips_functions = false;
  while (speaks_of(words.first(1), {"command", "builtin"}) && words.size() > 1) {
    words = words.subspan(1);
    while (words.size() > 1 && variables_.raw(words.front()).starts_with('-')) words = words.subspan(1);
    skips_functions = true;
  }
  const std::string_view raw = variables_.raw(words.front());
  find_left_out_training(words);
  if (is_plain_shell_word(raw)) {
    const Function* function = skips_functions ? nullptr : function_named(raw);
    if (function != nullptr) return leave_call_out(Function(*function), node.begin);
    if (is_shell_builtin(raw) && !assignments.empty() && !is_quiet_builtin(raw) && raw != "read" && raw != "printf" &&
        raw != "wait")
      for (const ShellWord& word : assignments) leave_assignment_out(word);
    if (skips_functions) doubt_cut(words);
    return leave_named_out(raw, words);
  }
  const std::vector<ShellText> fields = variables_.expand(words.front());
  if (fields.empty() || is_never_set(fields.front())) {  // the next word may be the command
    for (const ShellWord& word : words.subspan(1)) {
      const std::string_view next = variables_.raw(word);
      if (is_changing_builtin(next) || function_named(next) != nullptr)
        doubt(node.begin, "which command this is, is not followed");
      if (is_plain_shell_word(next)) break;
    }
    return;
  }
  const std::string name = fields.front().characters;
  if (!fields.front().is_known() && (fields.front().lost_line > 0 || name.starts_with("$(") || name.starts_with('`')))
    return doubt(node.begin, "which command this is, is not followed");
  if (const Function* function = function_named(name)) return leave_call_out(Function(*function), node.begin);
  if (!is_changing_builtin(name)) return;
  doubt(node.begin, fmt::format("`{}` in quotes or out of a variable is not followed", name));
  variables_.lose_all(variables_.line_at(node.begin), node.begin);
}

/// A builtin, or a program, which changes nothing here.
void ShellFollower::leave_named_out(std::string_view name, Words words) {
  const std::size_t at = words.front().begin;
  const std::vector<std::string_view> raw = raw_of(words);
  if (declares_variables(name)) return leave_declaration_out(name, words);
  if (name == "return" && !frames_.empty()) {
    if (returned_ == Left::no) returned_ = Left::maybe;
    is_return_hopeful_ = false;
    return;
  }
  if (name == "set" || name == "shift") {
    leave_options_out(raw, at);
    // Without arguments `set` asks, and with options alone it leaves them.
    const bool renews = name == "shift" || std::ranges::any_of(raw, [](std::string_view word) {
                          return word != "set" && (word == "--" || !word.starts_with('-'));
                        });
    const ShellVariables::OwnArguments& own = variables_.own_arguments();
    const bool has_none = name == "shift" && !own.is_lost && (!own.items || own.items->empty());
    if (renews && !has_none && !(raw.size() == 3 && raw[2] == "pipefail"))
      variables_.set_own_arguments({.known = own.known, .is_lost = true, .items = {}});
    return;
  }
  if (name == "unset") {
    for (const ShellWord& word : words.subspan(1)) {
      const auto function = functions_.find(variables_.raw(word));
      if (function == functions_.end()) continue;
      doubt(at, "whether a function is taken away here is not followed");
    }
  }
  if (changes_folder(name)) return change_folder(words);
  if (name == "trap") return doubt(at, "whether a trap is set here is not followed");
  if (changes_shell(name))
    return doubt(at, fmt::format("`{}` changes how the shell goes on, which is not followed", name));
  const ShellEffects effects = name == "wait" ? ShellEffects{} : effects_of_builtin(raw);
  if ((name == "source" || name == ".") && effects.any) doubt_functions();
  if (name == "eval" && effects.any) doubt(at, "what `eval` runs here is not followed");
  lose(effects, at);
}

/// Options of `set` that decide what is set, exported or run behind it.
void ShellFollower::leave_options_out(std::span<const std::string_view> words, std::size_t at) {
  if (words.front() != "set") return;
  constexpr std::array<std::string_view, 8> kHarmless = {"pipefail",  "xtrace",  "verbose", "errtrace",
                                                         "functrace", "monitor", "hashall", "set"};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--" || word.size() < 2 || (word.front() != '-' && word.front() != '+')) return;
    bool is_harmless = word.find_first_not_of("xvbhmETo", 1) == std::string_view::npos;
    if (word.back() == 'o' && i + 1 < words.size())
      is_harmless &= std::ranges::find(kHarmless, words[++i]) != kHarmless.end();
    if (!is_harmless) doubt(at, "whether `set` changes how the shell goes on here is not followed");
  }
}

void ShellFollower::leave_declaration_out(std::string_view first, Words words) {
  const std::vector<std::string_view> raw = raw_of(words);
  doubt_order(words);
  bool is_own = first != "export" && first != "readonly" && !frames_.empty();
  bool is_readonly = first == "readonly", is_changed = false, is_odd = false;
  for (const ShellWord& word : words.subspan(1)) {
    const std::string_view text = variables_.raw(word);
    const std::string name(text.substr(0, shell_name_length(text)));
    if (text.starts_with('-') || text.starts_with('+')) {
      is_odd |= text.front() == '+';
      is_readonly |= first != "export" && text.find('r') != std::string_view::npos;
      is_changed |= text.find_first_of("iluaA") != std::string_view::npos;
      is_odd |= text.find_first_of("ncI") != std::string_view::npos;
      is_own &= text.find('g') == std::string_view::npos;
      is_odd |= !frames_.empty() && !is_own && first != "export";
    } else if (is_set_before_call(name)) {
      doubt(word.begin,
            fmt::format("what `{}` makes of {}, which is set before the call, is not followed", first, name));
    } else if (name.empty()) {
      lose(effects_of_builtin(raw), word.begin);
    } else {
      if (is_own) hide(name, word.begin, false);
      if (is_shell_assignment(text) && !is_own) {
        leave_assignment_out(word);
      } else if (is_own || name.size() != text.size()) {
        variables_.lose(name, variables_.line_at(word.begin));
      }
      if (is_readonly) variables_.declared(name).is_readonly = true;
      if (is_changed) variables_.declared(name).is_changed = true;
      if (is_odd || is_changed) variables_.lose(name, variables_.line_at(word.begin));
    }
  }
  if (is_odd && first != "export")
    doubt(words.front().begin, fmt::format("what `{}` makes of a name here is not followed", first));
}

void ShellFollower::leave_call_out(const Function& function, std::size_t at) {
  constexpr int kDeepest = 8;
  for (const ShellNode* body : function.bodies) called_.insert(body);
  if (left_out_calls_ == kDeepest) {
    doubt(at, "functions call one another too deep to be followed");
    return variables_.lose_all(variables_.line_at(at), at);
  }
  ++left_out_calls_;
  const Left returned = std::exchange(returned_, Left::no);
  const bool is_hopeful = is_return_hopeful_;
  const ShellVariables::OwnArguments own = variables_.own_arguments();
  variables_.set_own_arguments({.known = false, .items = {}});
  for (const ShellNode* body : function.bodies) {
    frames_.emplace_back();
    leave_out(*body);
    leave_frame();
  }
  variables_.set_own_arguments(own);
  returned_ = returned;
  is_return_hopeful_ = is_hopeful;
  --left_out_calls_;
  status_ = {.truth = std::nullopt};
}

/// Options put behind those a variable has leave these as they are; anything else replaces its value.
void ShellFollower::leave_assignment_out(const ShellWord& word) {
  const std::string_view raw = variables_.raw(word);
  const std::string name(raw.substr(0, shell_name_length(raw)));
  const std::int32_t line = variables_.line_at(word.begin);
  const auto found = variables_.all().find(name);
  if (found != variables_.all().end() && found->second.is_readonly)
    doubt(word.begin, fmt::format("{} is readonly here, or may be: the shell does not take what it is given", name));
  bool is_open = !is_shell_assignment(raw) || (left_out_loops_ > 0 && depends_on_others(raw, name));
  for (const ShellWord& item : word.items)
    is_open |= left_out_loops_ > 0 && depends_on_others(variables_.raw(item), name);
  if (is_open) return variables_.lose(name, line);
  const std::optional<std::vector<ShellText>> added = variables_.added_by(word);
  std::vector<ShellText> more;
  if (added)
    for (const ShellText& text : *added) split_at_blanks(text, more);
  const bool options = added && (more.empty() || more.front().characters.starts_with("--"));
  if (!options || std::ranges::any_of(more, is_lost_word)) return variables_.lose(name, line);
  for (ShellText& text : more) {
    if (!text.characters.starts_with("--")) continue;
    variables_.doubt(name, static_cast<std::int32_t>(doubts_.size()));
    doubts_.push_back(std::move(text));
  }
}

/// One that is not followed: whether it runs, the script does not decide.
void ShellFollower::find_left_out_training(Words words) {
  const std::string_view first = variables_.raw(words.front());
  if (!finds_trainings_ || is_shell_test(first) || is_quiet_builtin(first) || declares_variables(first) ||
      first == "source" || first == "." || first == "printf" || first == "wait")
    return;
  const std::set<std::int32_t> outer = variables_.take_reached();
  ShellStart start{.line = line_of(words)};
  for (const ShellWord& word : words)
    for (ShellText& field : variables_.expand(word)) (void)add_command_words(std::move(field), start.words);
  (void)variables_.take_reached();
  variables_.reach(outer);
  launches_.take_left_out(start);
}

}  // namespace tidemark::formats
