#pragma once
// What must hold when a reader is given any bytes at all: one body a reader, listed once. The tests damage small inputs
// with it (input_fuzz_test), hold its corpus against the limits of docs/formats.md (reader_limits_test), and libFuzzer
// searches with it (fuzz_reader.cc, scripts/fuzz). The name of a reader is that of its folder in tests/fuzz/corpus.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/allocation_trace.h"
#include "integrations/formats/attributed_trace.h"
#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_minimalloc_csv.h"
#include "integrations/formats/interval_problem.h"
#include "planner/estimate/measured_run.h"

namespace tidemark::testing {

/// How far inputs came: places in the code behind the reader, by name.
using Reached = std::map<std::string, std::int64_t, std::less<>>;

/// What is wrong, or nothing.
using Verdict = std::optional<std::string>;

struct ReaderBody {
  std::string_view name;
  /// What is wrong with how these bytes were taken. Counts the places they reached, "accepted" or "refused" among them.
  Verdict (*run)(std::string_view bytes, Reached& reached) = nullptr;
};

[[nodiscard]] const std::vector<ReaderBody>& reader_bodies();

/// The body of a name, or nullptr.
[[nodiscard]] const ReaderBody* find_reader(std::string_view name);

/// A message is one short line, and no command to a terminal.
[[nodiscard]] Verdict check_line(std::string_view message);

/// Checks of what was read that need the code behind the readers. A fuzz target does without: it would be built from
/// most of the project. nullptr: not checked.
struct CheckedBeyond {
  Verdict (*trace)(const formats::AllocationTrace& trace, Reached& reached) = nullptr;
  Verdict (*attributed)(const formats::AttributedTrace& run, Reached& reached) = nullptr;
  Verdict (*pack)(std::string_view bytes, const formats::IntervalTable& table, const formats::IntervalProblem& problem,
                  Reached& reached) = nullptr;
  /// Counts "accepted" or "refused" itself: the second half of reading arguments is in planner/estimate.
  Verdict (*arguments)(const formats::ArgumentFile& file, Reached& reached) = nullptr;
  Verdict (*runs)(const std::vector<estimate::MeasuredRun>& runs, Reached& reached) = nullptr;
};
[[nodiscard]] CheckedBeyond& checked_beyond();

}  // namespace tidemark::testing
