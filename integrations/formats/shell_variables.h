#pragma once
// Variables of a shell script and what words become with them. Only what the script itself says is known: a variable it
// never sets and the output of a command stay as they are written, and are marked as unresolved. Private to formats.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/shell_lexer.h"
#include "integrations/formats/shell_text.h"

namespace tidemark::formats {

/// What the words of a script may come to with their variables replaced. Each character takes five bytes, in up to
/// three places.
inline constexpr std::size_t kMostShellCharacters = std::size_t{1} << 20;
/// A word counts at least this many: it takes as much memory, however short it is.
inline constexpr std::size_t kShellCharactersOfWord = 32;

struct ShellVariable {
  std::vector<ShellText> items;  ///< one, unless it is an array
  bool exported = false;
};

class ShellVariables {
 public:
  explicit ShellVariables(std::string_view script);

  /// Fields of a word: quotes removed, variables replaced and, outside of quotes, split at blanks.
  [[nodiscard]] std::vector<ShellText> expand(const ShellWord& word);
  /// The word as one text, as on the right of an assignment.
  [[nodiscard]] ShellText expand_whole(std::size_t begin, std::size_t end, int depth = 0);
  /// Takes `NAME=value`, `NAME+=value`, `NAME=(a b)`; false: the word is no assignment.
  bool assign(const ShellWord& word, bool exported);
  void mark_exported(const std::string& name) { variables_[name].exported = true; }
  void unset(const std::string& name) { variables_.erase(name); }

  [[nodiscard]] const std::map<std::string, ShellVariable>& all() const { return variables_; }
  [[nodiscard]] std::string_view raw(const ShellWord& word) const {
    return script_.substr(word.begin, word.end - word.begin);
  }
  [[nodiscard]] std::int32_t line_at(std::size_t offset) const;
  /// Text grew beyond kMostShellCharacters: a variable that doubles itself.
  [[nodiscard]] bool overgrown() const { return budget_ == 0; }

 private:
  struct Fields;
  void expand_into(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth);
  std::size_t expand_dollar(std::size_t at, std::size_t end, bool quoted, Fields& out, int depth);
  void expand_braces(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth);
  void insert(const ShellVariable& variable, bool quoted, bool all, Fields& out);
  void insert_text(const ShellText& text, bool quoted, Fields& out);
  void leave(std::size_t begin, std::size_t end, Fields& out);
  void spend(std::size_t characters) { budget_ -= std::min(budget_, characters); }

  std::string_view script_;
  std::vector<std::size_t> line_ends_;
  std::map<std::string, ShellVariable> variables_;
  std::size_t budget_ = kMostShellCharacters;
};

}  // namespace tidemark::formats
