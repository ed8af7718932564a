#pragma once
// Logs of sessions as text, a line an event (docs/formats.md, "Logs of sessions"). Lines are written one by one while a
// session runs, so that the log of a run that ended in the middle can be read to there.

#include <string>
#include <string_view>

#include "core/result.h"
#include "swap/session_log.h"

namespace tidemark::formats {

/// The first lines: what the session was opened with.
[[nodiscard]] std::string write_session_log_head(Bytes host_bytes, const swap::FollowedLoop& loop);
/// One line, with its end.
[[nodiscard]] std::string write_session_event(const swap::SessionEvent& event);

/// Errors (bad_input): `file:line: what, and what would be right`.
[[nodiscard]] Result<swap::SessionLog> read_session_log(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
