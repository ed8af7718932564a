#include "integrations/formats/shell_parser.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

using Kind = ShellNode::Kind;
using Token = ShellToken::Kind;

bool is_in(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

/// Words that end a list where a command would begin.
bool closes_list(std::string_view word) {
  return is_in(word, {"then", "elif", "else", "fi", "do", "done", "esac", "}"});
}

class Parser {
 public:
  explicit Parser(std::string_view script) : script_(script), lexer_(script) {}

  ShellTree run() {
    ShellTree tree;
    tree.root.kind = Kind::list;
    while (tree.too_deep == std::string_view::npos) {
      ShellNode part = list();
      std::ranges::move(part.children, std::back_inserter(tree.root.children));
      if (problem_.empty() && lexer_.peek().kind == Token::end) break;
      if (problem_.empty()) fail("this word stands where no command ends");
      if (is_too_deep_) tree.too_deep = failed_at_;
      tree.unparsed.push_back({.at = failed_at_, .what = problem_});
      problem_ = {};
      depth_ = 0;
      lexer_.skip_line();
    }
    tree.unended = lexer_.unended();
    tree.documents = lexer_.documents();
    return tree;
  }

 private:
  [[nodiscard]] bool failed() const { return !problem_.empty(); }
  void fail(std::string_view what) {
    if (failed()) return;
    problem_ = what;
    failed_at_ = lexer_.peek().begin;
  }

  [[nodiscard]] std::string_view text_of(const ShellWord& word) const {
    return script_.substr(word.begin, word.end - word.begin);
  }
  [[nodiscard]] std::string_view next_word() {
    const ShellToken& token = lexer_.peek();
    return token.kind == Token::word ? text_of(token.word) : std::string_view{};
  }
  bool accept(std::string_view word) {
    if (next_word() != word) return false;
    lexer_.take();
    return true;
  }
  void expect(std::string_view word, std::string_view problem) {
    if (!failed() && !accept(word)) fail(problem);
  }
  bool accept(Token kind) {
    if (lexer_.peek().kind != kind) return false;
    lexer_.take();
    return true;
  }
  void skip_newlines() {
    while (lexer_.peek().kind == Token::newline) lexer_.take();
  }

  ShellNode list() {
    lexer_.allow_arrays(true);
    ShellNode node{.kind = Kind::list, .begin = lexer_.peek().begin};
    bool is_behind_command = false;
    while (!failed()) {
      lexer_.allow_arrays(true);
      const ShellToken& token = lexer_.peek();
      if (token.kind == Token::semicolon && !is_behind_command) {
        fail("a command is missing here");
        break;
      }
      if (token.kind == Token::newline || token.kind == Token::semicolon) {
        lexer_.take();
        is_behind_command = false;
        continue;
      }
      if (is_in_kind(token.kind, {Token::end, Token::closes, Token::ends_arm})) break;
      if (token.kind == Token::word && closes_list(text_of(token.word))) break;
      is_behind_command = true;
      ShellNode child = joined();
      if (failed() && child.children.empty() && child.words.empty()) break;
      if (lexer_.peek().kind == Token::ampersand && !failed()) {
        lexer_.take();
        child.is_background = true;
        is_behind_command = false;
      } else if (!failed() && !is_in_kind(lexer_.peek().kind, {Token::newline, Token::semicolon, Token::end,
                                                               Token::closes, Token::ends_arm})) {
        const bool closes = lexer_.peek().kind == Token::word && closes_list(next_word()) && is_compound(child);
        if (!closes) fail("this stands where a command ends");
      }
      node.children.push_back(std::move(child));
    }
    return node;
  }
  /// One with a command in it.
  ShellNode lines() {
    ShellNode node = list();
    if (node.children.empty()) fail("a command is missing here");
    return node;
  }
  static bool is_in_kind(Token kind, std::initializer_list<Token> kinds) {
    return std::ranges::find(kinds, kind) != kinds.end();
  }
  /// `{ ...; } }` needs no semicolon in between.
  static bool is_compound(const ShellNode& node) {
    const ShellNode* last = &node;
    while (is_joint(*last)) last = &last->children.back();
    return last->kind != Kind::simple;
  }
  static bool is_joint(const ShellNode& node) {
    return (node.kind == Kind::joined || node.kind == Kind::pipeline) && !node.children.empty();
  }

  ShellNode joined() {
    ShellNode first = pipeline();
    if (failed() || !is_in_kind(lexer_.peek().kind, {Token::and_then, Token::or_else})) return first;
    ShellNode node{.kind = Kind::joined, .begin = first.begin};
    node.children.push_back(std::move(first));
    while (!failed() && is_in_kind(lexer_.peek().kind, {Token::and_then, Token::or_else})) {
      const bool or_else = lexer_.take().kind == Token::or_else;
      lexer_.allow_arrays(true);
      skip_newlines();
      node.children.push_back(pipeline());
      node.children.back().is_or_else = or_else;
    }
    return node;
  }

  ShellNode pipeline() {
    ShellNode node{.kind = Kind::pipeline, .begin = lexer_.peek().begin};
    bool is_marked = false;
    while (true) {
      lexer_.allow_arrays(true);
      if (accept("!")) {
        node.is_inverted = !node.is_inverted;
      } else if (accept("time")) {
        while (is_in(next_word(), {"-p", "--"})) lexer_.take();
      } else {
        break;
      }
      is_marked = true;
    }
    node.children.push_back(command());
    while (!failed() && lexer_.peek().kind == Token::pipe) {
      lexer_.take();
      lexer_.allow_arrays(true);
      skip_newlines();
      node.children.push_back(command());
    }
    if (node.children.size() > 1 || is_marked) return node;
    ShellNode only = std::move(node.children.front());
    return only;
  }

  ShellNode command() {
    ShellNode node{.kind = Kind::simple, .begin = lexer_.peek().begin};
    if (failed()) return node;
    if (++depth_ > kDeepestShellCommand) {
      is_too_deep_ = true;
      fail("commands stand in more than 200 others");
    } else if (!compound(node)) {
      simple(node);
    }
    if (failed()) node.kind = Kind::other;
    --depth_;
    return node;
  }

  /// A command that holds others; false: a word that begins none is next.
  bool compound(ShellNode& node) {
    const ShellToken& token = lexer_.peek();
    if (token.kind == Token::opens) {
      parenthesis(node);
    } else if (token.kind != Token::word) {
      fail("a command is missing here");
      return true;
    } else if (const std::string_view word = text_of(token.word); word == "{") {
      lexer_.take();
      node.kind = Kind::group;
      node.children.push_back(lines());
      expect("}", "a } is missing here");
    } else if (word == "if") {
      decision(node);
    } else if (is_in(word, {"while", "until"})) {
      node.is_until = word == "until";
      lexer_.take();
      node.kind = Kind::loop;
      node.words = {};
      node.children.push_back(lines());
      body_of_loop(node);
    } else if (is_in(word, {"for", "select"})) {
      each(node);
    } else if (word == "case") {
      choice(node);
    } else if (word == "[[") {
      lexer_.take();
      node.kind = Kind::test;
      if (!lexer_.take_test(node.words)) fail("this [[ has no ]]");
    } else if (word == "function") {
      function_by_word(node);
      return true;
    } else if (word == "coproc") {
      fail("coproc is not followed");
      return true;
    } else if (closes_list(word) || word == "in") {
      if (word == "in") return false;
      fail("this word stands where a command begins");
      return true;
    } else {
      return false;
    }
    redirections(node);
    return true;
  }

  void redirections(ShellNode& node) {
    while (!failed() && lexer_.peek().kind == Token::redirection) node.redirections.push_back(lexer_.take().word);
  }

  void parenthesis(ShellNode& node) {
    ShellWord word;
    if (lexer_.take_arithmetic(word)) {
      node.kind = Kind::arithmetic;
      node.words.push_back(word);
      return;
    }
    lexer_.take();
    node.kind = Kind::subshell;
    node.children.push_back(lines());
    if (!failed() && !accept(Token::closes)) fail("a ) is missing here");
  }

  void decision(ShellNode& node) {
    node.kind = Kind::decision;
    do {
      lexer_.take();  // if, elif
      node.children.push_back(lines());
      const std::size_t then = lexer_.peek().begin;
      expect("then", "a then is missing here");
      node.children.push_back(lines());
      node.children.back().begin = then;
    } while (!failed() && next_word() == "elif");
    if (!failed() && accept("else")) node.children.push_back(lines());
    expect("fi", "a fi is missing here");
  }

  void body_of_loop(ShellNode& node) {
    if (!failed() && next_word() == "{") {  // an old way to write it
      lexer_.take();
      node.children.push_back(lines());
      return expect("}", "a } is missing here");
    }
    expect("do", "a do is missing here");
    node.children.push_back(lines());
    expect("done", "a done is missing here");
  }

  void each(ShellNode& node) {
    node.kind = Kind::each;
    node.words.push_back(lexer_.take().word);
    ShellWord word;
    if (lexer_.take_arithmetic(word)) {
      node.words.push_back(word);
    } else if (lexer_.peek().kind == Token::word) {
      node.words.push_back(lexer_.take().word);
    } else {
      return fail("a name is missing here");
    }
    skip_newlines();
    if (accept("in")) {
      node.has_list = true;
      lexer_.allow_arrays(false);
      while (lexer_.peek().kind == Token::word) node.words.push_back(lexer_.take().word);
    }
    accept(Token::semicolon);
    lexer_.allow_arrays(true);
    skip_newlines();
    body_of_loop(node);
  }

  void choice(ShellNode& node) {
    lexer_.take();
    node.kind = Kind::choice;
    lexer_.allow_arrays(false);
    if (lexer_.peek().kind != Token::word) return fail("a word is missing here");
    node.words.push_back(lexer_.take().word);
    skip_newlines();
    expect("in", "an in is missing here");
    skip_newlines();
    while (!failed() && next_word() != "esac") arm(node);
    expect("esac", "an esac is missing here");
  }

  void arm(ShellNode& node) {
    std::vector<ShellWord> patterns;
    lexer_.allow_arrays(false);
    accept(Token::opens);
    do {
      if (lexer_.peek().kind != Token::word) return fail("a pattern is missing here");
      patterns.push_back(lexer_.take().word);
    } while (accept(Token::pipe));
    if (!accept(Token::closes)) return fail("a ) is missing here");
    ShellNode arm = list();
    arm.words = std::move(patterns);
    if (!failed() && lexer_.peek().kind == Token::ends_arm) {
      const ShellToken end = lexer_.take();
      arm.falls_through = script_.substr(end.begin, end.end - end.begin).ends_with('&');
    } else if (next_word() != "esac") {
      fail("this stands where an arm of the case ends");
    }
    node.children.push_back(std::move(arm));
    skip_newlines();
  }

  void function_by_word(ShellNode& node) {
    lexer_.take();
    lexer_.allow_arrays(false);
    if (lexer_.peek().kind != Token::word) return fail("a name is missing here");
    node.words.push_back(lexer_.take().word);
    if (accept(Token::opens) && !accept(Token::closes)) return fail("a ) is missing here");
    body_of_function(node);
  }

  void body_of_function(ShellNode& node) {
    node.kind = Kind::function;
    lexer_.allow_arrays(true);
    skip_newlines();
    ShellNode body{.begin = lexer_.peek().begin};
    if (++depth_ > kDeepestShellCommand) {
      is_too_deep_ = true;
      fail("commands stand in more than 200 others");
    } else if (failed() || !compound(body) || body.kind == Kind::function) {
      fail("the body of the function is none");
    }
    --depth_;
    node.children.push_back(std::move(body));
  }

  void simple(ShellNode& node) {
    bool has_command = false, declares = false;
    while (!failed()) {
      lexer_.allow_arrays(!has_command || declares);
      const ShellToken& token = lexer_.peek();
      if (token.kind == Token::redirection) {
        node.redirections.push_back(lexer_.take().word);
      } else if (token.kind == Token::word) {
        node.words.push_back(lexer_.take().word);
        const std::string_view text = text_of(node.words.back());
        if (has_command || is_shell_assignment(text) || is_element_assignment(text)) continue;
        has_command = true;
        declares = is_in(text, {"export", "declare", "local", "readonly", "typeset"});
      } else if (token.kind == Token::opens) {
        return open_in_command(node);
      } else {
        break;
      }
    }
    if (node.words.empty() && node.redirections.empty()) fail("a command is missing here");
  }

  /// `NAME()`, or what no shell takes.
  void open_in_command(ShellNode& node) {
    const std::size_t at = lexer_.peek().begin;
    const bool options = std::ranges::any_of(node.words, [this](const ShellWord& word) {
      const std::string_view text = text_of(word);
      return text.size() > 2 && text.starts_with("--") && text[2] >= 'a' && text[2] <= 'z';
    });
    if (options) lexer_.note_parenthesis(at);
    const bool is_head = node.words.size() == 1 && node.redirections.empty() && !options;
    if (!is_head) return fail("a shell refuses this (");
    lexer_.take();
    if (!accept(Token::closes)) return fail("a shell refuses this (");
    body_of_function(node);
  }

  std::string_view script_;
  ShellLexer lexer_;
  std::string_view problem_;
  std::size_t failed_at_ = 0;
  bool is_too_deep_ = false;
  int depth_ = 0;
};

}  // namespace

ShellTree parse_shell(std::string_view script) {
  return Parser(script).run();
}

}  // namespace tidemark::formats
