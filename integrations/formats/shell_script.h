#pragma once
// What a launch script would start: read, not run. Private to formats.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
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
  std::vector<Variable> variables;   ///< scalars at the end of the script, ascending by name
  std::vector<std::string> notes;    ///< what was left out, each with `file:line: `
};

/// Follows assignments and decided `if`s; loops, case and what depends on unknown variables are left out with a note.
/// Of several Python commands the one with the most options counts. Errors (bad_input): no options anywhere; a variable
/// that grows without end.
[[nodiscard]] Result<ShellScript> read_shell_script(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
