#include "integrations/formats/shell_lexer.h"

#include <algorithm>
#include <array>
#include <string>

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr int kDeepest = 200;

bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

std::size_t end_of_unit(std::string_view script, std::size_t at, int depth);

/// One past the `close` that belongs to what was opened before `at`.
std::size_t end_of_bracket(std::string_view script, std::size_t at, char open, char close, int depth) {
  int level = 1;
  while (at < script.size()) {
    if (script[at] == open) ++level;
    if (script[at] == close && --level == 0) return at + 1;
    const std::size_t end = script[at] == '\\' ? at + 2 : end_of_unit(script, at, depth + 1);
    at = script[at] == open || script[at] == close ? at + 1 : end;
  }
  return script.size();
}

std::size_t end_of_double_quotes(std::string_view script, std::size_t at, int depth) {
  for (++at; at < script.size() && script[at] != '"';) {
    if (script[at] == '\\') {
      at += 2;
    } else if (script[at] == '$' || script[at] == '`') {
      at = end_of_unit(script, at, depth + 1);
    } else {
      ++at;
    }
  }
  return std::min(at + 1, script.size());
}

std::size_t end_of_unit(std::string_view script, std::size_t at, int depth) {
  const char c = script[at];
  if (depth > kDeepest) return script.size();
  if (c == '\'' || c == '`') return std::min(script.find(c, at + 1), script.size() - 1) + 1;
  if (c == '"') return end_of_double_quotes(script, at, depth);
  if (c == '$' && at + 1 < script.size()) {
    if (script[at + 1] == '(') return end_of_bracket(script, at + 2, '(', ')', depth);
    if (script[at + 1] == '{') return end_of_bracket(script, at + 2, '{', '}', depth);
  }
  return at + 1;
}

/// A quotation that begins at `at` and nothing ends.
bool is_open(std::string_view script, std::size_t at, std::size_t end) {
  return is_one_of(script[at], "'\"`") && end == script.size() && (end - at < 2 || script.back() != script[at]);
}

/// The same of `${` and `$(`.
bool is_open_bracket(std::string_view script, std::size_t at, std::size_t end) {
  if (script[at] != '$' || end != script.size() || end - at < 2) return false;
  const char open = script[at + 1];
  return (open == '{' && script.back() != '}') || (open == '(' && script.back() != ')');
}

class Lexer {
 public:
  explicit Lexer(std::string_view script) : script_(script) {}
  [[nodiscard]] const ShellUnended& unended() const { return unended_; }

