#pragma once
// What a launch script would start: read, not run. Private to formats.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/shell_sourced.h"
#include "integrations/formats/shell_text.h"

namespace tidemark::formats {

struct ShellScript {
  struct Variable {
    std::string name;
    ShellText value;
    bool exported = false;
  };
  std::vector<ShellText> launcher;   ///< words before the Python script: torchrun and its options
  std::string program;               ///< the Python script, or empty: only variables with options were found
  std::vector<ShellText> arguments;  ///< words behind it
  std::vector<Variable> variables;   ///< scalars where it is started, ascending by name
  /// Options of the arguments' variables that count only where a condition holds that the script does not decide.
  std::vector<ShellText> doubts;
  /// What leaves a doubt about all of it: another training that the script starts, or may start (only the one with the
  /// most options is looked at), or something that is not followed as a shell would.
  struct Unread {
    std::int32_t line = 0;
    std::string what;
  };
  std::vector<Unread> unread;
  std::vector<std::string> notes;  ///< what was left out, each with `file:line: `
  std::size_t characters = 0;      ///< what its words came to, of kMostShellCharacters (shell_budget.h)
  std::size_t steps = 0;           ///< what else was looked at, of kMostShellSteps
};

/// Follows commands as bash would run them, as far as the script alone decides: subshells, pipelines, functions,
/// prefixes, `if`, `case`, tests and sums. Loops and what depends on unknown variables are left out with a note, and
/// what they, `read`, the status of commands and the like may set has no value behind them (ShellText::lost_line). A
/// script that `source` reads is followed where `read_beside` has it and it only assigns; any other may set every
/// variable: those the script sets have no value, of others a default is taken and marked (ShellText::assumed). Loops
/// over the script's own arguments do not run: it is taken to have none, and `$@` has no value but what `set --` gives
/// it. Where `unread` and `doubts` are empty, an argument that is known (ShellText::is_known) is the one bash hands
/// over. Of several Python commands one that trains counts before others, then the one with the most options. Errors
/// (bad_input): a text that is not UTF-8; no options anywhere; more work than shell_budget.h allows, `file:line:
/// expands to more than ...`.
[[nodiscard]] Result<ShellScript> read_shell_script(std::string_view text, std::string_view file_name,
                                                    const ReadBeside& read_beside = {});

}  // namespace tidemark::formats
