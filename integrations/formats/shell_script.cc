#include "integrations/formats/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "integrations/formats/shell_budget.h"
#include "integrations/formats/shell_effects.h"
#include "integrations/formats/shell_variables.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

/// Nothing: it depends on something the script does not say.
using Truth = std::optional<bool>;

bool is_word(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

constexpr std::array<std::string_view, 14> kBeforeCommand = {
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time", "command", "builtin", "sudo"};

// ---- conditions ---------------------------------------------------------------------------------------------------

std::optional<std::int64_t> number_in(const ShellText& text) {
  std::int64_t value = 0;
  const std::string& digits = text.characters;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

Truth compare(const ShellText& a, std::string_view operation, const ShellText& b) {
  if (!a.is_known() || !b.is_known()) return std::nullopt;
  if (operation == "=" || operation == "==") return a.characters == b.characters;
  if (operation == "!=") return a.characters != b.characters;
  const auto x = number_in(a);
  const auto y = number_in(b);
  if (!x || !y) return std::nullopt;
  constexpr std::array<std::string_view, 6> kOrders = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
  const std::array<bool, 6> answers = {x == y, x != y, x<y, x <= y, x> y, x >= y};
  const auto* const found = std::ranges::find(kOrders, operation);
  if (found == kOrders.end()) return std::nullopt;
  return answers[static_cast<std::size_t>(found - kOrders.begin())];
}

/// `$TP` or `${TP}`, which the script never sets.
bool is_never_set(const ShellText& text) {
  std::string_view name = text.characters;
  if (text.lost_line > 0 || !text.unresolved || !name.starts_with('$')) return false;
  name.remove_prefix(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
                              std::string_view::npos;
}

Truth test_plainly(std::span<const ShellText> words) {
  if (words.size() == 3) return compare(words[0], words[1].characters, words[2]);
  // The other way to write a default, `[ -z "$TP" ] && TP=8`; what is to happen where one is set stays open.
  if (words.size() == 2 && is_word(words[0].characters, {"-z", "-n"}) && is_never_set(words[1]))
    return words[0].characters == "-z";
  if (words.size() == 2 && words[1].is_known()) {
    if (words[0].characters == "-z") return words[1].characters.empty();
    if (words[0].characters == "-n") return !words[1].characters.empty();
  }
  if (words.size() == 1 && is_word(words[0].characters, {"-z", "-n"})) return words[0].characters == "-z";
  if (words.size() == 1 && words[0].is_known()) return !words[0].characters.empty();
  return std::nullopt;
}

/// The words between `[` and `]`.
Truth test(std::span<const ShellText> words) {
  bool inverted = false;
  for (; !words.empty() && words.front().characters == "!"; words = words.subspan(1)) inverted = !inverted;
  const Truth truth = test_plainly(words);
  return truth ? Truth(*truth != inverted) : truth;
}

// ---- the script ---------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view text, std::string_view file, const ReadBeside& read_beside)
      : file_(file), read_beside_(read_beside), variables_(text, budget_) {}

  void follow(std::span<const ShellCommand> commands) {
    while (!commands.empty() && !budget_.is_spent()) {
      const std::size_t definition = define_function(commands);
      if (definition == 0) take(commands.front());
      join_ = definition == 0 ? commands.front().join : ShellJoin::next;
      commands = commands.subspan(std::max<std::size_t>(1, definition));
    }
  }

  Result<ShellScript> finish() {
    // What starts the training may be called in a way that is not followed.
    for (std::size_t i = 0; i < defined_.size() && best_.arguments.empty(); ++i)
      if (const auto function = defined_[i]; !function->called) follow_body(*function);
    if (budget_.is_spent()) return bad_input(too_much());
    best_.characters = budget_.characters();
    best_.steps = budget_.steps();
    if (best_.arguments.empty()) gather_options();
    if (best_.arguments.empty())
      return bad_input(
          fmt::format("{}: no command starts a Python script with options like --num-layers, and no "
                      "variable holds such options; here-documents, loops and other scripts do not count{}",
                      file_, notes_.empty() ? "" : fmt::format(" ({})", notes_.front())));
    for (const auto& [name, variable] : variables_.all())
      if (variable.items.size() == 1 || variable.lost_line > 0)
        best_.variables.push_back({.name = name,
                                   .value = variable.lost_line > 0 ? lost(name, variable) : variable.items.front(),
                                   .exported = variable.exported});
    name_other_trainings();
    for (const std::int32_t number : reached_) best_.doubts.push_back(doubts_[static_cast<std::size_t>(number)]);
    best_.notes = std::move(notes_);
    return std::move(best_);
  }

  void note(std::size_t offset, const std::string& what) {
    constexpr std::size_t kMost = 20;
    if (notes_.size() < kMost) notes_.push_back(fmt::format("{}:{}: {}", file_, variables_.line_at(offset), what));
  }

 private:
  struct Block {
    enum class Kind : std::uint8_t { decided, left_out };
    Kind kind = Kind::decided;
    bool in_condition = false;
    bool active = false;    ///< this branch is followed
    bool done = false;      ///< a branch was followed, or none can be
    bool doubtful = false;  ///< what is not followed of it may run
  };

  struct Function {
    std::vector<ShellCommand> body;
    bool called = false;
  };

  /// A command that starts a training.
  struct Training {
    std::int32_t line = 0;
    std::string program;
    bool is_followed = true;  ///< false: it may run or not
  };

  static ShellText lost(const std::string& name, const ShellVariable& variable) {
    ShellText text;
    text.add("$" + name, variable.lost_line);
    text.unresolved = true;
    text.lost_line = variable.lost_line;
    return text;
  }

  [[nodiscard]] std::string too_much() const {
    const bool characters = budget_.characters() >= kMostShellCharacters;
    return fmt::format("{}:{}: expands to more than {} {}; is a variable made of itself?", file_,
                       variables_.line_at(budget_.spent_at()), characters ? kMostShellCharacters : kMostShellSteps,
                       characters ? "characters" : "steps of searching and arithmetic");
  }

  [[nodiscard]] bool active() const {
    return std::ranges::all_of(blocks_, [](const Block& block) { return block.active || block.in_condition; });
  }

  /// Nothing around here is known not to run.
  [[nodiscard]] bool may_run() const {
    return std::ranges::all_of(blocks_,
                               [](const Block& block) { return block.active || block.in_condition || block.doubtful; });
  }

  // ---- functions --------------------------------------------------------------------------------------------------

  /// Takes a definition at the beginning of `commands`: how many commands it has; 0: there is none.
  std::size_t define_function(std::span<const ShellCommand> commands) {
    const std::vector<ShellWord>& head = commands.front().words;
    const bool by_word = head.size() > 1 && variables_.raw(head.front()) == "function";
    if (!by_word && !(commands.front().opens_function && head.size() == 1)) return 0;
    const std::string name(variables_.raw(head[by_word ? 1 : 0]));
    Function function;
    if (by_word && head.size() > 2) {
      function.body.push_back(commands.front());
      function.body.back().words.erase(function.body.back().words.begin(), function.body.back().words.begin() + 2);
    }
    std::size_t end = 1;
    int depth = function.body.empty() ? 0 : braces_of(function.body.front());
    if (depth == 0 && (end == commands.size() || braces_of(commands[1]) <= 0)) return 0;
    for (; end < commands.size() && (end == 1 || depth > 0); ++end) {
      if (depth == 0 && end > 1) break;
      depth += braces_of(commands[end]);
      budget_.spend_steps(1 + commands[end].words.size(), commands[end].words.front().begin);
      if (budget_.is_spent()) return commands.size();
      function.body.push_back(commands[end]);
    }
    if (may_run()) functions_[name] = defined_.emplace_back(std::make_shared<Function>(std::move(function)));
    return end;
  }

  /// Braces a command opens less those it closes: they are words of their own before any other.
  [[nodiscard]] int braces_of(const ShellCommand& command) const {
    int depth = 0;
    for (const ShellWord& word : command.words) {
      const std::string_view text = variables_.raw(word);
      if (text == "{") ++depth;
      if (text == "}") --depth;
      if (text != "{" && text != "}" && !is_word(text, {"then", "do", "else", "!", "if", "while", "until", "time"}))
        break;
    }
    return depth;
  }

  [[nodiscard]] std::shared_ptr<Function> function_of(std::span<const ShellWord> words) const {
    const auto found = functions_.find(variables_.raw(words.front()));
    return found == functions_.end() ? nullptr : found->second;
  }

  void call(Function& function, std::span<const ShellWord> words) {
    constexpr int kDeepest = 16;
    if (depth_ == kDeepest) {
      variables_.lose_all(variables_.line_at(words.front().begin), words.front().begin);
      return;
    }
    constexpr std::size_t kStepsOfCall = 64;
    budget_.spend_steps(kStepsOfCall, words.front().begin);
    ShellVariables::OwnArguments outer = variables_.own_arguments();
    for (const ShellText& item : outer.items.value_or(std::vector<ShellText>{}))
      budget_.spend_steps(1 + item.characters.size(), words.front().begin);
    const bool hands_on = words.size() == 2 && is_word(variables_.raw(words[1]), {"\"$@\"", "$@", "\"${@}\""});
    if (words.size() == 1) variables_.set_own_arguments({.items = std::vector<ShellText>{}});
    if (words.size() > 1 && !hands_on) variables_.set_own_arguments({.known = false, .items = {}});
    follow_body(function);
    variables_.set_own_arguments(std::move(outer));
  }

  void follow_body(Function& function) {
    function.called = true;
    const ShellJoin join = std::exchange(join_, ShellJoin::next);
    std::vector<Block> blocks = std::exchange(blocks_, {});
    auto locals = std::exchange(locals_, {});
    ++depth_;
    follow(function.body);
    --depth_;
    for (const auto& [name, before] : std::exchange(locals_, std::move(locals)))
      variables_.restore(name, before ? &*before : nullptr);
    blocks_ = std::move(blocks);
    join_ = join;
  }

  /// `local` hides a variable until the function ends.
  void hide(const std::string& name) {
    if (depth_ == 0 || locals_.contains(name)) return;
    const auto found = variables_.all().find(name);
    locals_[name] = found == variables_.all().end() ? std::nullopt : std::optional(found->second);
  }

  // ---- what may be set without being followed ---------------------------------------------------------------------

  /// Of a command that may run or not.
  void leave_out(std::span<const ShellWord> words, int depth = 0) {
    while (!words.empty() && stands_before(variables_.raw(words.front()))) words = words.subspan(1);
    if (words.empty() || budget_.is_spent()) return;
    find_left_out_training(words);
    lose_effects(words);
    const std::string_view first = variables_.raw(words.front());
    const bool declares = is_word(first, {"export", "declare", "local", "readonly", "typeset"});
    for (const ShellWord& word : words.subspan(declares ? 1 : 0)) {
      if (is_assignment(variables_.raw(word))) {
        leave_assignment_out(word);
      } else if (!declares) {
        break;
      }
    }
    const bool renews = first == "set" && std::ranges::any_of(words, [this](const ShellWord& word) {
                          return variables_.raw(word) == "--";
                        });
    if (renews || first == "shift") variables_.set_own_arguments({.known = variables_.own_arguments().known});
    const auto function = function_of(words);
    if (function == nullptr) return;
    function->called = true;
    if (depth > 8) return variables_.lose_all(line_of(words), words.front().begin);
    for (const ShellCommand& command : function->body) leave_out(command.words, depth + 1);
  }

  /// Names, as far as a command that does not assign sets them: it is run, but not followed, or may be.
  void lose_effects(std::span<const ShellWord> words) {
    const std::int32_t line = line_of(words);
    std::vector<std::string_view> raw;
    for (const ShellWord& word : words) {
      raw.push_back(variables_.raw(word));
      budget_.spend_steps(raw.back().size(), word.begin);
      for (const std::string& name : names_given_defaults(raw.back())) variables_.lose(name, line);
    }
    std::span<const std::string_view> command(raw);
    while (!command.empty() && is_assignment(command.front())) command = command.subspan(1);
    if (command.empty()) return;
    const bool declares = is_word(command.front(), {"export", "declare", "local", "readonly", "typeset"});
    ShellEffects effects;
    if (command.front().starts_with("((")) effects.names = names_set_by(command.front());
    if (is_element(command.front())) effects.names.emplace_back(command.front().substr(0, command.front().find('[')));
    if (!declares && effects.names.empty()) effects = effects_of_builtin(command);
    for (const std::string& name : effects.names) variables_.lose(name, line);
    if (effects.any) variables_.lose_all(line, words.front().begin);
  }

  /// Options put behind those a variable has leave these as they are; anything else replaces its value.
  void leave_assignment_out(const ShellWord& word) {
    const std::string name(variables_.raw(word).substr(0, shell_name_length(variables_.raw(word))));
    const std::int32_t line = variables_.line_at(word.begin);
    const std::optional<std::vector<ShellText>> added = variables_.added_by(word);
    std::vector<ShellText> more;
    if (added)
      for (const ShellText& text : *added) split(text, more);
    const bool options = added && (more.empty() || more.front().characters.starts_with("--"));
    if (!options || std::ranges::any_of(more, [](const ShellText& text) { return is_lost_word(text); }))
      return variables_.lose(name, line);
    for (ShellText& text : more) {
      if (!text.characters.starts_with("--")) continue;
      variables_.doubt(name, static_cast<std::int32_t>(doubts_.size()));
      doubts_.push_back(std::move(text));
    }
  }
  static bool stands_before(std::string_view word) {
    return std::ranges::find(kBeforeCommand, word) != kBeforeCommand.end();
  }
  static bool is_lost_word(const ShellText& text) { return text.lost_line > 0 && text.characters.starts_with('$'); }

  static bool is_assignment(std::string_view text) {
    const std::size_t length = shell_name_length(text);
    return length > 0 && (text.substr(length).starts_with('=') || text.substr(length).starts_with("+="));
  }
  /// `NAME[2]=value`.
  static bool is_element(std::string_view text) {
    const std::size_t length = shell_name_length(text);
    return length > 0 && text.substr(length).starts_with('[') && text.find("]=", length) != std::string_view::npos;
  }
  [[nodiscard]] std::int32_t line_of(std::span<const ShellWord> words) const {
    return variables_.line_at(words.front().begin);
  }

  /// `((A = 2))` and `let A=2`; whether it is true, if that is known.
  Truth compute(std::string_view expression, std::size_t at) {
    const std::vector<std::string> names = names_set_by(expression);
    const std::size_t sign = expression.find('=');
    const std::size_t first = std::min(expression.find_first_not_of(" \t"), expression.size());
    const std::size_t length = shell_name_length(expression.substr(first));
    const std::size_t behind = std::min(expression.find_first_not_of(" \t", first + length), expression.size());
    const std::int32_t line = variables_.line_at(at);
    if (names.empty()) {
      const auto value = variables_.arithmetic(expression, at);
      return value ? Truth(*value != 0) : compare_sums(expression, at);
    }
    const auto value = behind == sign ? variables_.arithmetic(expression.substr(sign + 1), at) : std::nullopt;
    if (names.size() > 1 || !value) {
      for (const std::string& name : names) variables_.lose(name, line);
      return std::nullopt;
    }
    ShellText text;
    text.add(std::to_string(*value), line);
    variables_.set(names.front(), std::move(text));
    return *value != 0;
  }

  Truth compare_sums(std::string_view expression, std::size_t at) {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      const std::size_t place = expression.find(sign);
      if (place == std::string_view::npos) continue;
      const auto a = variables_.arithmetic(expression.substr(0, place), at);
      const auto b = variables_.arithmetic(expression.substr(place + sign.size()), at);
      if (!a || !b) return std::nullopt;
      if (sign == "==") return *a == *b;
      if (sign == "!=") return *a != *b;
      if (sign == "<=") return *a <= *b;
      if (sign == ">=") return *a >= *b;
      return sign == "<" ? *a < *b : *a > *b;
    }
    return std::nullopt;
  }

  // ---- commands ---------------------------------------------------------------------------------------------------

  /// Control words first; what is left is a command.
  void take(const ShellCommand& command) {
    std::span<const ShellWord> words = command.words;
    while (!words.empty()) {
      budget_.spend_steps(1 + blocks_.size(), words.front().begin);  // every block is asked whether it is followed
      if (budget_.is_spent()) return;
      const std::string_view word = variables_.raw(words.front());
      if (!control(word, words)) break;
      words = words.subspan(1);
    }
    if (words.empty()) return;
    if (!blocks_.empty() && blocks_.back().in_condition) {
      condition_ = conditions_++ == 0 && active_outside() ? evaluate_condition(words) : std::nullopt;
      return;
    }
    if (active()) {
      execute(words);
    } else if (may_run()) {
      leave_out(words);
    }
  }

  /// A command whose status decides an `if`; what it sets is as after any command.
  Truth evaluate_condition(std::span<const ShellWord> words) {
    if (const auto function = function_of(words)) {
      call(*function, words);
      return std::nullopt;
    }
    const Truth truth = evaluate(words);
    if (!variables_.raw(words.front()).starts_with("((")) lose_effects(words);
    return truth;
  }

  [[nodiscard]] bool active_outside() const {
    return std::all_of(blocks_.begin(), blocks_.end() - 1, [](const Block& block) { return block.active; });
  }

  void open_condition(Block& block) {
    block.in_condition = true;
    block.active = false;
    condition_.reset();
    conditions_ = 0;
  }

  /// True: the word is taken, and more may follow it.
  bool control(std::string_view word, std::span<const ShellWord>& words) {
    const std::size_t at = words.front().begin;
    if (word == "if") {
      open_condition(blocks_.emplace_back());
    } else if (is_word(word, {"for", "while", "until", "case", "select"})) {
      open_left_out(word, words);
      words = words.subspan(words.size() - 1);  // its list is no command
    } else if (word == "then" && in_decision()) {
      Block& block = blocks_.back();
      block.in_condition = false;
      if (!condition_ && !block.done) {
        if (active_outside()) note(at, "the condition depends on what the script does not say; its lines are left out");
        block.done = true;
        block.doubtful = true;
      }
      block.active = !block.done && condition_.value_or(false);
      block.done |= block.active;
    } else if (word == "elif" && in_decision()) {
      open_condition(blocks_.back());
    } else if (word == "else" && in_decision()) {
      blocks_.back().active = !blocks_.back().done;
    } else if (is_word(word, {"fi", "done", "esac"}) && !blocks_.empty()) {
      blocks_.pop_back();
    } else if (!is_word(word,
                        {"then", "else", "do", "{", "}", "time", "exec", "nohup", "sudo", "command", "builtin"})) {
      return false;
    }
    return true;
  }
  /// `for`, `while` and the like: what is in them may run, unless it is over the script's own arguments.
  void open_left_out(std::string_view word, std::span<const ShellWord> words) {
    if (active()) note(words.front().begin, fmt::format("`{}` is not followed; what it holds is left out", word));
    const bool may = may_run() && !is_over_own_arguments(word, words);
    if (may && is_word(word, {"for", "select"}) && words.size() > 1)
      for (const std::string& name : names_of_loop(variables_.raw(words[1]))) variables_.lose(name, line_of(words));
    if (may && is_word(word, {"while", "until"}) && words.size() > 1) leave_out(words.subspan(1));
    blocks_.push_back({.kind = Block::Kind::left_out, .done = true, .doubtful = may});
  }

  static std::vector<std::string> names_of_loop(std::string_view word) {
    if (word.starts_with("((")) return names_set_by(word);
    return shell_name_length(word) == word.size() ? std::vector<std::string>{std::string(word)}
                                                  : std::vector<std::string>{};
  }

  /// `while [ $# -gt 0 ]`, `while getopts`, `for A in "$@"`, and a `case $1` inside a loop. Of a function's arguments
  /// nothing is known.
  [[nodiscard]] bool is_over_own_arguments(std::string_view word, std::span<const ShellWord> words) const {
    const ShellVariables::OwnArguments& own = variables_.own_arguments();
    if (!own.known || (own.items && !own.items->empty())) return false;
    const auto speaks_of = [&](std::initializer_list<std::string_view> texts) {
      return std::ranges::any_of(words, [&](const ShellWord& each) { return is_word(variables_.raw(each), texts); });
    };
    if (word == "while") {
      const bool counts = std::ranges::any_of(
          words, [&](const ShellWord& each) { return variables_.raw(each).find("$#") != std::string_view::npos; });
      const bool first = speaks_of({"-n"}) && speaks_of({"$1", "\"$1\"", "${1}", "\"${1}\"", "${1-}", "\"${1:-}\""});
      return counts || first || speaks_of({"getopts"});
    }
    if (word == "for" || word == "select")
      return words.size() == 2 ? !variables_.raw(words[1]).starts_with("((")
                               : words.size() == 4 && speaks_of({"$@", "\"$@\"", "$*", "\"$*\""});
    const bool in_loop = !blocks_.empty() && blocks_.back().kind == Block::Kind::left_out;
    return word == "case" && in_loop && speaks_of({"$1", "\"$1\"", "${1}", "\"${1}\""});
  }

  [[nodiscard]] bool in_decision() const { return !blocks_.empty() && blocks_.back().kind == Block::Kind::decided; }

  Truth evaluate(std::span<const ShellWord> words) {
    if (const std::string_view first = variables_.raw(words.front()); first.starts_with("(("))
      return compute(first.substr(2, first.size() - std::min<std::size_t>(first.size(), 4)), words.front().begin);
    std::vector<ShellText> texts;
    for (const ShellWord& word : words) {
      std::vector<ShellText> fields = variables_.expand(word);
      // [[ does not split, and an empty variable is a word there.
      if (fields.empty() && variables_.raw(words.front()) == "[[") fields.emplace_back();
      for (ShellText& field : fields) texts.push_back(std::move(field));
    }
    if (texts.empty()) return std::nullopt;
    const std::string open = texts.front().characters;
    if (open == "true") return true;
    if (open == "false") return false;
    if (open != "[" && open != "[[" && open != "test") return std::nullopt;
    std::span<const ShellText> inner(texts);
    inner = inner.subspan(1);
    if (!inner.empty() && is_word(inner.back().characters, {"]", "]]"})) inner = inner.first(inner.size() - 1);
    for (const ShellText& text : inner)
      if (is_never_set(text) && is_word(inner.front().characters, {"-n"}))
        note(words.front().begin, fmt::format("nothing in the file sets {}; it is taken as empty, and the lines that "
                                              "depend on it are left out",
                                              shown(text.characters)));
    return test(inner);
  }

  void execute(std::span<const ShellWord> words) {
    const std::string_view first = variables_.raw(words.front());
    const bool tests = is_word(first, {"[", "[[", "test", "true", "false"}) || first.starts_with("((");
    if (join_ == ShellJoin::or_else || join_ == ShellJoin::and_then) {
      if (!status_ && !tests) note(words.front().begin, "the test before it is not decided; the command is left out");
      if (!status_) leave_out(words);
      if (status_ != (join_ == ShellJoin::and_then)) return;
    }
    status_ = true;
    if (tests) {
      status_ = evaluate(words);
    } else if (const auto function = function_of(words)) {
      call(*function, words);
    } else {
      execute_command(first, words);
    }
  }

  void execute_command(std::string_view first, std::span<const ShellWord> words) {
    if (is_word(first, {"export", "declare", "local", "readonly", "typeset"})) {
      declare(words);
    } else if (first == "unset") {
      for (const ShellWord& word : words.subspan(1)) variables_.unset(std::string(variables_.raw(word)));
    } else if (first == "source" || first == ".") {
      if (follow_sourced(words)) return;
      note(words.front().begin, "another script is read here; what it sets is left out");
      lose_effects(words);
    } else if (first == "set") {
      set_own_arguments(words);
    } else if (first == "shift") {
      shift(words);
    } else if (first == "let") {
      for (const ShellWord& word : words.subspan(1))
        status_ = compute(variables_.expand_whole(word.begin, word.end).characters, word.begin);
    } else {
      assign_or_launch(words);
    }
  }

  /// A script beside this one that only assigns. Those that set up the shell set nothing of a job's.
  bool follow_sourced(std::span<const ShellWord> words) {
    if (!read_beside_ || words.size() != 2 || !effects_of_builtin(raw_of(words)).any) return false;
    const ShellWord& word = words[1];
    const std::optional<std::string> path = path_beside(variables_.expand_whole(word.begin, word.end));
    const std::optional<std::string> text = path ? read_beside_(*path) : std::nullopt;
    return text && take_assignments(*text, line_of(words), word.begin, variables_, budget_);
  }

  /// `set -- --x 1 "$@"`.
  void set_own_arguments(std::span<const ShellWord> words) {
    const auto dashes =
        std::ranges::find_if(words, [this](const ShellWord& word) { return variables_.raw(word) == "--"; });
    if (dashes == words.end()) return;
    std::vector<ShellText> items;
    for (auto word = dashes + 1; word != words.end(); ++word)
      for (ShellText& field : variables_.expand(*word)) items.push_back(std::move(field));
    variables_.set_own_arguments({.items = std::move(items)});
  }

  void shift(std::span<const ShellWord> words) {
    ShellVariables::OwnArguments own = variables_.own_arguments();
    const bool by_one = words.size() == 1 && own.items;
    // What stands for several words cannot be counted.
    if (by_one && !own.items->empty() && own.items->front().is_known()) {
      own.items->erase(own.items->begin());
    } else if (!by_one || !own.items->empty()) {
      own.items.reset();
    }
    variables_.set_own_arguments(std::move(own));
  }

  [[nodiscard]] std::vector<std::string_view> raw_of(std::span<const ShellWord> words) const {
    std::vector<std::string_view> raw;
    for (const ShellWord& word : words) raw.push_back(variables_.raw(word));
    return raw;
  }

  void declare(std::span<const ShellWord> words) {
    const std::string_view first = variables_.raw(words.front());
    const bool exports = first == "export";
    std::string flags;
    for (const ShellWord& word : words.subspan(1)) {
      const std::string_view text = variables_.raw(word);
      const std::string name(text.substr(0, shell_name_length(text)));
      if (text.starts_with('-')) {
        flags += text;
      } else if (name.empty()) {  // put together by the script: it may be any
        lose_declared(words);
      } else {
        if (!exports && first != "readonly") hide(name);
        if (variables_.assign(word, exports) && flags.find('i') != std::string::npos) variables_.mark_integer(name);
        if (flags.find_first_of("nlu") != std::string::npos && !exports) lose_declared(words);
        if (exports && name == text && variables_.all().contains(name)) variables_.mark_exported(name);
      }
    }
  }
  /// Declarations that are not followed: names in quotes, references to other names, other spellings of a value.
  void lose_declared(std::span<const ShellWord> words) {
    const std::vector<std::string_view> raw = raw_of(words);
    const ShellEffects effects = effects_of_builtin(raw);
    for (const std::string& name : effects.names) variables_.lose(name, line_of(words));
    const bool refers = std::ranges::find(raw, "-n") != raw.end() && raw.front() != "export";
    if (effects.any || refers) variables_.lose_all(line_of(words), words.front().begin);
  }

  void assign_or_launch(std::span<const ShellWord> words) {
    const auto command =
        std::ranges::find_if_not(words, [this](const ShellWord& word) { return is_assignment(variables_.raw(word)); });
    const bool alone = command == words.end();
    for (auto word = words.begin(); word != command; ++word) variables_.assign(*word, !alone);
    if (alone) return;
    if (variables_.raw(*command).starts_with("--"))
      note(command->begin, fmt::format("a line begins with {}; did the one before lose its backslash?",
                                       shown(variables_.raw(*command))));
    (void)variables_.take_reached();
    std::vector<ShellText> texts;
    for (auto word = command; word != words.end(); ++word)
      for (ShellText& field : variables_.expand(*word)) append(std::move(field), texts);
    const bool launches = launch(std::move(texts), command->begin);
    if (launches) return;
    const std::span<const ShellWord> rest(command, words.end());
    if (is_word(variables_.raw(*command), {"read", "mapfile", "readarray", "printf", "getopts", "eval"}) ||
        is_element(variables_.raw(*command))) {
      if (variables_.raw(*command) != "printf" && variables_.raw(*command) != "getopts")
        note(command->begin, "this sets what the script alone does not say");
      lose_effects(rest);
    }
  }

  /// A quoted command line, as for `bash -c`, becomes words.
  static void append(ShellText field, std::vector<ShellText>& texts) {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::string& text = field.characters;
    if (text.find(".py") == std::string::npos || text.find_first_of(kBlank) == std::string::npos) {
      texts.push_back(std::move(field));
      return;
    }
    for (std::size_t begin = text.find_first_not_of(kBlank); begin != std::string::npos;) {
      const std::size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
      texts.push_back(field.part(begin, end - begin));
      begin = text.find_first_not_of(kBlank, end);
    }
  }

  /// A tool's run beside the training's is no reason for doubt.
  static bool is_training(const std::vector<ShellText>& words) {
    return std::ranges::any_of(words, [](const ShellText& word) {
      return is_word(word.characters, {"--num-layers", "--micro-batch-size"});
    });
  }

  /// True: the words start a Python script with options.
  bool launch(std::vector<ShellText> texts, std::size_t at) {
    const std::set<std::int32_t> reached = variables_.take_reached();
    if (texts.empty() ||
        is_word(texts.front().characters, {"echo", "printf", "cp", "mv", "rm", "ls", "cat", "sed", "grep"}))
      return false;
    const auto script =
        std::ranges::find_if(texts, [](const ShellText& text) { return text.characters.ends_with(".py"); });
    if (script == texts.end()) return false;
    const auto is_option = [](const ShellText& text) { return text.characters.starts_with("--"); };
    const auto options = std::count_if(script + 1, texts.end(), is_option);
    if (options == 0) return false;
    const bool trains = is_training(texts);
    if (trains) trainings_.push_back({.line = variables_.line_at(at), .program = script->characters});
    if ((best_trains_ && !trains) || (best_trains_ == trains && options < best_options_)) return true;
    best_options_ = options;
    reached_ = reached;
    best_trains_ = trains;
    best_line_ = variables_.line_at(at);
    best_.program = script->characters;
    best_.launcher.assign(texts.begin(), script);
    best_.arguments.assign(script + 1, texts.end());
    return true;
  }

  /// One that is not followed: whether it runs, the script does not decide.
  void find_left_out_training(std::span<const ShellWord> words) {
    const std::string_view first = variables_.raw(words.front());
    if (is_assignment(first) || is_word(first, {"echo", "printf", "export", "local", "declare", "source", "."})) return;
    const bool starts = std::ranges::any_of(
        words, [this](const ShellWord& word) { return variables_.raw(word).find(".py") != std::string_view::npos; });
    if (!starts) return;
    const std::set<std::int32_t> outer = variables_.take_reached();
    std::vector<ShellText> texts;
    for (const ShellWord& word : words)
      for (ShellText& field : variables_.expand(word)) append(std::move(field), texts);
    (void)variables_.take_reached();
    variables_.reach(outer);
    const auto script =
        std::ranges::find_if(texts, [](const ShellText& text) { return text.characters.ends_with(".py"); });
    if (script != texts.end() && is_training(texts))
      trainings_.push_back({.line = line_of(words), .program = script->characters, .is_followed = false});
  }

  void name_other_trainings() {
    bool is_past = false;  // the one that is judged, of those that stand in its line
    for (const Training& training : trainings_) {
      if (!is_past && training.is_followed && training.line == best_line_) {
        is_past = true;
        continue;
      }
      const std::string_view when = training.is_followed ? "" : ", if it is: the script does not decide that";
      best_.unread.push_back(
          {training.line,
           best_line_ == 0 ? fmt::format("{} is started here in a way that is not followed; only options that "
                                         "variables hold are judged",
                                         shown(training.program))
                           : fmt::format("{} is started here, too{}; only what line {} starts is judged; give each a "
                                         "script of its own",
                                         shown(training.program), when, best_line_)});
    }
  }

  /// Without a command: variables that hold options, in the order of their lines.
  void gather_options() {
    std::vector<std::pair<std::int32_t, std::vector<ShellText>>> found;
    for (const auto& [name, variable] : variables_.all()) {
      std::vector<ShellText> words;
      for (const ShellText& item : variable.items) split(item, words);
      if (!words.empty() && words.front().characters.starts_with("--")) {
        found.emplace_back(words.front().line(0), words);
        reached_.insert(variable.doubts.begin(), variable.doubts.end());
      } else if (variable.held_options && variable.lost_line > 0) {
        found.emplace_back(variable.lost_line, std::vector<ShellText>{lost(name, variable)});
      }
    }
    std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
    for (auto& [line, words] : found) best_.arguments.insert(best_.arguments.end(), words.begin(), words.end());
  }

  static void split(const ShellText& text, std::vector<ShellText>& words) {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::string& characters = text.characters;
    for (std::size_t begin = characters.find_first_not_of(kBlank); begin != std::string::npos;) {
      const std::size_t end = std::min(characters.find_first_of(kBlank, begin), characters.size());
      words.push_back(text.part(begin, end - begin));
      begin = characters.find_first_not_of(kBlank, end);
    }
  }

  std::string file_;
  const ReadBeside& read_beside_;
  ShellBudget budget_;
  ShellVariables variables_;
  std::vector<Block> blocks_;
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions_;
  std::vector<std::shared_ptr<Function>> defined_;              ///< all, in the order of their definitions
  std::map<std::string, std::optional<ShellVariable>> locals_;  ///< what the function followed hides
  int depth_ = 0;                                               ///< calls followed
  std::vector<ShellText> doubts_;                               ///< by number
  std::set<std::int32_t> reached_;                              ///< of these, what the best command is made of
  Truth condition_;
  int conditions_ = 0;
  Truth status_ = true;
  ShellJoin join_ = ShellJoin::next;
  ShellScript best_;
  std::ptrdiff_t best_options_ = 0;
  bool best_trains_ = false;
  std::int32_t best_line_ = 0;
  std::vector<Training> trainings_;  ///< in the order they are met
  std::vector<std::string> notes_;
};

}  // namespace

Result<ShellScript> read_shell_script(std::string_view text, std::string_view file_name,
                                      const ReadBeside& read_beside) {
  if (Status status = require_utf8(text, file_name); !status) return status.error();
  const auto line_of = [text](std::size_t at) { return 1 + std::ranges::count(text.substr(0, at), '\n'); };
  const ShellUnended unended = find_unended(text);
  if (unended.quote != std::string_view::npos)
    return bad_input(fmt::format("{}:{}: this quotation never ends; close it", file_name, line_of(unended.quote)));
  if (unended.bracket != std::string_view::npos)
    return bad_input(fmt::format("{}:{}: this {} never ends; close it", file_name, line_of(unended.bracket),
                                 shown(text.substr(unended.bracket, 8))));
  if (unended.parenthesis != std::string_view::npos)
    return bad_input(fmt::format("{}:{}: a shell refuses this ( among options; put the value in quotes", file_name,
                                 line_of(unended.parenthesis)));
  if (unended.array != std::string_view::npos) {
    const std::string_view name = text.substr(unended.array, text.find_first_of("=+", unended.array) - unended.array);
    return bad_input(
        fmt::format("{}:{}: the array {} is never closed; add )", file_name, line_of(unended.array), shown(name)));
  }
  Reader reader(text, file_name, read_beside);
  if (unended.here_document != std::string_view::npos)
    reader.note(unended.here_document, "this here-document never ends; what follows is left out");
  reader.follow(shell_commands(text));
  return reader.finish();
}

}  // namespace tidemark::formats
