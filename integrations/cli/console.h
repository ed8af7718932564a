#pragma once
// The three streams of a command: results to stdout, logs to stderr, files by output_set.h. The only place that knows
// about terminals and reads the environment (with locations.h).

#include <string_view>

#include "core/result.h"

namespace tidemark::cli {

class Console {
 public:
  /// Reads NO_COLOR and asks whether stderr is a terminal.
  Console();

  /// Silences logs and the progress bar; errors are still printed.
  void set_quiet(bool quiet);
  [[nodiscard]] bool quiet() const { return quiet_; }
  /// A progress bar may be drawn.
  [[nodiscard]] bool draws_progress() const { return terminal_ && !quiet_; }

  /// All of `text` to stdout, flushed. Errors (bad_input): it cannot be written (a full disk, a closed pipe).
  [[nodiscard]] Status print(std::string_view text) const;

  /// One line to stderr, unless quiet, by formats::printable and log_line: whatever a file is called, it begins no line
  /// of its own and no command of a CI runner.
  void note(std::string_view line) const;

 private:
  bool terminal_ = false;
  bool quiet_ = false;
};

/// As it is to stderr if it can be written; if not, the exit status has to do. Any thread, also while the process ends.
void complain(std::string_view text) noexcept;

}  // namespace tidemark::cli
