#include "integrations/cli/completion_script.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>

#include "integrations/cli/options.h"

namespace tidemark::cli {
namespace {

CompletedOption completed(const CLI::Option& option) {
  CompletedOption result{.help = option.get_description(), .words = words_of(option), .listed = listed_kind_of(option)};
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  if (option.get_items_expected_max() > 0) result.type = option.get_type_name();
  result.is_repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  result.takes_file = result.words.empty() && result.type.find("FILE") != std::string::npos;
  return result;
}

CompletedVerb completed(const Verb& verb) {
  CompletedVerb result{.name = std::string(verb.name), .summary = std::string(verb.summary)};
  const std::unique_ptr<Command> command = verb.make();
  CLI::App app;
  bool quiet = false;
  command->declare(app);
  add_common_options(app, quiet);
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); }))
    (option->get_positional() ? result.positionals : result.options).push_back(completed(*option));
  return result;
}

/// Words that stand for options, with blanks between.
std::string joined_names(const CompletedVerb& verb) {
  std::string text;
  for (const CompletedOption& option : verb.options)
    for (const std::string& name : option.names) text += (text.empty() ? "" : " ") + name;
  return text;
}

// ---- bash -----------------------------------------------------------------------------------------------------------

/// What completes the value of one option or positional.
std::string bash_value(const CompletedOption& option) {
  if (!option.words.empty()) return fmt::format("words='{}'", fmt::join(option.words, " "));
  const std::string names = option.listed.empty() ? "" : "listed=" + option.listed;
  if (!option.takes_file) return names.empty() ? ":" : names;
  return names.empty() ? "files=1" : names + " files=1";
}

void add_bash_verb(std::string& script, const CompletedVerb& verb) {
  fmt::format_to(std::back_inserter(script), "    {})\n      options='{}'\n      case $before in\n", verb.name,
                 joined_names(verb));
  for (const CompletedOption& option : verb.options)
    if (!option.type.empty())
      fmt::format_to(std::back_inserter(script), "        {}) {}; value=1 ;;\n", fmt::join(option.names, "|"),
                     bash_value(option));
  script += "      esac\n";
  // A positional may stand anywhere, so the first that has something to offer does.
  for (const CompletedOption& positional : verb.positionals)
    if (positional.takes_file || !positional.words.empty()) {
      fmt::format_to(std::back_inserter(script), "      ((value)) || {}\n", bash_value(positional));
      break;
    }
  script += "      ;;\n";
}

// ---- zsh ------------------------------------------------------------------------------------------------------------

/// As it may stand in a specification of _arguments within single quotes.
std::string zsh_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else if (std::string_view("[]:\\").find(c) != std::string_view::npos)
      quoted += std::string("\\") + c;
    else
      quoted += c;
  }
  return quoted;
}

/// Words before a file: `json=` and then its name, without a blank between.
bool begins_with_words(const CompletedOption& option) {
  return !option.words.empty() && option.words.front().ends_with('=');
}

std::string zsh_action(const CompletedOption& option) {
  if (begins_with_words(option))
    return fmt::format("{{ if compset -P \"*=\"; then _files; else compadd -S \"\" -- {}; fi }}",
                       fmt::join(option.words, " "));
  if (!option.words.empty()) return fmt::format("({})", fmt::join(option.words, " "));
  if (option.listed.empty()) return option.takes_file ? "_files" : " ";
  return fmt::format("{{ _tidemark_names {}{} }}", option.listed, option.takes_file ? "; _files" : "");
}

void add_zsh_verb(std::string& script, const CompletedVerb& verb) {
  fmt::format_to(std::back_inserter(script), "    {})\n      _arguments", verb.name);
  for (const CompletedOption& option : verb.options)
    for (const std::string& name : option.names) {
      const std::string value =
          option.type.empty() ? "" : fmt::format(":{}:{}", zsh_text(option.type), zsh_action(option));
      fmt::format_to(std::back_inserter(script), " \\\n        '{}{}[{}]{}'", option.is_repeatable ? "*" : "", name,
                     zsh_text(option.help), value);
    }
  for (const CompletedOption& positional : verb.positionals)
    fmt::format_to(std::back_inserter(script), " \\\n        ':{}:{}'", zsh_text(positional.type),
                   zsh_action(positional));
  script += "\n      ;;\n";
}

}  // namespace

