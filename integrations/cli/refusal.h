#pragma once
// How a command that failed ends: the exit status of its error, and the object that takes the place of the result where
// `--format json` was asked for. main prints it for every verb; commands only return their Error.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/cli/verb.h"

namespace tidemark::cli {

[[nodiscard]] ExitStatus status_of(const Error& error);

/// `{"verdict": "REFUSED", "exit_status": N, "kind": ..., "message": ...}` and a newline. `kind` is bad_input,
/// infeasible or fault. Bytes that are not UTF-8 are shown as `\xNN`.
[[nodiscard]] std::string refusal_json(const Error& error);

/// `--format json` or `--format=json` stands in the arguments. Works where they could not be parsed, too.
[[nodiscard]] bool asks_for_json(const std::vector<std::string>& arguments);

/// The message with line breaks as blanks, other control characters and what turns the direction of text as `?`, bytes
/// that are not UTF-8 as `\xNN`: one line on stderr whatever a file held or was called.
[[nodiscard]] std::string one_line(std::string_view message);

/// one_line as it may stand in the log of a CI job: no runner takes it for a command (ci::without_commands).
[[nodiscard]] std::string log_line(std::string_view message);

}  // namespace tidemark::cli
