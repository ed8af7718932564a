#pragma once
// What launch scripts hardly hold and a shell takes otherwise than it looks: where the follower (shell_follower.h)
// could be sure of the wrong thing. A script with one of them is never sure, whether or not it matters there. Private
// to formats.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/shell_tree.h"

namespace tidemark::formats {

struct ShellUnusual {
  std::size_t at = 0;  ///< in the script
  std::string what;    ///< behind "line 7: "
};

/// Of the characters between and in words: lines continued inside a word, carriage returns, here-documents that end
/// otherwise than they look. At most one of a kind. O(text).
[[nodiscard]] std::vector<ShellUnusual> unusual_text(std::string_view script);

/// Of commands, in the order of the script, at most kMostUnusual. O(text) for each function that starts a program.
[[nodiscard]] std::vector<ShellUnusual> unusual_commands(std::string_view script, const ShellTree& tree);
inline constexpr std::size_t kMostUnusual = 16;

}  // namespace tidemark::formats
