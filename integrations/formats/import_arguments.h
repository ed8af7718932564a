#pragma once
// The arguments of a Megatron-LM or MindSpeed-LLM job out of what a user has: the launch shell script, or a map of
// arguments as YAML or JSON. Nothing is executed. docs/formats.md describes the forms.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/shell_sourced.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::formats {

struct ArgumentFile {
  estimate::ArgumentSet set;
  estimate::RunHints hints;        ///< what the file itself says: the framework, the script, the number of devices
  std::vector<std::string> notes;  ///< what was left out, each with `file:line: `
  /// What was left out and would have said the number of devices: moot where something else says it.
  std::vector<std::string> device_notes;
  /// Why the number of devices is not known, `file:line: what`: an error where nothing else says it. Empty: it is
  /// known.
  std::string device_problem;
};

/// The form is told by the file's extension (.sh, .bash, .yaml, .yml, .json), otherwise by its text. Errors
/// (bad_input): one line `file:line: what, and what would be right`.
/// `read_beside`: where a launch script reads others; without it none is read.
[[nodiscard]] Result<ArgumentFile> read_arguments(std::string_view text, std::string_view file_name,
                                                  const ReadBeside& read_beside = {});

/// ` (did you mean --num-layers?)`, or nothing.
[[nodiscard]] std::string argument_hint(std::string_view name);

}  // namespace tidemark::formats
