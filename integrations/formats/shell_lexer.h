#pragma once
// A shell script cut into commands and words, nothing expanded and nothing executed. Private to formats.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tidemark::formats {

/// A word as written, quotes and all: [begin, end) of the script. `NAME=( a b )` keeps its items apart.
struct ShellWord {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_array = false;  ///< the text is `NAME=` or `NAME+=`
  std::vector<ShellWord> items;
};

/// What stands behind a command.
enum class ShellJoin : std::uint8_t { next, and_then, or_else, pipe };

struct ShellCommand {
  std::vector<ShellWord> words;
  ShellJoin join = ShellJoin::next;
  bool opens_function = false;  ///< its last word is a name with `()` behind it
};

/// Redirections, comments and here-documents are left out; parentheses and semicolons end a command, `((...))` is one
/// word. Quotes and brackets that are never closed reach to the end of the script.
[[nodiscard]] std::vector<ShellCommand> shell_commands(std::string_view script);

/// What begins and nothing ends: the first of each kind, npos where there is none.
struct ShellUnended {
  std::size_t quote = std::string_view::npos;
  std::size_t bracket = std::string_view::npos;        ///< `${` or `$(`
  std::size_t array = std::string_view::npos;          ///< `NAME=(`
  std::size_t here_document = std::string_view::npos;  ///< its `<<`; to the shell it ends with the script
  std::size_t parenthesis = std::string_view::npos;    ///< a `(` among options: no shell runs that
};
[[nodiscard]] ShellUnended find_unended(std::string_view script);

/// One past what begins at `at` with a quote, `${`, `$(` or a backquote; at + 1 for anything else.
[[nodiscard]] std::size_t end_of_shell_unit(std::string_view script, std::size_t at);

}  // namespace tidemark::formats
