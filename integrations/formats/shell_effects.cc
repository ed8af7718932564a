#include "integrations/formats/shell_effects.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "integrations/formats/shell_lexer.h"
#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

bool is_one(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
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

/// Conda and the like print what sets up the environment.
bool sets_up_environment(std::string_view word) {
  if (without_quotes(word) == "$__conda_setup") return true;
  const bool is_output = word.find("$(") != std::string_view::npos || word.find('`') != std::string_view::npos;
  return is_output && word.find('=') == std::string_view::npos &&
         (word.find("conda") != std::string_view::npos || word.find("mamba") != std::string_view::npos ||
          word.find("ssh-agent") != std::string_view::npos);
}

/// `eval set -- ...` renews the script's own arguments.
bool is_harmless_eval(std::span<const std::string_view> words) {
  if (words.size() < 2 || without_quotes(words[1]) == "set") return true;
  return words.size() == 2 && sets_up_environment(words[1]);
}

bool assigns_at(std::string_view rest) {
  for (const std::string_view operation : {"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})
    if (rest.starts_with(operation)) return true;
  return rest.starts_with('=') && !rest.starts_with("==");
}

void merge(ShellEffects more, ShellEffects& effects) {
  std::ranges::move(more.names, std::back_inserter(effects.names));
  effects.any |= more.any;
}

/// One past the `]` of a subscript at `at`.
std::size_t end_of_subscript(std::string_view text, std::size_t at) {
  int level = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '[') ++level;
    if (text[at] == ']' && --level == 0) return at + 1;
  }
  return text.size();
}

/// The same of every `[` in it, by its place, in one pass; empty where there is none.
std::vector<std::size_t> ends_of_subscripts(std::string_view text) {
  std::vector<std::size_t> ends, open;
  if (text.find('[') == std::string_view::npos) return ends;
  ends.assign(text.size(), text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') open.push_back(at);
    if (text[at] != ']' || open.empty()) continue;
    ends[open.back()] = at + 1;
    open.pop_back();
  }
  return ends;
}

}  // namespace

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
    for (const std::string_view word : words.subspan(1)) merge(effects_of_arithmetic(without_quotes(word)), effects);
    return effects;
  }
  if (is_one(first, {"source", "."})) return {.names = {}, .any = words.size() < 2 || !is_of_environment(words[1])};
  if (first == "eval") return {.names = {}, .any = !is_harmless_eval(words)};
  return {};
}

ShellEffects effects_of_arithmetic(std::string_view expression) {
  ShellEffects effects;
  const std::vector<std::size_t> subscripts = ends_of_subscripts(expression);
  for (std::size_t at = 0; at < expression.size();) {
    const std::size_t length = shell_name_length(expression.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    const std::string_view name = expression.substr(at, length);
    const std::string_view before = expression.substr(0, at);
    const bool braced = before.ends_with("${");
    const bool is_text = braced || before.ends_with('$');
    at += length;
    std::size_t behind = at;
    if (braced && behind < expression.size() && expression[behind] == '}') ++behind;
    if (!is_text && behind < expression.size() && expression[behind] == '[') behind = subscripts[behind];
    const std::size_t next = std::min(expression.find_first_not_of(kBlank, behind), expression.size());
    const std::string_view sign = is_text ? before.substr(0, before.size() - (braced ? 2 : 1)) : before;
    const std::size_t last = sign.find_last_not_of(kBlank);
    const std::string_view close = last == std::string_view::npos ? std::string_view{} : sign.substr(0, last + 1);
    const bool sets = assigns_at(expression.substr(next)) || close.ends_with("++") || close.ends_with("--");
    if (sets && is_text) effects.any = true;
    if (sets && !is_text) effects.names.emplace_back(name);
  }
  return effects;
}

ShellEffects effects_of_expansion(std::string_view word) {
  ShellEffects effects;
  for (std::size_t at = word.find('$'); at != std::string_view::npos; at = word.find('$', at + 1)) {
    const std::string_view rest = word.substr(at + 1);
    if (rest.starts_with("((") || rest.starts_with('[')) {
      const std::size_t end = rest.starts_with('[') ? at + 1 + end_of_subscript(rest, 0) : end_of_shell_unit(word, at);
      merge(effects_of_arithmetic(word.substr(at, end - at)), effects);
      at = std::max(at, std::min(end, word.size()) - 1);
      continue;
    }
    if (!rest.starts_with('{')) continue;
    constexpr std::size_t kLongest = 256;  // of a name with its subscript
    const std::string_view inner = rest.substr(1, kLongest);
    const std::size_t length = shell_name_length(inner);
    const std::string_view behind = inner.substr(length);
    if (length > 0 && (behind.starts_with(":=") || behind.starts_with('='))) {
      effects.names.emplace_back(inner.substr(0, length));
    } else if (inner.starts_with('!') && inner.substr(0, inner.find('}')).find('=') != std::string_view::npos) {
      effects.any = true;
    } else if (behind.starts_with('[') || (behind.starts_with(':') && behind.size() > 1 &&
                                           std::string_view("-+?=").find(behind[1]) == std::string_view::npos)) {
      merge(effects_of_arithmetic(inner.substr(0, std::min(inner.find('}'), inner.size()))), effects);
    }
  }
  return effects;
}

}  // namespace tidemark::formats
