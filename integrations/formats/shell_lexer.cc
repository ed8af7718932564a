#include "integrations/formats/shell_lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr int kDeepest = 200;
using Kind = ShellToken::Kind;

bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

std::size_t end_of_unit(std::string_view script, std::size_t at, bool quoted, int depth);

/// One past the `close` that belongs to what was opened before `at`. A `{` in `${...}` opens nothing of its own.
std::size_t end_of_bracket(std::string_view script, std::size_t at, char open, char close, bool quoted, int depth) {
  int level = 1;
  while (at < script.size()) {
    if (script[at] == open && open == '(') ++level;
    if (script[at] == close && --level == 0) return at + 1;
    const std::size_t end = script[at] == '\\' ? at + 2 : end_of_unit(script, at, quoted, depth + 1);
    at = script[at] == '(' || script[at] == close ? at + 1 : end;
  }
  return script.size();
}

struct OutputDocument {
  std::string delimiter;
  bool has_tabs = false;
};

/// Behind `<<`: one past the delimiter.
std::size_t take_delimiter(std::string_view script, std::size_t at, std::vector<OutputDocument>& documents) {
  OutputDocument document;
  document.has_tabs = at < script.size() && script[at] == '-';
  if (document.has_tabs) ++at;
  while (at < script.size() && is_one_of(script[at], kBlank)) ++at;
  for (; at < script.size() && !is_one_of(script[at], " \t\r\n;&|<>()"); ++at)
    if (!is_one_of(script[at], "'\"\\")) document.delimiter += script[at];
  documents.push_back(std::move(document));
  return at;
}

