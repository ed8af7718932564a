// One command: an assignment, a builtin, a function, a program.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "integrations/formats/shell_builtins.h"
#include "integrations/formats/shell_follower.h"
#include "integrations/formats/shell_names.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kNotSaid = "this sets what the script alone does not say";

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Of `return N` and `exit N`.
ShellTruth truth_of_status(const ShellText& text) {
  if (!text.is_known() || !is_digits(text.characters) || text.characters.size() > 3) return std::nullopt;
  return std::stoi(text.characters) % 256 == 0;
}

/// `$(which python)`: the path of a program.
bool is_path_of_program(std::string_view text) {
  for (const std::string_view begin : {"$(which ", "$(command -v ", "`which ", "`command -v ", "$(type -P "})
    if (text.starts_with(begin)) return true;
  return text.find('/') != std::string_view::npos && !text.starts_with("$(") && !text.starts_with('`');
}

bool has_output(std::string_view word) {
  return word.find("$(") != std::string_view::npos || word.find('`') != std::string_view::npos;
}

/// What a trap may do unseen: say something, or end.
bool is_harmless_action(std::string_view action) {
  if (action.find_first_of(";&|\n=`(){}<>") != std::string_view::npos) return action == "-" || action.empty();
  for (const std::string_view begin : {"echo ", "exit", "kill "})
    if (action.starts_with(begin)) return true;
  return action == "-" || action.empty() || action == ":";
}

}  // namespace

void ShellFollower::run(const ShellNode& node) {
  find_inner_trainings(node);
  (void)variables_.take_reached();
  const Words words(node.words);
  const auto command = std::ranges::find_if_not(words, [this](const ShellWord& word) {
    return is_shell_assignment(variables_.raw(word)) || is_element_assignment(variables_.raw(word));
  });
  const Words assignments(words.begin(), command);
  if (command != words.end()) return run_words({command, words.end()}, assignments, false);
  status_ = {};
  for (const ShellWord& word : assignments) {
    const std::string_view text = variables_.raw(word);
    if (has_output(text)) status_ = {.truth = std::nullopt, .is_hopeful = true};
    assign(word);
  }
}

void ShellFollower::assign(const ShellWord& word) {
  if (variables_.assign(word, false)) return;
  const std::string_view text = variables_.raw(word);
  note(word.begin, std::string(kNotSaid));
  lose_expansions({&word, 1});
  lose(effects_of_arithmetic(text), word.begin);
  const std::size_t open = text.find('['), close = text.find(']');
  if (!is_digits(text.substr(open + 1, close - open - 1))) doubt(word.begin, "which item this sets is not followed");
  variables_.lose(std::string(text.substr(0, shell_name_length(text))), line_of({&word, 1}));
}

