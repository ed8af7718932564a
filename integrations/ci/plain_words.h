#pragma once
// Words of a budget file that stand in every report, and in the log of a CI job: they may not act there.

#include <optional>
#include <string>
#include <string_view>

namespace tidemark::ci {

/// Why these words cannot be shown as they are: `has control characters; write it on one line`. Nothing: they can.
/// Refused are words that show nothing (blanks, characters without width), controls and ends of lines, characters that
/// turn the direction of what stands beside them (Unicode's bidirectional embeddings, overrides and isolates), and what
/// a runner of GitHub Actions takes for a command: `::` at the beginning, `##[` anywhere (actions/runner,
/// src/Runner.Common/ActionCommand.cs).
[[nodiscard]] std::optional<std::string_view> unfit_words(std::string_view text);
/// The same of words that are shown by formats::printable, and so may have controls and ends of lines.
[[nodiscard]] std::optional<std::string_view> unfit_text(std::string_view text);

/// Every line of a log as it is, but for one that a runner would take for a command: a backslash stands before it.
[[nodiscard]] std::string without_commands(std::string_view log);

}  // namespace tidemark::ci