/// One past the lines of here-documents that begin at `at`.
std::size_t end_of_documents(std::string_view script, std::size_t at, const std::vector<OutputDocument>& documents) {
  for (const OutputDocument& document : documents) {
    bool ended = false;
    while (at < script.size() && !ended) {
      const std::size_t end = std::min(script.find('\n', at), script.size());
      std::string_view line = script.substr(at, end - at);
      if (document.has_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ended = line == document.delimiter;
      at = std::min(end + 1, script.size());
    }
  }
  return at;
}

/// One past the `)` of `$(` or `<(`: commands, with comments and here-documents of their own.
std::size_t end_of_commands(std::string_view script, std::size_t at, int depth) {
  int level = 1;
  std::size_t examined = 0;
  std::vector<OutputDocument> documents;
  while (at < script.size()) {
    const char c = script[at];
    const std::string_view rest = script.substr(at);
    if (rest.starts_with("((") && at >= examined) {  // a sum, where << is no here-document
      examined = end_of_bracket(script, at + 2, '(', ')', false, depth + 1);
      if (examined < script.size() && script[examined] == ')') {
        at = examined + 1;
        continue;
      }
    }
    if (c == '(') ++level;
    if (c == ')' && --level == 0) return at + 1;
    if (c == '#' && is_one_of(script[at - 1], " \t\r\n;&|()")) {
      at = std::min(script.find('\n', at), script.size());
    } else if (c == '\n' && !documents.empty()) {
      at = end_of_documents(script, at + 1, documents);
      documents.clear();
    } else if (rest.starts_with("<<<")) {
      at += 3;
    } else if (rest.starts_with("<<")) {
      at = take_delimiter(script, at + 2, documents);
    } else if (c == '(' || c == ')') {
      ++at;
    } else {
      at = c == '\\' ? at + 2 : end_of_unit(script, at, false, depth + 1);
    }
  }
  return script.size();
}

std::size_t end_of_double_quotes(std::string_view script, std::size_t at, int depth) {
  for (++at; at < script.size() && script[at] != '"';) {
    if (script[at] == '\\') {
      at += 2;
    } else if (script[at] == '$' || script[at] == '`') {
      at = end_of_unit(script, at, true, depth + 1);
    } else {
      ++at;
    }
  }
  return std::min(at + 1, script.size());
}

/// `$'...'` and a backquote: a backslash takes the next character with it.
std::size_t end_of_escaped(std::string_view script, std::size_t at, char close) {
  while (at < script.size() && script[at] != close) at += script[at] == '\\' ? 2U : 1U;
  return std::min(at + 1, script.size());
}

std::size_t end_of_unit(std::string_view script, std::size_t at, bool quoted, int depth) {
  const char c = script[at];
  if (depth > kDeepest) return script.size();
  if (c == '\'' && !quoted) return std::min(script.find(c, at + 1), script.size() - 1) + 1;
  if (c == '`') return end_of_escaped(script, at + 1, c);
  if (c == '"') return end_of_double_quotes(script, at, depth);
  if (c == '$' && at + 1 < script.size()) {
    const char next = script[at + 1];
    if (next == '(' && !script.substr(at).starts_with("$((")) return end_of_commands(script, at + 2, depth);
    if (next == '(') return end_of_bracket(script, at + 2, '(', ')', false, depth);
    if (next == '{') return end_of_bracket(script, at + 2, '{', '}', quoted, depth);
    if (next == '\'' && !quoted) return end_of_escaped(script, at + 2, next);
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

/// An option, as far as its first letter: no word of a test or of arithmetic.
bool is_option_text(std::string_view text) {
  return text.size() > 2 && text.starts_with("--") && text[2] >= 'a' && text[2] <= 'z';
}

}  // namespace

const ShellToken& ShellLexer::peek() {
  if (!is_peeked_) scan();
  is_peeked_ = true;
  return token_;
}

ShellToken ShellLexer::take() {
  (void)peek();
  is_peeked_ = false;
  return std::move(token_);
}

/// A backslash before the end of a line joins it to the next.
bool ShellLexer::skip_continuation() {
  if (look() != '\\') return false;
  const std::size_t end = look(1) == '\r' ? 2 : 1;
  if (look(end) != '\n') return false;
  at_ += end + 1;
  return true;
}

void ShellLexer::skip_blanks() {
  while (at_ < script_.size()) {
    if (is_one_of(look(), kBlank)) {
      ++at_;
    } else if (look() == '#') {
      at_ = std::min(script_.find('\n', at_), script_.size());
    } else if (!skip_continuation()) {
      return;
    }
  }
}

void ShellLexer::scan() {
  skip_blanks();
  token_ = {.begin = at_, .end = at_};
  if (at_ >= script_.size()) return;
  const char c = look();
  if (c == '\n') {
    token_.kind = Kind::newline;
    ++at_;
    skip_here_documents();
  } else if (is_one_of(c, "<>") && look(1) != '(') {
    scan_redirection(at_);
  } else if (c == '&' && look(1) == '>') {
    ++at_;
    scan_redirection(at_ - 1);
  } else if (is_one_of(c, ";&|()")) {
    scan_operator();
  } else {
    scan_word();
  }
  token_.end = at_;
}

void ShellLexer::scan_operator() {
  const char c = look();
  const bool twice = look(1) == c && !is_one_of(c, "()");
  at_ += twice ? 2 : 1;
  switch (c) {
    case '(':
      token_.kind = Kind::opens;
      return;
    case ')':
      token_.kind = Kind::closes;
      return;
    case '|':
      token_.kind = twice ? Kind::or_else : Kind::pipe;
      if (!twice && look() == '&') ++at_;
      return;
    case '&':
      token_.kind = twice ? Kind::and_then : Kind::ampersand;
      return;
    default:
      token_.kind = twice || look() == '&' ? Kind::ends_arm : Kind::semicolon;
      if (look() == '&') ++at_;
  }
}

/// The 2 of `2>` and the `{fd}` of `{fd}>` belong to what follows them.
void ShellLexer::scan_word() {
  const std::size_t begin = at_;
  token_.word = word();
  token_.kind = Kind::word;
  const std::string_view text = script_.substr(begin, at_ - begin);
  const bool number = text.find_first_not_of("0123456789") == std::string_view::npos;
  const bool name = text.size() > 2 && text.starts_with('{') && text.ends_with('}') &&
                    shell_name_length(text.substr(1)) == text.size() - 2;
  if ((number || name) && is_one_of(look(), "<>") && at_ < script_.size()) scan_redirection(begin);
}

void ShellLexer::scan_redirection(std::size_t begin) {
  token_.kind = Kind::redirection;
  const std::size_t sign = at_;
  const bool here = look() == '<' && look(1) == '<' && look(2) != '<';
  for (const std::string_view operation : {"<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"}) {
    if (!script_.substr(at_).starts_with(operation)) continue;
    at_ += operation.size();
    break;
  }
  const bool has_tabs = here && script_[at_ - 1] == '-';
  while (at_ < script_.size() && (is_one_of(look(), kBlank) || skip_continuation()))
    if (is_one_of(look(), kBlank)) ++at_;
  token_.word = {.begin = begin, .end = at_};
  if (at_ >= script_.size() || is_one_of(look(), "\n;&|)") || (is_one_of(look(), "<>") && look(1) != '(')) return;
  const ShellWord target = word();
  token_.word.end = target.end;
  if (!here) return;
  HereDocument document{.begin = sign, .has_tabs = has_tabs};
  for (const char c : script_.substr(target.begin, target.end - target.begin)) {
    if (is_one_of(c, "'\"\\")) document.is_quoted = true;
    if (!is_one_of(c, "'\"\\")) document.delimiter += c;
  }
  here_.push_back(std::move(document));
}

void ShellLexer::skip_here_documents() {
  for (const HereDocument& document : here_) {
    bool ended = false;
    const std::size_t begin = at_;
    std::size_t body_end = at_;
    while (at_ < script_.size() && !ended) {
      const std::size_t end = std::min(script_.find('\n', at_), script_.size());
      std::string_view line = script_.substr(at_, end - at_);
      body_end = at_;
      at_ = std::min(end + 1, script_.size());
      if (document.has_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ended = line == document.delimiter;
    }
    if (!ended) unended_.here_document = std::min(unended_.here_document, document.begin);
    documents_.push_back({.at = document.begin,
                          .body = {.begin = begin, .end = ended ? body_end : at_},
                          .is_open = !document.is_quoted});
  }
  here_.clear();
}

void ShellLexer::skip_line() {
  if (is_peeked_) at_ = token_.begin;
  is_peeked_ = false;
  at_ = std::min(script_.find('\n', at_), script_.size());
}

/// Nothing is looked through twice: parentheses inside parentheses are many.
bool ShellLexer::take_arithmetic(ShellWord& word) {
  const std::size_t begin = peek().begin;
  if (peek().kind != Kind::opens || !script_.substr(begin).starts_with("((") || begin < examined_) return false;
  const std::size_t end = end_of_bracket(script_, begin + 2, '(', ')', false, 0);
  examined_ = end;
  if (end >= script_.size() || script_[end - 1] != ')' || script_[end] != ')') return false;
  word = {.begin = begin, .end = end + 1};
  at_ = end + 1;
  is_peeked_ = false;
  return true;
}

bool ShellLexer::take_test(std::vector<ShellWord>& words) {
  if (is_peeked_) at_ = token_.begin;
  is_peeked_ = false;
  bool is_expression = false;  // behind =~
  while (true) {
    skip_blanks();
    while (look() == '\n' && at_ < script_.size()) {
      ++at_;
      skip_blanks();
    }
    if (at_ >= script_.size() || look() == ';') return false;
    const ShellWord word = test_word(is_expression);
    const std::string_view text = script_.substr(word.begin, word.end - word.begin);
    if (text == "]]") return true;
    is_expression = text == "=~";
    words.push_back(word);
  }
}

/// An operator, or what reaches to the next blank; a pattern or an expression keeps its parentheses.
ShellWord ShellLexer::test_word(bool is_expression) {
  const std::size_t begin = at_;
  for (const std::string_view operation : {"&&", "||", "(", ")", "<", ">"}) {
    if (is_expression || !script_.substr(at_).starts_with(operation)) continue;
    at_ += operation.size();
    return {.begin = begin, .end = at_};
  }
  int level = 0;
  while (at_ < script_.size() && look() != '\n') {
    const char c = look();
    const bool is_pattern = at_ > begin && is_one_of(script_[at_ - 1], "?*+@!");
    if (level == 0 && is_one_of(c, kBlank)) break;
    if (level == 0 && !is_expression && is_one_of(c, "|&;<>)")) break;
    if (c == '(' && !is_expression && !is_pattern && level == 0) break;
    if (c == '(') ++level;
    if (c == ')') --level;
    if (c == '\\') {
      at_ = std::min(at_ + 2, script_.size());
    } else {
      take_unit();
    }
  }
  if (at_ == begin) ++at_;  // always forward
  return {.begin = begin, .end = at_};
}

void ShellLexer::take_unit() {
  const std::size_t begin = at_;
  at_ = end_of_unit(script_, begin, false, 0);
  if (is_open(script_, begin, at_)) unended_.quote = std::min(unended_.quote, begin);
  if (is_open_bracket(script_, begin, at_)) unended_.bracket = std::min(unended_.bracket, begin);
}

/// Where the next one is from here on, the end of the script without one: looked for once however often it is asked.
std::size_t ShellLexer::next(char c, Next& known) const {
  if (at_ < known.from || at_ > known.at)
    known = {.from = at_, .at = std::min(script_.find(c, at_), script_.size() + (c == ']' ? 1 : 0))};
  return known.at;
}

/// Of an item that is assigned to, blanks and all. False: it is none.
bool ShellLexer::take_subscript(std::size_t begin) {
  const std::size_t length = shell_name_length(script_.substr(begin, at_ - begin));
  if (length == 0 || begin + length != at_) return false;
  const std::size_t close = next(']', next_bracket_);
  if (close > next('\n', next_line_)) return false;
  const std::string_view behind = script_.substr(close + 1);
  if (!behind.starts_with('=') && !behind.starts_with("+=")) return false;
  at_ = close + 1;
  return true;
}

ShellWord ShellLexer::word() {
  ShellWord word{.begin = at_, .end = at_};
  while (at_ < script_.size()) {
    const bool is_file = is_one_of(look(), "<>") && look(1) == '(';  // <(command)
    if (!is_file && is_one_of(look(), " \t\r\n;&|<>()")) break;
    if (is_file) {
      at_ = end_of_commands(script_, at_ + 2, 0);
      if (at_ == script_.size() && script_.back() != ')') unended_.bracket = std::min(unended_.bracket, word.begin);
    } else if (look() == '\\') {
      if (skip_continuation()) continue;
      at_ = std::min(at_ + 2, script_.size());
    } else if (look() == '[' && may_be_array_ && !in_array_ && take_subscript(word.begin)) {
      // NAME[A + 1]=value
    } else {
      take_unit();
    }
    word.end = at_;
    if (!in_array_ && may_be_array_ && script_[at_ - 1] == '=' && look() == '(' &&
        is_shell_assignment(script_.substr(word.begin, at_ - word.begin))) {  // an array holds no array
      read_items(word);
      return word;
    }
  }
  if (word.end == word.begin) word.end = at_ = std::min(word.begin + 1, script_.size());  // always forward
  return word;
}

void ShellLexer::read_items(ShellWord& array) {
  array.is_array = true;
  in_array_ = true;
  bool options = false;
  const std::size_t begin = array.begin;
  ++at_;
  while (at_ < script_.size() && look() != ')') {
    if (skip_continuation()) continue;
    if (is_one_of(look(), " \t\r\n;&|<>(") && !(is_one_of(look(), "<>") && look(1) == '(')) {
      if (look() == '(' && options) unended_.parenthesis = std::min(unended_.parenthesis, at_);
      ++at_;
    } else if (look() == '#') {
      at_ = std::min(script_.find('\n', at_), script_.size());
    } else {
      array.items.push_back(word());
      const ShellWord& last = array.items.back();
      options |= is_option_text(script_.substr(last.begin, last.end - last.begin));
    }
  }
  in_array_ = false;
  if (at_ >= script_.size()) unended_.array = std::min(unended_.array, begin);
  at_ = std::min(at_ + 1, script_.size());
}

std::size_t find_bare(std::string_view word, std::string_view characters, std::size_t at) {
  while (at < word.size()) {
    if (is_one_of(word[at], characters)) return at;
    at = word[at] == '\\' ? at + 2 : end_of_unit(word, at, false, 0);
  }
  return std::string_view::npos;
}

bool has_bare_alternatives(std::string_view word) {
  const std::size_t open = find_bare(word, "{");
  if (open == std::string_view::npos) return false;
  const bool is_list =
      find_bare(word, ",", open) != std::string_view::npos || word.find("..", open) != std::string_view::npos;
  return is_list && find_bare(word, "}", open) != std::string_view::npos;
}

std::size_t end_of_shell_unit(std::string_view script, std::size_t at, bool quoted) {
  return end_of_unit(script, at, quoted, 0);
}

}  // namespace tidemark::formats
