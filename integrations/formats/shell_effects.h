#pragma once
// What a command that is not run may set: the variables whose values are unknown behind it. Private to formats.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::formats {

struct ShellEffects {
  std::vector<std::string> names;
  bool any = false;  ///< any variable at all, as by a script that `source` reads
};

/// Of a builtin that sets variables: read, mapfile, printf -v, getopts, unset, eval, source and the like. `words`: as
/// written, quotes and all, the command first. Any other command sets none. Scripts that only set up the shell's own
/// environment (CANN's set_env.sh, conda, .bashrc) count as none: they know no variable of a job.
[[nodiscard]] ShellEffects effects_of_builtin(std::span<const std::string_view> words);

/// The names an expression of `((...))` or `let` sets: `A = 1`, `B += 2`, `C++`, `--D`.
[[nodiscard]] std::vector<std::string> names_set_by(std::string_view expression);

/// The names `${NAME:=value}` and `${NAME=value}` in a word set.
[[nodiscard]] std::vector<std::string> names_given_defaults(std::string_view word);

/// Length of the name at the beginning of `text`; 0: none.
[[nodiscard]] std::size_t shell_name_length(std::string_view text);

}  // namespace tidemark::formats
