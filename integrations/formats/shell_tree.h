#pragma once
// The commands of a shell script as a tree. Private to formats.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "integrations/formats/shell_lexer.h"

namespace tidemark::formats {

/// What a command is made of, by its kind. Places are offsets in the script.
struct ShellNode {
  enum class Kind : std::uint8_t {
    simple,      ///< words: assignments, the command, its arguments
    arithmetic,  ///< words: `((...))`
    test,        ///< words: between `[[` and `]]`
    list,        ///< children one after the other
    joined,      ///< children with `&&` and `||` between them
    pipeline,    ///< children with `|` between them, or one behind `!`
    group,       ///< { list }
    subshell,    ///< ( list )
    decision,    ///< if: condition, lines from their `then` on, condition, lines, ..., perhaps lines of else
    loop,        ///< while, until: condition, lines
    each,        ///< for, select: words: `for`, the name or `((...))`, the list; lines
    choice,      ///< case: words: what is compared; lines of each arm, whose words are its patterns
    function,    ///< words: its name; its body
    other,       ///< read, but not understood: children are what it holds
  };
  Kind kind = Kind::simple;
  std::size_t begin = 0;
  std::vector<ShellWord> words;
  std::vector<ShellWord> redirections;
  std::vector<ShellNode> children;
  bool is_inverted = false;    ///< of a pipeline: `!`
  bool is_background = false;  ///< with `&` behind it
  bool is_until = false;       ///< of a loop: it runs where its test fails
  bool has_list = false;       ///< of each: `in` is there
  bool is_or_else = false;     ///< with `||` before it
  bool falls_through = false;  ///< of an arm: ends with `;&` or `;;&`
};

/// Where the text is no shell command that is known here, and why.
struct ShellUnparsed {
  std::size_t at = 0;
  std::string_view what;
};

struct ShellTree {
  ShellNode root;
  ShellUnended unended;
  std::vector<ShellUnparsed> unparsed;            ///< ascending; what follows in the line is left out
  std::vector<ShellDocument> documents;           ///< here-documents, ascending
  std::size_t too_deep = std::string_view::npos;  ///< where commands stand in more than kDeepestShellCommand others
};

inline constexpr int kDeepestShellCommand = 200;

}  // namespace tidemark::formats
