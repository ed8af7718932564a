#include "integrations/formats/shell_sourced.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/shell_budget.h"
#include "integrations/formats/shell_names.h"
#include "integrations/formats/shell_parser.h"
#include "integrations/formats/shell_text.h"
#include "integrations/formats/shell_variables.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

bool is_one(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

/// `export NAME=value OTHER`. Of words that are made of others in it, it says nothing.
bool take_declaration(const ShellNode& command, ShellVariables& variables) {
  std::set<std::string, std::less<>> names;
  const bool exports = variables.raw(command.words.front()) == "export";
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    const std::string_view text = variables.raw(word);
    const bool is_name = !text.empty() && shell_name_length(text) == text.size();
    if (!is_name && !is_shell_assignment(text)) return false;
    if (has_bare_alternatives(text) || (!names.empty() && speaks_of_name(text.substr(shell_name_length(text)), names)))
      return false;
    names.emplace(text.substr(0, shell_name_length(text)));
    if (!is_name) variables.assign(word, exports);
    ShellVariable& variable = variables.declared(std::string(text.substr(0, shell_name_length(text))));
    variable.exported |= exports;
    variable.is_readonly |= !exports;
  }
  return true;
}

/// False: it is none of what only assigns or only says something.
bool take(const ShellNode& command, ShellVariables& variables) {
  if (command.kind != ShellNode::Kind::simple || command.is_background || !command.redirections.empty()) return false;
  const std::string_view first = variables.raw(command.words.front());
  if (is_one(first, {"export", "readonly"})) return take_declaration(command, variables);
  if (is_one(first, {"echo", "ulimit", "true", ":"})) {
    for (const ShellWord& word : command.words) (void)variables.expand(word);
    return true;
  }
  if (!std::ranges::all_of(command.words,
                           [&](const ShellWord& word) { return is_shell_assignment(variables.raw(word)); }))
    return false;
  for (const ShellWord& word : command.words) variables.assign(word, false);
  return true;
}

bool is_ended(const ShellUnended& unended) {
  for (const std::size_t at :
       {unended.quote, unended.bracket, unended.array, unended.here_document, unended.parenthesis})
    if (at != std::string_view::npos) return false;
  return true;
}

}  // namespace

bool is_own_folder(std::string_view text) {
  if (!text.starts_with("$(") || !text.ends_with(')')) return false;
  for (std::size_t slash = text.find('/'); slash != std::string_view::npos; slash = text.find('/', slash + 1)) {
    if (!text.substr(slash).starts_with("/dev/null")) return false;  // a folder beside it
    slash += 4;
  }
  return text.find("dirname") != std::string_view::npos && text.find("..") == std::string_view::npos &&
         (text.find("$0") != std::string_view::npos || text.find("BASH_SOURCE") != std::string_view::npos);
}

std::optional<std::string> path_beside(const ShellText& word, bool is_moved) {
  const std::string& text = word.characters;
  if (!word.assumed.empty()) return std::nullopt;
  if (!word.unresolved) {
    const bool is_elsewhere = is_moved || text.empty() || text.starts_with('/') || text.starts_with('~');
    return is_elsewhere ? std::nullopt : std::optional(text);
  }
  const std::size_t slash = text.rfind(")/");
  if (slash == std::string::npos || !text.starts_with("$(")) return std::nullopt;
  std::string path = text.substr(slash + 2);
  if (!is_own_folder(std::string_view(text).substr(0, slash + 1)) || path.empty() ||
      path.find_first_of("$`") != std::string::npos)
    return std::nullopt;
  return path;
}

bool take_assignments(std::string_view text, std::int32_t line, std::size_t at, ShellVariables& variables,
                      ShellBudget& budget) {
  if (!require_utf8(text, "").ok()) return false;
  constexpr std::size_t kStepsOfFile = 1024;
  budget.spend_steps(kStepsOfFile + text.size() + variables.held_characters(), at);
  if (budget.is_spent()) return false;
  ShellBudget own;
  ShellVariables inner(text, own);
  inner.take_over(variables);
  const ShellTree tree = parse_shell(text);
  if (!is_ended(tree.unended) || !tree.unparsed.empty()) return false;
  const bool is_taken =
      std::ranges::all_of(tree.root.children, [&](const ShellNode& command) { return take(command, inner); }) &&
      inner.problems().empty();
  budget.spend_characters(own.characters(), at);
  budget.spend_steps(own.steps(), at);
  for (const ShellVariables::Problem& problem : inner.problems()) variables.note_problem(line, problem.what);
  if (!is_taken || budget.is_spent() || own.is_spent()) return false;
  inner.move_to_line(line, variables);
  variables.take_over(inner);
  return true;
}

}  // namespace tidemark::formats
