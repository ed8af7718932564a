#include "integrations/formats/shell_names.h"

#include <algorithm>
#include <array>

namespace tidemark::formats {
namespace {

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

std::size_t shell_name_length(std::string_view text) {
  if (text.empty() || !begins_name(text.front())) return 0;
  std::size_t length = 1;
  while (length < text.size() && (begins_name(text[length]) || (text[length] >= '0' && text[length] <= '9'))) ++length;
  return length;
}

bool is_shell_assignment(std::string_view text) {
  const std::size_t length = shell_name_length(text);
  return length > 0 && (text.substr(length).starts_with('=') || text.substr(length).starts_with("+="));
}

bool speaks_of_name(std::string_view text, const std::set<std::string, std::less<>>& names) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = shell_name_length(text.substr(at));
    if (length > 0 && names.contains(text.substr(at, length))) return true;
    at += std::max<std::size_t>(1, length);
  }
  return false;
}

bool is_element_assignment(std::string_view text) {
  const std::size_t length = shell_name_length(text);
  if (length == 0 || !text.substr(length).starts_with('[')) return false;
  return text.find("]=", length) != std::string_view::npos || text.find("]+=", length) != std::string_view::npos;
}

bool is_set_anew(std::string_view name) {
  constexpr std::array<std::string_view, 29> kNames = {"_",           "BASHOPTS",      "BASHPID",       "BASH_ALIASES",
                                                       "BASH_ARGC",   "BASH_ARGV",     "BASH_CMDS",     "BASH_ARGV0",
                                                       "BASH_LINENO", "BASH_SOURCE",   "BASH_SUBSHELL", "BASH_COMMAND",
                                                       "DIRSTACK",    "EPOCHREALTIME", "EPOCHSECONDS",  "EUID",
                                                       "FUNCNAME",    "GROUPS",        "HISTCMD",       "LINENO",
                                                       "OPTARG",      "OPTIND",        "PIPESTATUS",    "PPID",
                                                       "RANDOM",      "SECONDS",       "SHELLOPTS",     "SRANDOM",
                                                       "UID"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_set_outside(std::string_view name) {
  constexpr std::array<std::string_view, 31> kNames = {
      "BASH",     "BASH_VERSINFO", "BASH_VERSION", "BASH_ENV", "COLUMNS", "EDITOR",  "HISTFILE",  "HOME",
      "HOSTNAME", "HOSTTYPE",      "IFS",          "LANG",     "LINES",   "LOGNAME", "MACHTYPE",  "MAIL",
      "OLDPWD",   "OPTERR",        "OSTYPE",       "PATH",     "PS1",     "PS2",     "PS4",       "PWD",
      "REPLY",    "SHELL",         "SHLVL",        "TERM",     "TZ",      "USER",    "COMP_WORDS"};
  return std::ranges::find(kNames, name) != kNames.end() || is_set_anew(name) || name.starts_with("LC_");
}

}  // namespace tidemark::formats
