// export, declare, local, readonly, typeset, unset.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "integrations/formats/shell_builtins.h"
#include "integrations/formats/shell_follower.h"
#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

bool has(std::string_view flags, char flag) {
  return flags.find(flag) != std::string_view::npos;
}

}  // namespace

void ShellFollower::declare(const Command& command) {
  const std::string_view first = command.name;
  std::string flags;
  bool takes_flags = true;
  status_ = {};
  if (first == "local" && frames_.empty()) {  // an error outside of functions
    lose_expansions(command.words);
    status_ = {.truth = false};
    return;
  }
  doubt_order(command.words);
  for (const ShellWord& word : command.words.subspan(1)) {
    const std::string_view text = variables_.raw(word);
    if (takes_flags && text == "--") {
      takes_flags = false;
    } else if (takes_flags && text.starts_with('-') && is_plain_shell_word(text)) {
      flags += text.substr(1);
    } else if (takes_flags && text.starts_with('+')) {
      doubt(word.begin, fmt::format("`{} {}` is not followed", first, text));
    } else if (has(flags, 'p') || has(flags, 'f') || has(flags, 'F')) {
      lose_expansions({&word, 1});
      status_ = {.truth = std::nullopt};
    } else {
      declare_name(word, first, flags);
      if (shell_name_length(text) == 0) lose_declared(command.words);
    }
  }
  constexpr std::string_view kKnown = "aAfFgiIlnprtux";
  if (flags.find_first_not_of(kKnown) == std::string::npos) return;
  doubt(command.words.front().begin, fmt::format("an option of `{}` is not known", first));
}

/// All words are replaced before the first of them assigns, and alternatives in braces make several of one.
void ShellFollower::doubt_order(Words words) {
  std::set<std::string, std::less<>> names;
  for (const ShellWord& word : words.subspan(1)) {
    const std::string_view text = variables_.raw(word);
    budget_.spend_steps(text.size(), word.begin);
    if (has_bare_alternatives(text)) doubt(word.begin, "alternatives in braces are not followed here");
    const auto reads = [&](const ShellWord& one) {
      const std::string_view raw = variables_.raw(one);
      return raw.find_first_of("$`") != std::string_view::npos && speaks_of_name(raw, names);
    };
    if (!names.empty() && (reads(word) || std::ranges::any_of(word.items, reads)))
      doubt(word.begin, "this is made of what the same command sets, which is not followed");
    const std::size_t length = shell_name_length(text);
    if (length > 0) names.emplace(text.substr(0, length));
    if (variables_.raw(words.front()) != "let") continue;
    for (std::string& name : effects_of_arithmetic(text).names) names.insert(std::move(name));
  }
}

/// Behind `command` and the like a word of `export` is cut at blanks as any other is.
void ShellFollower::doubt_cut(Words words) {
  if (!declares_variables(variables_.raw(words.front()))) return;
  for (const ShellWord& word : words.subspan(1))
    if (find_bare(variables_.raw(word), "$`*?[") != std::string_view::npos)
      doubt(word.begin, "how this word is cut is not followed");
}

/// `NAME` or `NAME=value`.
void ShellFollower::declare_name(const ShellWord& word, std::string_view first, const std::string& flags) {
  const std::string_view text = variables_.raw(word);
  const std::string name(text.substr(0, shell_name_length(text)));
  const std::int32_t line = variables_.line_at(word.begin);
  if (name.empty()) return;
  const bool assigns = is_shell_assignment(text);
  const bool exports = first == "export";
  if (!assigns && name.size() != text.size()) {  // an item, or no name
    lose_expansions({&word, 1});
    return variables_.lose(name, line);
  }
  if (is_set_before_call(name)) {
    doubt(word.begin, fmt::format("what `{}` makes of {}, which is set before the call, is not followed", first, name));
    lose_expansions({&word, 1});
    return variables_.lose(name, line);
  }
  const bool is_own = !exports && first != "readonly" && !has(flags, 'g') && !frames_.empty();
  if (has(flags, 'g') && is_hidden(name)) {
    doubt(word.begin, fmt::format("which {} this sets is not followed", name));
    lose_expansions({&word, 1});
    return variables_.lose(name, line);
  }
  const bool is_fresh = is_own && !frames_.back().contains(name);
  if (is_own) hide(name, word.begin, true);
  if (is_fresh && (!assigns || text[name.size()] == '+')) {
    const bool exported = variables_.declared(name).exported;  // what is hidden is handed on, too
    variables_.unset(name, line);
    variables_.declared(name).exported = exported;
  }
  if (is_fresh && assigns) {
    ShellVariable& own = variables_.declared(name);
    own.is_integer = own.is_changed = own.is_readonly = own.is_array = false;
  }
  if (!exports) declare_as(name, flags, word.begin);
  const bool was_array = variables_.declared(name).is_array;
  if (assigns) {
    variables_.assign(word, exports && !has(flags, 'n'));
    if ((was_array && !word.is_array) || has(flags, 'A') || (is_fresh && text[name.size()] == '+'))
      variables_.lose(name, line);
  }
  ShellVariable& variable = variables_.declared(name);
  if (exports) variable.exported = !has(flags, 'n');
  if (has(flags, 'x')) variable.exported = true;
  if (first == "readonly" || (has(flags, 'r') && !exports)) variable.is_readonly = true;
}

/// What the flags say of how it takes values from here on.
void ShellFollower::declare_as(const std::string& name, const std::string& flags, std::size_t at) {
  ShellVariable& variable = variables_.declared(name);
  if (has(flags, 'i')) variable.is_integer = true;
  if (flags.find_first_of("luIA") != std::string::npos) variable.is_changed = true;
  if (has(flags, 'a') || has(flags, 'A')) variable.is_array = true;
  if (has(flags, 'I')) doubt(at, "`local -I` is not followed");
  if (!has(flags, 'n')) return;
  doubt(at, fmt::format("{} may stand for another variable from here on", name));
  variables_.lose_all(variables_.line_at(at), at);
}

/// Declarations that are not followed: names in quotes or put together by the script.
void ShellFollower::lose_declared(Words words) {
  const std::vector<std::string_view> raw = raw_of(words);
  lose(effects_of_builtin(raw), words.front().begin);
}

void ShellFollower::run_unset(const Command& command) {
  std::string flags;
  status_ = {};
  for (const ShellWord& word : command.words.subspan(1)) {
    const std::string_view text = variables_.raw(word);
    const std::string name(text.substr(0, shell_name_length(text)));
    const std::int32_t line = variables_.line_at(word.begin);
    if (text.starts_with('-')) {
      flags += text.substr(1);
      if (has(text, 'n')) doubt(word.begin, "`unset -n` is not followed");
    } else if (name.empty() || name.size() != text.size()) {
      lose_declared(command.words);
      if (!functions_.empty()) doubt(word.begin, "what `unset` takes away here is not followed");
    } else if (has(flags, 'f') || (!has(flags, 'v') && functions_.contains(name) && !variables_.all().contains(name))) {
      functions_.erase(name);
    } else if (is_set_before_call(name) || (is_hidden(name) && !frames_.back().contains(name))) {
      doubt(word.begin, fmt::format("which {} this takes away is not followed", name));
      variables_.lose(name, line);
    } else {
      variables_.unset(name, line);
    }
  }
}

}  // namespace tidemark::formats
