#pragma once
// How a run ends on an exception that nobody was to throw: one line on stderr, with `--format json` the refusal on
// stdout, and a status. Memory may be short, other threads may be ending as well, and static objects may be gone.

namespace tidemark::cli {

/// Whatever ends in std::terminate from now on ends so. `json`: `--format json` is asked for. Call it first in main.
void expect_last_exception(bool json);

/// Tells the exception being handled and ends the process: status 2 where memory or threads are short, 3 for all else.
/// The first thread that comes here has the word, others wait for the end; what the telling itself throws changes no
/// status.
[[noreturn]] void end_on_exception() noexcept;

}  // namespace tidemark::cli
