#include "integrations/formats/shell_builtins.h"

#include <algorithm>
#include <array>

namespace tidemark::formats {
namespace {

template <std::size_t kCount>
bool holds(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_plain_shell_word(std::string_view word) {
  if (word == "[" || word == "[[" || word == "!") return true;
  return !word.empty() && word.find_first_of("\\\"'$`*?[~{}<>()") == std::string_view::npos;
}

bool is_shell_test(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"[", "test", "true", "false", ":"};
  return holds(kNames, name);
}

bool is_quiet_builtin(std::string_view name) {
  constexpr std::array<std::string_view, 24> kNames = {"cd",       "pushd",   "popd",    "echo",   "pwd",     "umask",
                                                       "ulimit",   "hash",    "type",    "times",  "jobs",    "kill",
                                                       "bg",       "fg",      "disown",  "dirs",   "help",    "history",
                                                       "complete", "compgen", "compopt", "caller", "unalias", "break"};
  return holds(kNames, name) || name == "continue";
}

bool changes_folder(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames = {"cd", "pushd", "popd"};
  return holds(kNames, name);
}

bool changes_shell(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {"alias", "shopt", "enable", "bind", "fc", "logout", "suspend"};
  return holds(kNames, name);
}

bool declares_variables(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"export", "declare", "local", "readonly", "typeset"};
  return holds(kNames, name);
}

bool is_shell_builtin(std::string_view name) {
  constexpr std::array<std::string_view, 20> kNames = {
      "printf",  "wait",    "source",    ".",     "set",     "shift", "let",     "eval",   "read", "exec",
      "mapfile", "getopts", "readarray", "unset", "command", "exit",  "builtin", "return", "trap", "coproc"};
  return is_shell_test(name) || is_quiet_builtin(name) || changes_shell(name) || declares_variables(name) ||
         holds(kNames, name);
}

bool is_changing_builtin(std::string_view name) {
  return is_shell_builtin(name) && !is_quiet_builtin(name) && !is_shell_test(name);
}

}  // namespace tidemark::formats
