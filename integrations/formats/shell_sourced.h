#pragma once
// Another script that a launch script reads with `source`, as far as it only assigns.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tidemark::formats {

class ShellBudget;
class ShellVariables;
struct ShellText;

/// The text of a file by its path from the folder of the launch script; nothing: there is none that can be read.
using ReadBeside = std::function<std::optional<std::string>(const std::string& path)>;

/// The path from the script's own folder that the word behind `source` names: a relative one, or one behind
/// `$(dirname "$0")` and the like. Nothing: it lies elsewhere, or the script alone does not say where. `is_moved`:
/// `cd` is before it, and relative paths begin elsewhere.
[[nodiscard]] std::optional<std::string> path_beside(const ShellText& word, bool is_moved);

/// `$(dirname "$0")` and the like: the folder of the script, whatever folder it is started in.
[[nodiscard]] bool is_own_folder(std::string_view text);

/// Sets what a text of assignments, `export` and `: ${NAME:=value}` sets; every character of it is of `line`, where the
/// launch script reads it. False: there is anything else in it, and `variables` are as before. `at`: offset of the line
/// in the launch script, for the budget.
[[nodiscard]] bool take_assignments(std::string_view text, std::int32_t line, std::size_t at, ShellVariables& variables,
                                    ShellBudget& budget);

}  // namespace tidemark::formats
