#pragma once
// Options to add to a launch script or to change in it, as values.

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/argument_table.h"

namespace tidemark::estimate {

struct Flag {
  std::string name;   ///< as the table has it, without dashes
  std::string value;  ///< empty: a switch; items of a list with one blank between them
  friend bool operator==(const Flag&, const Flag&) = default;
};

/// `--recompute-modules mlp moe`
[[nodiscard]] std::string flag_text(const Flag& flag);

/// Both together: lists of modules are joined; nothing where they want two values of another option.
[[nodiscard]] std::optional<std::vector<Flag>> join_flags(const std::vector<Flag>& a, const std::vector<Flag>& b);

/// The arguments a script would have with these flags: one that is there takes the new value, another comes last.
[[nodiscard]] ArgumentSet with_flags(ArgumentSet set, const std::vector<Flag>& flags);

}  // namespace tidemark::estimate