  std::vector<ShellCommand> run() {
    while (at_ < script_.size()) step();
    finish(ShellJoin::next);
    return std::move(commands_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < script_.size() ? script_[at_ + ahead] : '\0';
  }

  /// A backslash before the end of a line joins it to the next.
  bool skip_continuation() {
    if (peek() != '\\') return false;
    const std::size_t end = peek(1) == '\r' ? 2 : 1;
    if (peek(end) != '\n') return false;
    at_ += end + 1;
    return true;
  }

  void step() {
    const char c = peek();
    if (skip_continuation()) return;
    if (is_one_of(c, kBlank)) {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(script_.find('\n', at_), script_.size());
    } else if (c == '\n') {
      ++at_;
      finish(ShellJoin::next);
      skip_here_documents();
    } else if (c == '<' || c == '>') {
      redirect();
    } else if (c == '(' && take_arithmetic()) {
      return;
    } else if (is_one_of(c, ";&|()")) {
      separate();
    } else {
      command_.words.push_back(word());
    }
  }

  /// An option, as far as its first letter: no word of a test or of arithmetic.
  [[nodiscard]] bool is_option(const ShellWord& word) const {
    const std::string_view text = script_.substr(word.begin, word.end - word.begin);
    return text.size() > 2 && text.starts_with("--") && text[2] >= 'a' && text[2] <= 'z';
  }

  /// `((...))` where a command may begin. Nothing is looked through twice: parentheses inside parentheses are many.
  bool take_arithmetic() {
    if (peek(1) != '(' || at_ < examined_ || !may_begin_command()) return false;
    const std::size_t end = end_of_bracket(script_, at_ + 2, '(', ')', 0);
    examined_ = end;
    if (end >= script_.size() || script_[end - 1] != ')' || script_[end] != ')') return false;
    command_.words.push_back({.begin = at_, .end = end + 1});
    at_ = end + 1;
    return true;
  }

  [[nodiscard]] bool may_begin_command() const {
    if (command_.words.empty()) return true;
    const ShellWord& last = command_.words.back();
    const std::string_view text = script_.substr(last.begin, last.end - last.begin);
    constexpr std::array<std::string_view, 9> kBefore = {"if",   "elif", "while", "until", "for",
                                                         "then", "do",   "else",  "!"};
    return std::ranges::find(kBefore, text) != kBefore.end();
  }

  /// `NAME()`: what follows is its body.
  void mark_function() {
    const std::size_t close = std::min(script_.find_first_not_of(kBlank, at_ + 1), script_.size());
    command_.opens_function = close < script_.size() && script_[close] == ')' && !command_.words.empty();
  }

  void separate() {
    const char c = peek();
    if (c == '(') mark_function();
    if (c == '(' && std::ranges::any_of(command_.words, [this](const ShellWord& word) { return is_option(word); }))
      unended_.parenthesis = std::min(unended_.parenthesis, at_);
    if (c == '&' && (peek(1) == '>')) {  // &> file
      ++at_;
      redirect();
      return;
    }
    const bool twice = peek(1) == c;
    at_ += twice ? 2 : 1;
    if (c == '|' && !twice && peek() == '&') ++at_;
    finish(c == '&' && twice   ? ShellJoin::and_then
           : c == '|' && twice ? ShellJoin::or_else
           : c == '|'          ? ShellJoin::pipe
                               : ShellJoin::next);
  }

  void finish(ShellJoin join) {
    if (command_.words.empty()) return;
    command_.join = join;
    commands_.push_back(std::move(command_));
    command_ = {};
  }

  void redirect() {
    if (!command_.words.empty()) {  // the 2 of 2>
      const ShellWord& last = command_.words.back();
      const std::string_view text = script_.substr(last.begin, last.end - last.begin);
      if (last.end == at_ && text.find_first_not_of("0123456789") == std::string_view::npos) command_.words.pop_back();
    }
    const std::size_t begin = at_;
    const bool here = peek() == '<' && peek(1) == '<' && peek(2) != '<';
    while (is_one_of(peek(), "<>&|-") && at_ < script_.size()) ++at_;
    while (is_one_of(peek(), kBlank) && at_ < script_.size()) ++at_;
    if (at_ >= script_.size() || is_one_of(peek(), "\n;")) return;
    const ShellWord target = word();
    if (!here) return;
    std::string delimiter;
    for (const char c : script_.substr(target.begin, target.end - target.begin))
      if (!is_one_of(c, "'\"\\")) delimiter += c;
    here_.push_back({.begin = begin, .delimiter = std::move(delimiter)});
  }

  void skip_here_documents() {
    for (const HereDocument& document : here_) {
      bool ended = false;
      while (at_ < script_.size() && !ended) {
        const std::size_t end = std::min(script_.find('\n', at_), script_.size());
        std::string_view line = script_.substr(at_, end - at_);
        at_ = std::min(end + 1, script_.size());
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        ended = line == document.delimiter;
      }
      if (!ended) unended_.here_document = std::min(unended_.here_document, document.begin);
    }
    here_.clear();
  }

  ShellWord word() {
    ShellWord word{.begin = at_, .end = at_};
    while (at_ < script_.size() && !is_one_of(peek(), " \t\r\n;&|<>()")) {
      if (peek() == '\\') {
        if (skip_continuation()) continue;
        at_ = std::min(at_ + 2, script_.size());
      } else {
        const std::size_t begin = at_;
        at_ = end_of_unit(script_, begin, 0);
        if (is_open(script_, begin, at_)) unended_.quote = std::min(unended_.quote, begin);
        if (is_open_bracket(script_, begin, at_)) unended_.bracket = std::min(unended_.bracket, begin);
      }
      word.end = at_;
      if (script_[at_ - 1] == '=' && peek() == '(' && !in_array_) {  // an array holds no array
        read_items(word);
        return word;
      }
    }
    if (word.end == word.begin) word.end = at_ = std::min(word.begin + 1, script_.size());  // always forward
    return word;
  }

  void read_items(ShellWord& array) {
    array.is_array = true;
    in_array_ = true;
    bool options = false;
    const std::size_t begin = array.begin;
    ++at_;
    while (at_ < script_.size() && peek() != ')') {
      if (skip_continuation()) continue;
      if (is_one_of(peek(), " \t\r\n;&|<>(")) {
        if (peek() == '(' && options) unended_.parenthesis = std::min(unended_.parenthesis, at_);
        ++at_;
      } else if (peek() == '#') {
        at_ = std::min(script_.find('\n', at_), script_.size());
      } else {
        array.items.push_back(word());
        options |= is_option(array.items.back());
      }
    }
    in_array_ = false;
    if (at_ >= script_.size()) unended_.array = std::min(unended_.array, begin);
    at_ = std::min(at_ + 1, script_.size());
  }

  std::string_view script_;
  std::size_t at_ = 0;
  bool in_array_ = false;
  std::size_t examined_ = 0;  ///< up to here no `((...))` begins that is not taken
  ShellUnended unended_;
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
  struct HereDocument {
    std::size_t begin = 0;
    std::string delimiter;
  };
  std::vector<HereDocument> here_;
};

}  // namespace

std::size_t end_of_shell_unit(std::string_view script, std::size_t at) {
  return end_of_unit(script, at, 0);
}

std::vector<ShellCommand> shell_commands(std::string_view script) {
  return Lexer(script).run();
}

ShellUnended find_unended(std::string_view script) {
  Lexer lexer(script);
  lexer.run();
  return lexer.unended();
}

}  // namespace tidemark::formats