std::vector<CompletedVerb> completed_verbs(std::span<const Verb> verbs) {
  std::vector<CompletedVerb> result;
  for (const Verb& verb : verbs) result.push_back(completed(verb));
  return result;
}

std::string bash_completion(const std::vector<CompletedVerb>& verbs) {
  std::string names;
  for (const CompletedVerb& verb : verbs) names += (names.empty() ? "" : " ") + verb.name;
  std::string script =
      R"(# Completion of tidemark for bash, by `tidemark completion bash`. Source it, or put it as `tidemark` into
# share/bash-completion/completions.
# Names that the program gives now; of jobs those of a budget file on the line, else of the one that is found.
_tidemark_names() {
  local program=${COMP_WORDS[0]/#\~/$HOME} word
  if [[ $1 == jobs ]]; then
    for word in "${COMP_WORDS[@]:2}"; do
      [[ $word == *.y*ml && -f $word ]] && "$program" list jobs "$word" --names 2>/dev/null && return
    done
  fi
  "$program" list "$1" --names 2>/dev/null
}
_tidemark() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  local options='' words='' listed='' files=0 value=0 name
  # To bash, `--format=json` is three words.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $before == '=' ]] && ((COMP_CWORD >= 2)); then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W ')" +
      names + R"( help --help --version' -- "$current")
    return
  fi
  case $verb in
    help) ((COMP_CWORD == 2)) && words=')" +
      names + R"(' ;;
)";
  for (const CompletedVerb& verb : verbs) add_bash_verb(script, verb);
  return script + R"(  esac
  if ((!value)) && [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    # A file follows behind `json=`.
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return
  fi
  # Of files, too, bash quotes what a name holds.
  [[ -n $listed ]] || ((files)) && compopt -o filenames 2>/dev/null
  if [[ -n $listed ]]; then
    while IFS= read -r name; do
      [[ $name == "$current"* ]] && COMPREPLY+=("$name")
    done < <(_tidemark_names "$listed")
  fi
  ((files)) && mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
  return 0
}
complete -F _tidemark tidemark
)";
}

std::string zsh_completion(const std::vector<CompletedVerb>& verbs) {
  std::string script = R"zsh(#compdef tidemark
# Completion of tidemark for zsh, by `tidemark completion zsh`. Put it as `_tidemark` into a folder of fpath, or source it
# behind compinit.
# Names that the program gives now; of jobs those of a budget file on the line, else of the one that is found.
_tidemark_names() {
  local word
  local -a names
  if [[ $1 == jobs ]]; then
    for word in $words[2,-1]; do
      [[ $word == *.y*ml && -f $word ]] && names=(${(f)"$($program list jobs $word --names 2>/dev/null)"})
      (($#names)) && break
    done
  fi
  (($#names)) || names=(${(f)"$($program list $1 --names 2>/dev/null)"})
  compadd -a names
}
_tidemark() {
  local -a verbs=(
)zsh";
  for (const CompletedVerb& verb : verbs)
    fmt::format_to(std::back_inserter(script), "    '{}:{}'\n", verb.name, zsh_text(verb.summary));
  script += R"(    'help:Explain a verb'
  )
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  local verb=$words[2] program=${~words[1]}
  shift words
  ((CURRENT--))
  case $verb in
    help) ((CURRENT == 2)) && _describe verb verbs ;;
)";
  for (const CompletedVerb& verb : verbs) add_zsh_verb(script, verb);
  return script + R"(  esac
}
if [[ $funcstack[1] == _tidemark ]]; then
  _tidemark "$@"
else
  compdef _tidemark tidemark
fi
)";
}

}  // namespace tidemark::cli
