#include "integrations/formats/shell_effects.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

bool is_one(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string without_quotes(std::string_view word) {
  std::string plain;
  for (const char c : word)
    if (c != '"' && c != '\'' && c != '\\') plain += c;
  return plain;
}

bool is_computed(std::string_view plain) {
  return plain.find_first_of("$`") != std::string_view::npos;
}

/// A word that names a variable, `NAME`, `NAME[2]` or `NAME=value`; one put together by the script may be any.
void take_name(std::string_view word, ShellEffects& effects) {
  const std::string plain = without_quotes(word);
  const std::size_t length = shell_name_length(plain);
  if (length > 0 && (length == plain.size() || plain[length] == '[' || plain[length] == '=' || plain[length] == '+')) {
    effects.names.push_back(plain.substr(0, length));
  } else if (is_computed(plain)) {
    effects.any = true;
  }
}

/// Names behind options; `with_value`: the letters of options whose value is the next word.
ShellEffects names_behind_options(std::span<const std::string_view> words, std::string_view with_value,
                                  std::string_view otherwise) {
  ShellEffects effects;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string plain = without_quotes(words[i]);
    if (plain.size() > 1 && plain.front() == '-') {
      if (with_value.find(plain.back()) != std::string_view::npos) ++i;
    } else {
      take_name(words[i], effects);
    }
  }
  if (effects.names.empty() && !effects.any && !otherwise.empty()) effects.names.emplace_back(otherwise);
  return effects;
}

ShellEffects effects_of_printf(std::span<const std::string_view> words) {
  ShellEffects effects;
  for (std::size_t i = 1; i + 1 < words.size(); ++i)
    if (words[i] == "-v") take_name(words[i + 1], effects);
  return effects;
}

/// A script of the shell's environment, by its usual name.
bool is_of_environment(std::string_view word) {
  const std::string plain = without_quotes(word);
  const std::string name = plain.substr(plain.find_last_of('/') + 1);
  constexpr std::array<std::string_view, 9> kKnown = {"set_env.sh", "setvars.sh",    "activate", "conda.sh", ".bashrc",
                                                      "bashrc",     ".bash_profile", ".profile", "profile"};
  return std::ranges::find(kKnown, name) != kKnown.end();
}

/// `eval set -- ...` renews the script's own arguments; conda and the like print what sets up the environment.
bool is_harmless_eval(std::span<const std::string_view> words) {
  if (words.size() < 2 || without_quotes(words[1]) == "set") return true;
  return std::ranges::any_of(words, [](std::string_view word) {
    return word.find("conda") != std::string_view::npos || word.find("mamba") != std::string_view::npos ||
           word.find("ssh-agent") != std::string_view::npos;
  });
}

bool assigns_at(std::string_view rest) {
  for (const std::string_view operation : {"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})
    if (rest.starts_with(operation)) return true;
  return rest.starts_with('=') && !rest.starts_with("==");
}

}  // namespace

std::size_t shell_name_length(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) return 0;
  std::size_t length = 1;
  while (length < text.size() && (starts_name(text[length]) || (text[length] >= '0' && text[length] <= '9'))) ++length;
  return length;
}

ShellEffects effects_of_builtin(std::span<const std::string_view> words) {
  if (words.empty()) return {};
  const std::string_view first = words.front();
  if (first == "read") return names_behind_options(words, "pdnNtui", "REPLY");
  if (is_one(first, {"mapfile", "readarray"})) return names_behind_options(words, "dnOsuCc", "MAPFILE");
  if (is_one(first, {"unset", "export", "declare", "local", "readonly", "typeset", "wait"}))
    return names_behind_options(words, "", "");
  if (first == "printf") return effects_of_printf(words);
  if (first == "getopts") {
    ShellEffects effects{.names = {"OPTARG", "OPTIND"}};
    if (words.size() > 2) take_name(words[2], effects);
    return effects;
  }
  if (first == "let") {
    ShellEffects effects;
    for (const std::string_view word : words.subspan(1))
      for (std::string& name : names_set_by(without_quotes(word))) effects.names.push_back(std::move(name));
    return effects;
  }
  if (is_one(first, {"source", "."})) return {.names = {}, .any = words.size() < 2 || !is_of_environment(words[1])};
  if (first == "eval") return {.names = {}, .any = !is_harmless_eval(words)};
  return {};
}

std::vector<std::string> names_set_by(std::string_view expression) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < expression.size();) {
    const std::size_t length = shell_name_length(expression.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    const std::string_view name = expression.substr(at, length);
    const std::string_view before = expression.substr(0, at);
    at += length;
    const std::size_t next = std::min(expression.find_first_not_of(kBlank, at), expression.size());
    const std::size_t last = before.find_last_not_of(kBlank);
    const std::string_view close = last == std::string_view::npos ? std::string_view{} : before.substr(0, last + 1);
    if (assigns_at(expression.substr(next)) || close.ends_with("++") || close.ends_with("--")) names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> names_given_defaults(std::string_view word) {
  std::vector<std::string> names;
  for (std::size_t at = word.find("${"); at != std::string_view::npos; at = word.find("${", at + 2)) {
    const std::string_view inner = word.substr(at + 2);
    const std::size_t length = shell_name_length(inner);
    const std::string_view rest = inner.substr(length);
    if (length > 0 && (rest.starts_with(":=") || rest.starts_with('='))) names.emplace_back(inner.substr(0, length));
  }
  return names;
}

}  // namespace tidemark::formats