/// A word that is replaced by nothing is no word: the command is the next.
void ShellFollower::run_words(Words words, Words assignments, bool skips_functions) {
  Command command{.words = words, .assignments = assignments, .skips_functions = skips_functions};
  for (; !command.words.empty(); command.words = command.words.subspan(1)) {
    const std::string_view raw = variables_.raw(command.words.front());
    if (is_plain_shell_word(raw)) {
      command.name = raw;
      const bool is_behind_nothing = command.words.size() < words.size();
      if (skips_functions || is_behind_nothing) doubt_cut(command.words);
      if (is_behind_nothing && may_not_run_) doubt(words.front().begin, "whether this is run, a file decides");
      return run_literal(command);
    }
    command.fields = variables_.expand(command.words.front());
    if (command.fields.empty()) continue;
    if (!command.fields.front().is_known()) return run_unknown(command);
    const std::string name = command.fields.front().characters;
    command.name = name;
    return run_replaced(command);
  }
  if (may_not_run_ && !assignments.empty()) doubt(words.front().begin, "whether this is run, a file decides");
  for (const ShellWord& word : assignments) assign(word);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// `command`, `builtin`: the rest is the command, and no function.
bool ShellFollower::wraps(Command& command) {
  if (command.name != "command" && command.name != "builtin") return false;
  Words rest = command.words.subspan(1);
  bool only_asks = false;
  while (!rest.empty() && variables_.raw(rest.front()).starts_with('-')) {
    only_asks |= variables_.raw(rest.front()).find_first_of("vV") != std::string_view::npos;
    rest = rest.subspan(1);
  }
  if (rest.empty() || only_asks) {
    run_quietly(command);
  } else {
    run_words(rest, command.assignments, true);
  }
  return true;
}

void ShellFollower::run_literal(const Command& given) {
  Command command = given;
  if (const Function* function = command.skips_functions ? nullptr : function_named(command.name))
    return run_function(command, Function(*function));
  if (wraps(command)) return;
  const std::string_view name = command.name;
  if (!is_shell_builtin(name)) return run_external(command);
  for (const ShellWord& word : command.assignments) {
    lose_expansions({&word, 1});
    constexpr std::array<std::string_view, 7> kAlone = {"read",    "mapfile", "readarray", "printf",
                                                        "getopts", "exec",    "wait"};
    if (is_shell_test(name) || is_quiet_builtin(name) || std::ranges::find(kAlone, name) != kAlone.end()) continue;
    const std::string_view text = variables_.raw(word);
    variables_.lose(std::string(text.substr(0, shell_name_length(text))), line_of({&word, 1}));
    doubt(word.begin, fmt::format("whether a value before `{}` stays is not followed", name));
  }
  run_command(command);
}

/// A builtin by its name as written.
void ShellFollower::run_command(const Command& command) {
  const std::string_view name = command.name;
  const auto is = [name](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (is_shell_test(name)) return run_test(command);
  if (declares_variables(name)) return declare(command);
  if (name == "printf") return run_printf(command);
  if (is_quiet_builtin(name) || name == "wait") return run_quietly(command);
  if (is({"read", "mapfile", "readarray", "getopts"})) return run_reader(command);
  if (is({"return", "exit"})) return run_return(command);
  if (is({"source", "."})) return run_source(command);
  if (name == "set") return run_set(command);
  if (name == "shift") return run_shift(command);
  if (name == "unset") return run_unset(command);
  if (name == "let") return run_let(command);
  if (name == "eval") return run_eval(command);
  if (name == "exec") return run_exec(command);
  if (name == "trap") return run_trap(command);
  lose_expansions(command.words);
  doubt(command.words.front().begin, fmt::format("`{}` changes how the shell goes on, which is not followed", name));
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// A command whose name stands in quotes or in a variable.
void ShellFollower::run_replaced(const Command& command) {
  const std::string_view name = command.name;
  const Function* function = command.skips_functions ? nullptr : function_named(name);
  if (function != nullptr && may_not_run_) doubt(command.words.front().begin, "whether this is run, a file decides");
  if (function != nullptr) return run_function(command, Function(*function));
  if (!is_changing_builtin(name)) {
    if (!is_shell_builtin(name)) return run_external(command);
    (void)texts_of(command);
    status_ = {.truth = std::nullopt};
    return;
  }
  (void)texts_of(command);
  const std::size_t at = command.words.front().begin;
  doubt(at, fmt::format("`{}` in quotes or out of a variable is not followed", name));
  variables_.lose_all(variables_.line_at(at), at);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// The script alone does not say which command it is.
void ShellFollower::run_unknown(const Command& command) {
  const ShellText first = command.fields.front();
  const std::size_t at = command.words.front().begin;
  std::string problem;
  if (first.lost_line > 0) {
    problem = fmt::format("line {} may change which command {} is", first.lost_line, shown(first.characters));
  } else if (is_never_set(first)) {  // without a value the next word is the command
    std::size_t i = 1;
    std::string name;
    for (; i < command.words.size() && name.empty(); ++i) {
      const std::vector<ShellText> fields = variables_.expand(command.words[i]);
      if (fields.empty() || is_never_set(fields.front())) continue;
      name = fields.front().characters;
    }
    if (is_changing_builtin(name) || function_named(name) != nullptr)
      problem = fmt::format("whether {} is run here, {} decides", shown(name), shown(first.characters));
  }
  const std::vector<ShellText> texts = texts_of(command);
  const bool starts = start(texts, at, variables_.take_reached());
  if (problem.empty() && !starts && !is_never_set(first) && !is_path_of_program(first.characters))
    problem = fmt::format("nothing in the file says which command {} is", shown(first.characters));
  for (const ShellWord& word : command.assignments) lose_expansions({&word, 1});
  if (!problem.empty()) doubt(at, problem);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

std::vector<ShellText> ShellFollower::texts_of(const Command& command) {
  std::vector<ShellText> texts = command.fields;
  for (std::size_t i = command.fields.empty() ? 0 : 1; i < command.words.size(); ++i)
    for (ShellText& field : variables_.expand(command.words[i])) texts.push_back(std::move(field));
  return texts;
}

void ShellFollower::assign_before(Words assignments,
                                  std::vector<std::pair<std::string, std::optional<ShellVariable>>>& before) {
  for (const ShellWord& word : assignments) {
    const std::string_view text = variables_.raw(word);
    const std::string name(text.substr(0, shell_name_length(text)));
    if (name == "IFS" || !is_shell_assignment(text)) {
      lose_expansions({&word, 1});
      continue;
    }
    const auto found = variables_.all().find(name);
    const bool exists = found != variables_.all().end();
    if (exists) budget_.spend_steps(held_characters(found->second), word.begin);
    before.emplace_back(name, exists ? std::optional(found->second) : std::nullopt);
    variables_.assign(word, true);
  }
}

/// Its words come first; what stands before them is of its own environment.
void ShellFollower::run_external(const Command& command) {
  const std::size_t at = command.words.front().begin;
  if (command.name.starts_with("--"))
    note(at, fmt::format("a line begins with {}; did the one before lose its backslash?", shown(command.name)));
  std::vector<ShellText> texts = texts_of(command);
  std::set<std::int32_t> doubts = variables_.take_reached();
  std::vector<std::pair<std::string, std::optional<ShellVariable>>> before;
  assign_before(command.assignments, before);
  start(std::move(texts), at, std::move(doubts));
  for (auto one = before.rbegin(); one != before.rend(); ++one)
    variables_.restore(one->first, one->second ? &*one->second : nullptr);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  if (is_shell_assignment(command.name)) status_ = {.truth = false};  // behind a word of nothing it is no assignment
}

bool ShellFollower::start(std::vector<ShellText> texts, std::size_t at, std::set<std::int32_t> doubts) {
  std::vector<ShellText> words;
  bool is_plain = true;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t before = words.size();
    is_plain &= add_command_words(std::move(texts[i]), words);
    if (words.size() > before + 1 && i + 1 < texts.size()) is_plain = false;  // what follows is not of that line
  }
  const auto variables = [&] {
    budget_.spend_steps(variables_.held_characters(), at);
    return budget_.is_spent() ? ShellLaunches::Variables{} : scalars_of(variables_);
  };
  const bool starts = launches_.take(
      {.words = std::move(words), .line = variables_.line_at(at), .doubts = std::move(doubts)}, variables);
  if (starts && !is_plain) doubt(at, "the command line in quotes holds more than words, which is not followed");
  return starts;
}

void ShellFollower::run_function(const Command& command, const Function& function) {
  const std::vector<ShellText> texts = texts_of(command);
  call(function, command.words, command.assignments, texts.size() > 1, command.fields.empty());
}

void ShellFollower::run_quietly(const Command& command) {
  const bool waits = command.name == "wait";
  if (changes_folder(command.name)) change_folder(command.words);
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    (void)variables_.expand(command.words[i]);
    if (!waits || !variables_.raw(command.words[i]).starts_with("-p")) continue;
    const std::vector<std::string_view> raw = raw_of(command.words);
    lose(effects_of_builtin(raw), command.words.front().begin);
  }
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  if (command.name == "echo") status_ = {};
}

/// Paths begin elsewhere behind it, unless it is the folder of the script.
void ShellFollower::change_folder(Words words) {
  for (const char* name : {"PWD", "OLDPWD"})
    if (variables_.all().contains(name)) variables_.lose(name, line_of(words));
  const bool is_own =
      words.size() == 2 && is_own_folder(variables_.expand_whole(words[1].begin, words[1].end).characters);
  is_moved_ |= !is_own;
}

void ShellFollower::run_test(const Command& command) {
  std::vector<ShellTestWord> words;
  for (const ShellWord& word : command.words.subspan(1)) {
    const std::string_view raw = variables_.raw(word);
    for (ShellText& field : variables_.expand(word))
      words.push_back({.text = std::move(field), .is_bare = !raw.starts_with('"') && !raw.starts_with('\'')});
  }
  if (command.name == "true" || command.name == ":") {
    status_ = {};
  } else if (command.name == "false") {
    status_ = {.truth = false};
  } else {
    status_ = {.truth = std::nullopt};
    if (command.name == "[") {
      if (words.empty() || words.back().text.characters != "]") return;
      words.pop_back();
    }
    std::vector<std::string> taken_empty;
    status_.truth = test_words(words, taken_empty);
    note_taken_empty(command.words.front().begin, taken_empty);
  }
}

void ShellFollower::run_return(const Command& command) {
  if (command.words.size() > 1) {
    const ShellWord& word = command.words[1];
    status_ = {.truth = truth_of_status(variables_.expand_whole(word.begin, word.end))};
  }
  if (command.name == "exit") {
    exited_ = true;
  } else if (!frames_.empty()) {
    returned_ = Left::yes;
  } else {
    status_ = {.truth = std::nullopt};
  }
}

/// It takes the place of the shell: nothing behind it is run.
void ShellFollower::run_exec(const Command& command) {
  Words rest = command.words.subspan(1);
  while (!rest.empty() && variables_.raw(rest.front()).starts_with('-'))
    rest = rest.subspan(variables_.raw(rest.front()) == "-a" ? std::min<std::size_t>(2, rest.size()) : 1);
  status_ = {};
  if (rest.empty()) return;
  run_external({.name = variables_.raw(rest.front()), .words = rest, .assignments = command.assignments});
  exited_ = true;
}

void ShellFollower::run_reader(const Command& command) {
  if (command.name != "getopts") note(command.words.front().begin, std::string(kNotSaid));
  lose_expansions(command.words);
  const std::vector<std::string_view> raw = raw_of(command.words);
  lose(effects_of_builtin(raw), command.words.front().begin);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// `printf -v NAME`.
void ShellFollower::run_printf(const Command& command) {
  const std::vector<ShellText> texts = texts_of(command);
  const std::vector<std::string_view> raw = raw_of(command.words);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  const std::size_t at = command.words.front().begin;
  lose(effects_of_builtin(raw), at);
  if (texts.size() < 2) return;
  const bool is_written = raw.size() > 1 && raw[1].starts_with("-v");
  const bool is_text = raw.size() > 1 && raw[1].size() > 1 && (raw[1].front() == '"' || raw[1].front() == '\'');
  const bool may_set = texts[1].unresolved ? !is_text : texts[1].characters.starts_with("-v");
  if (!may_set || (is_written && raw[1] == "-v")) return;
  doubt(at, "which variable `printf` sets is not followed");
  variables_.lose_all(variables_.line_at(at), at);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

/// `((A = 2))`.
ShellTruth ShellFollower::compute_word(const ShellWord& word) {
  const std::string_view text = variables_.raw(word);
  return compute(text.substr(2, text.size() - std::min<std::size_t>(text.size(), 4)), word.begin);
}

/// Whether it is true, if that is known.
ShellTruth ShellFollower::compute(std::string_view expression, std::size_t at) {
  const ShellEffects effects = effects_of_arithmetic(expression);
  const ShellEffects inner = effects_of_expansion(expression);
  lose(inner, at);
  const bool has_inner = !inner.names.empty() || inner.any;
  if (effects.names.empty() && !effects.any) {
    const auto value = has_inner ? std::nullopt : variables_.arithmetic(expression, at);
    return value ? ShellTruth(*value != 0) : std::nullopt;
  }
  const std::size_t sign = expression.find('=');
  const std::size_t first = std::min(expression.find_first_not_of(" \t"), expression.size());
  const std::size_t length = shell_name_length(expression.substr(first));
  const std::size_t behind = std::min(expression.find_first_not_of(" \t", first + length), expression.size());
  const bool is_plain = effects.names.size() == 1 && !effects.any && !has_inner && behind == sign && length > 0;
  const auto value = is_plain ? variables_.arithmetic(expression.substr(sign + 1), at) : std::nullopt;
  if (!value) {
    lose(effects, at);
    return std::nullopt;
  }
  ShellText text;
  text.add(std::to_string(*value), variables_.line_at(at));
  variables_.set(effects.names.front(), std::move(text), variables_.line_at(at));
  return *value != 0;
}

void ShellFollower::run_let(const Command& command) {
  status_ = {.truth = std::nullopt};
  doubt_order(command.words);
  for (const ShellWord& word : command.words.subspan(1)) {
    const ShellText text = variables_.expand_whole(word.begin, word.end);
    status_ = {.truth = compute(text.characters, word.begin)};
    if (text.is_known()) continue;
    const ShellEffects effects = effects_of_arithmetic(text.characters);
    lose(effects, word.begin);
    status_ = {.truth = std::nullopt};
    if (effects.names.empty()) doubt(word.begin, "what `let` sets here is not followed");
  }
}

// ---- other scripts --------------------------------------------------------------------------------------------------

void ShellFollower::run_source(const Command& command) {
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  if (follow_sourced(command.words)) return;
  note(command.words.front().begin, "another script is read here; what it sets is left out");
  lose_expansions(command.words);
  const std::vector<std::string_view> raw = raw_of(command.words);
  const ShellEffects effects = effects_of_builtin(raw);
  if (effects.any) doubt_functions();
  lose(effects, command.words.front().begin);
}

/// Another script may have given them other bodies.
void ShellFollower::doubt_functions() {
  for (auto& entry : functions_) entry.second.is_sure = false;
}

/// A script beside this one that only assigns. Those that set up the shell set nothing of a job's.
bool ShellFollower::follow_sourced(Words words) {
  if (!read_beside_ || words.size() != 2 || !effects_of_builtin(raw_of(words)).any) return false;
  const ShellWord& word = words[1];
  const std::optional<std::string> path = path_beside(variables_.expand_whole(word.begin, word.end), is_moved_);
  const std::optional<std::string> text = path ? read_beside_(*path) : std::nullopt;
  return text && take_assignments(*text, line_of(words), word.begin, variables_, budget_);
}

/// Words without any sign are a command of their own.
void ShellFollower::run_eval(const Command& command) {
  const std::size_t at = command.words.front().begin;
  std::vector<ShellText> texts, words;
  for (const ShellWord& word : command.words.subspan(1))
    for (ShellText& field : variables_.expand(word)) texts.push_back(std::move(field));
  std::set<std::int32_t> reached = variables_.take_reached();
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  if (!effects_of_builtin(raw_of(command.words)).any) {
    const bool renews = !texts.empty() && texts.front().characters == "set";
    const bool is_said = std::ranges::all_of(texts, [](const ShellText& text) { return text.is_known(); });
    if (renews)
      variables_.set_own_arguments({.known = variables_.own_arguments().known, .is_lost = is_said, .items = {}});
    return;
  }
  bool is_plain = true;
  for (const ShellText& text : texts) {
    is_plain &= text.is_known() && text.characters.find_first_of("\n;&|<>()$`\\\"'*?[]{}~#!=") == std::string::npos;
    split_at_blanks(text, words);
  }
  const std::string name = words.empty() ? std::string() : words.front().characters;
  const bool is_program = is_plain && !is_shell_builtin(name) && function_named(name) == nullptr;
  if (!is_program) {
    note(at, std::string(kNotSaid));
    doubt(at, "what `eval` runs here is not followed");
    variables_.lose_all(variables_.line_at(at), at);
  }
  start(is_plain ? std::move(words) : std::move(texts), at, std::move(reached));
}

void ShellFollower::run_trap(const Command& command) {
  const std::vector<ShellText> texts = texts_of(command);
  const std::size_t at = command.words.front().begin;
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  if (texts.size() < 3) return;
  const ShellText& action = texts[1];
  bool is_harmful = action.characters.find(".py") != std::string::npos;
  for (const ShellText& text : std::span(texts).subspan(2)) {
    std::string name = text.characters;
    for (char& letter : name)
      if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    std::string_view signal = name;
    if (signal.starts_with("SIG")) signal.remove_prefix(3);
    constexpr std::array<std::string_view, 5> kOften = {"DEBUG", "RETURN", "ERR", "CHLD", "17"};
    const bool is_often = !text.is_known() || std::ranges::find(kOften, signal) != kOften.end();
    const bool ends = action.characters.starts_with("exit") || action.characters.starts_with("kill");
    if (ends && signal == "ERR") error_exits_ = true;
    is_harmful |= is_often && (!action.is_known() || !is_harmless_action(action.characters));
    is_harmful |= is_often && ends && signal != "ERR";
  }
  if (is_harmful) doubt(at, "what this trap runs between commands is not followed");
}

// ---- the script's own arguments -------------------------------------------------------------------------------------

/// Turned on in a function whose status is asked for, it counts there or not.
void ShellFollower::exit_on_errors(bool is_on, std::size_t at) {
  error_exits_ = is_on;
  if (is_on && conditions_ > 0) doubt(at, "whether `set -e` counts here is not followed");
}

void ShellFollower::take_set_option(std::string_view option, bool is_on, std::size_t at) {
  constexpr std::array<std::string_view, 9> kHarmless = {"errexit",  "nounset", "xtrace",    "pipefail", "verbose",
                                                         "errtrace", "monitor", "functrace", "hashall"};
  if (option == "allexport") return variables_.export_all(is_on);
  if (option == "errexit") return exit_on_errors(is_on, at);
  if (option == "nounset") variables_.refuse_unset(is_on);
  if (std::ranges::find(kHarmless, option) == kHarmless.end())
    doubt(at, fmt::format("`set` with {} changes how the shell goes on, which is not followed", shown(option)));
}

/// `set -- --x 1 "$@"`, `set -euo pipefail`.
void ShellFollower::run_set(const Command& command) {
  std::vector<ShellText> texts = texts_of(command);
  const std::size_t at = command.words.front().begin;
  status_ = {};
  std::size_t i = 1;
  bool renews = false;
  for (; i < texts.size() && !renews; ++i) {
    const std::string& text = texts[i].characters;
    if (!texts[i].is_known()) {
      doubt(at, "what `set` is given here is not followed");
      variables_.set_own_arguments({.known = variables_.own_arguments().known});
      return;
    }
    renews = text == "--";
    if (renews) continue;
    if (text.size() < 2 || (text.front() != '-' && text.front() != '+')) break;
    for (const char letter : text.substr(1)) {
      const bool is_on = text.front() == '-';
      if (letter == 'o' && i + 1 < texts.size()) {
        take_set_option(texts[++i].characters, is_on, at);
      } else if (letter == 'a') {
        variables_.export_all(is_on);
      } else if (letter == 'e') {
        exit_on_errors(is_on, at);
      } else if (letter == 'u') {
        variables_.refuse_unset(is_on);
      } else if (std::string_view("euxvhbmETo").find(letter) == std::string_view::npos) {
        take_set_option(std::string_view(&letter, 1), is_on, at);
      }
    }
  }
  if (!renews && i >= texts.size()) return;
  if (!renews && texts[i].characters == "-" && ++i >= texts.size()) return;
  std::vector<ShellText> items;
  for (; i < texts.size(); ++i) items.push_back(std::move(texts[i]));
  variables_.set_own_arguments({.items = std::move(items)});
}

void ShellFollower::run_shift(const Command& command) {
  constexpr std::size_t kStepsOfArgument = 8;
  const std::size_t held = variables_.own_arguments().items ? variables_.own_arguments().items->size() : 0;
  budget_.spend_steps(kStepsOfArgument * held, command.words.front().begin);
  if (budget_.is_spent()) return;
  ShellVariables::OwnArguments own = variables_.own_arguments();
  std::size_t count = 1;
  bool is_counted = own.items.has_value();
  if (command.words.size() > 1) {
    const ShellText text = variables_.expand_whole(command.words[1].begin, command.words[1].end);
    is_counted &= text.is_known() && is_digits(text.characters) && text.characters.size() < 4;
    if (is_counted) count = static_cast<std::size_t>(std::stoi(text.characters));
  }
  status_ = {.truth = std::nullopt};
  if (is_counted && own.items->empty() && count == 1) {
    status_ = {.truth = false};
    return;
  }
  // What stands for several words cannot be counted.
  is_counted = is_counted && count <= own.items->size() &&
               std::all_of(own.items->begin(), own.items->begin() + static_cast<std::ptrdiff_t>(count),
                           [](const ShellText& item) { return item.is_known(); });
  if (is_counted) {
    own.items->erase(own.items->begin(), own.items->begin() + static_cast<std::ptrdiff_t>(count));
    status_ = {};
  } else {
    own.is_lost |= own.items.has_value();
    own.items.reset();
  }
  variables_.set_own_arguments(std::move(own));
}

}  // namespace tidemark::formats
