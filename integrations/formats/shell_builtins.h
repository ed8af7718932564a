#pragma once
// What the shell runs itself. Private to formats.

#include <string_view>

namespace tidemark::formats {

/// As written it is the name of a command and nothing else: nothing in it is replaced or taken away.
[[nodiscard]] bool is_plain_shell_word(std::string_view word);

/// Its status is all there is to it: `[`, `test`, `true`, `false`, `:`.
[[nodiscard]] bool is_shell_test(std::string_view name);

/// A builtin that sets no variable of a script's own and starts nothing: cd, echo, umask. Its status is not known.
[[nodiscard]] bool is_quiet_builtin(std::string_view name);

/// cd, pushd, popd.
[[nodiscard]] bool changes_folder(std::string_view name);

/// A builtin that changes how the shell goes on in a way that is not followed: alias, shopt, enable.
[[nodiscard]] bool changes_shell(std::string_view name);

/// Any builtin, or a word that stands before a command and runs it in this shell.
[[nodiscard]] bool is_shell_builtin(std::string_view name);

/// A builtin that may change what the commands behind it see.
[[nodiscard]] bool is_changing_builtin(std::string_view name);

/// export, declare, local, readonly, typeset.
[[nodiscard]] bool declares_variables(std::string_view name);

}  // namespace tidemark::formats
