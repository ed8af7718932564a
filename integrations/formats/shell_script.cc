#include "integrations/formats/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "integrations/formats/shell_variables.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

/// Nothing: it depends on something the script does not say.
using Truth = std::optional<bool>;

bool is_word(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// ---- conditions ---------------------------------------------------------------------------------------------------

std::optional<std::int64_t> number_in(const ShellText& text) {
  std::int64_t value = 0;
  const std::string& digits = text.characters;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

Truth compare(const ShellText& a, std::string_view operation, const ShellText& b) {
  if (a.unresolved || b.unresolved) return std::nullopt;
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
  if (!text.unresolved || !name.starts_with('$')) return false;
  name.remove_prefix(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
                              std::string_view::npos;
}

/// The words between `[` and `]`.
Truth test(std::span<const ShellText> words) {
  if (!words.empty() && words.front().characters == "!") {
    const Truth truth = test(words.subspan(1));
    return truth ? Truth(!*truth) : truth;
  }
  if (words.size() == 3) return compare(words[0], words[1].characters, words[2]);
  // The other way to write a default, `[ -z "$TP" ] && TP=8`; what is to happen where one is set stays open.
  if (words.size() == 2 && words[0].characters == "-z" && is_never_set(words[1])) return true;
  if (words.size() == 2 && !words[1].unresolved) {
    if (words[0].characters == "-z") return words[1].characters.empty();
    if (words[0].characters == "-n") return !words[1].characters.empty();
  }
  if (words.size() == 1 && is_word(words[0].characters, {"-z", "-n"})) return words[0].characters == "-z";
  if (words.size() == 1 && !words[0].unresolved) return !words[0].characters.empty();
  return std::nullopt;
}

// ---- the script ---------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : file_(file), variables_(text) {}

  void follow(const std::vector<ShellCommand>& commands) {
    for (const ShellCommand& command : commands) {
      take(command);
      join_ = command.join;
    }
  }

  Result<ShellScript> finish() {
    if (variables_.overgrown())
      return bad_input(fmt::format("{}: its words and variables grow beyond {} characters; is one made of itself?",
                                   file_, kMostShellCharacters));
    if (best_.arguments.empty()) gather_options();
    if (best_.arguments.empty())
      return bad_input(
          fmt::format("{}: no command starts a Python script with options like --num-layers, and no "
                      "variable holds such options; here-documents, loops and other scripts do not count{}",
                      file_, notes_.empty() ? "" : fmt::format(" ({})", notes_.front())));
    for (const auto& [name, variable] : variables_.all())
      if (variable.items.size() == 1)
        best_.variables.push_back({.name = name, .value = variable.items.front(), .exported = variable.exported});
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
    bool active = false;  ///< this branch is followed
    bool done = false;    ///< a branch was followed, or none can be
  };

  [[nodiscard]] bool active() const {
    return std::ranges::all_of(blocks_, [](const Block& block) { return block.active || block.in_condition; });
  }

  /// Control words first; what is left is a command.
  void take(const ShellCommand& command) {
    std::span<const ShellWord> words = command.words;
    while (!words.empty()) {
      const std::string_view word = variables_.raw(words.front());
      if (!control(word, words)) break;
      words = words.subspan(1);
    }
    if (words.empty()) return;
    if (!blocks_.empty() && blocks_.back().in_condition) {
      condition_ = conditions_++ == 0 && active_outside() ? evaluate(words) : std::nullopt;
      return;
    }
    if (active()) execute(words);
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
      if (active()) note(at, fmt::format("`{}` is not followed; what it holds is left out", word));
      blocks_.push_back({.kind = Block::Kind::left_out, .done = true});
      words = words.subspan(words.size() - 1);  // its list is no command
    } else if (word == "then" && in_decision()) {
      Block& block = blocks_.back();
      block.in_condition = false;
      if (!condition_ && !block.done) {
        if (active_outside()) note(at, "the condition depends on what the script does not say; its lines are left out");
        block.done = true;
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
                        {"then", "else", "do", "{", "}", "time", "exec", "nohup", "sudo", "command", "function"})) {
      return false;
    }
    return true;
  }
  [[nodiscard]] bool in_decision() const { return !blocks_.empty() && blocks_.back().kind == Block::Kind::decided; }

  Truth evaluate(std::span<const ShellWord> words) {
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
    return test(inner);
  }

  void execute(std::span<const ShellWord> words) {
    const std::string_view first = variables_.raw(words.front());
    if (is_word(first, {"[", "[[", "test", "true", "false"})) {
      status_ = evaluate(words);
      return;
    }
    if (join_ == ShellJoin::or_else || join_ == ShellJoin::and_then) {
      if (!status_) note(words.front().begin, "the test before it is not decided; the command is left out");
      if (status_ != (join_ == ShellJoin::and_then)) return;
    }
    status_ = true;
    if (is_word(first, {"export", "declare", "local", "readonly", "typeset"})) {
      declare(words);
    } else if (first == "unset") {
      for (const ShellWord& word : words.subspan(1)) variables_.unset(std::string(variables_.raw(word)));
    } else if (first == "source" || first == ".") {
      note(words.front().begin, "another script is read here; what it sets is left out");
    } else {
      assign_or_launch(words);
    }
  }

  void declare(std::span<const ShellWord> words) {
    const bool exports = variables_.raw(words.front()) == "export";
    for (const ShellWord& word : words.subspan(1)) {
      const std::string_view text = variables_.raw(word);
      if (text.starts_with('-') || variables_.assign(word, exports)) continue;
      if (exports && text.find_first_of("$\"'`") == std::string_view::npos &&
          variables_.all().contains(std::string(text)))
        variables_.mark_exported(std::string(text));
    }
  }

  void assign_or_launch(std::span<const ShellWord> words) {
    const auto is_assignment = [this](const ShellWord& word) {
      const std::string_view text = variables_.raw(word);
      const std::size_t sign = text.find('=');
      return sign != std::string_view::npos && sign > 0 &&
             text.substr(0, sign).find_first_not_of(
                 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+") == std::string_view::npos;
    };
    const auto command = std::ranges::find_if_not(words, is_assignment);
    const bool alone = command == words.end();
    for (auto word = words.begin(); word != command; ++word) variables_.assign(*word, !alone);
    if (alone) return;
    if (variables_.raw(*command).starts_with("--"))
      note(command->begin, fmt::format("a line begins with {}; did the one before lose its backslash?",
                                       shown(variables_.raw(*command))));
    std::vector<ShellText> texts;
    for (auto word = command; word != words.end(); ++word)
      for (ShellText& field : variables_.expand(*word)) append(std::move(field), texts);
    launch(std::move(texts), command->begin);
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

  void launch(std::vector<ShellText> texts, std::size_t at) {
    if (texts.empty() ||
        is_word(texts.front().characters, {"echo", "printf", "cp", "mv", "rm", "ls", "cat", "sed", "grep"}))
      return;
    const auto script =
        std::ranges::find_if(texts, [](const ShellText& text) { return text.characters.ends_with(".py"); });
    if (script == texts.end()) return;
    const auto is_option = [](const ShellText& text) { return text.characters.starts_with("--"); };
    const auto options = std::count_if(script + 1, texts.end(), is_option);
    if (options == 0) return;
    if (best_options_ > 0 && is_training(texts) && is_training(best_.arguments))
      note(at, fmt::format("a second Python script is started, {}; the one with the most options counts",
                           shown(script->characters)));
    if (options < best_options_) return;
    best_options_ = options;
    best_.program = script->characters;
    best_.launcher.assign(texts.begin(), script);
    best_.arguments.assign(script + 1, texts.end());
  }

  /// Without a command: variables that hold options, in the order of their lines.
  void gather_options() {
    std::vector<std::pair<std::int32_t, std::vector<ShellText>>> found;
    for (const auto& [name, variable] : variables_.all()) {
      std::vector<ShellText> words;
      for (const ShellText& item : variable.items) split(item, words);
      if (!words.empty() && words.front().characters.starts_with("--"))
        found.emplace_back(words.front().line(0), words);
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
  ShellVariables variables_;
  std::vector<Block> blocks_;
  Truth condition_;
  int conditions_ = 0;
  Truth status_ = true;
  ShellJoin join_ = ShellJoin::next;
  ShellScript best_;
  std::ptrdiff_t best_options_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

Result<ShellScript> read_shell_script(std::string_view text, std::string_view file_name) {
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
  Reader reader(text, file_name);
  if (unended.here_document != std::string_view::npos)
    reader.note(unended.here_document, "this here-document never ends; what follows is left out");
  reader.follow(shell_commands(text));
  return reader.finish();
}

}  // namespace tidemark::formats
