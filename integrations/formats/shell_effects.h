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

/// The variables that an expression of `((...))`, `let` or `${NAME:...}` sets: `A = 1`, `B += 2`, `C++`, `--D`, `E[0] =
/// 1`.
[[nodiscard]] ShellEffects effects_of_arithmetic(std::string_view expression);

/// Those that replacing the variables in a word as written sets: `${NAME:=value}`, `$((NAME++))`, `${LIST[NAME++]}`.
[[nodiscard]] ShellEffects effects_of_expansion(std::string_view word);

}  // namespace tidemark::formats
