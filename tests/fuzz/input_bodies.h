#pragma once
// Valid inputs of every reader, and the words of its format: what the test damages for a second or two with the bodies
// of reader_bodies.h, and fuzz_inputs for as long as one likes, or to repeat one file.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutation.h"
#include "tests/fuzz/reader_bodies.h"

namespace tidemark::testing {

struct FuzzTarget {
  std::string_view name;
  std::string_view reader;  ///< whose body runs; empty: the one of that name
  std::vector<std::string> (*seeds)() = nullptr;
  std::vector<std::string> (*words)() = nullptr;
  /// nullptr: the body of the reader.
  Verdict (*run)(std::string_view bytes, Reached& reached) = nullptr;
  /// Every one of them must be reached by some of the damaged inputs, or the wounds do not tell what they seem to.
  std::vector<std::string_view> places;
  int rounds = 0;  ///< of the test
  Wounds wounds = Wounds::any;
};

[[nodiscard]] const std::vector<FuzzTarget>& fuzz_targets();

/// The target that carries plans out (run_body.cc).
[[nodiscard]] FuzzTarget run_target();

/// Those of measured runs (measured_body.cc).
[[nodiscard]] std::vector<FuzzTarget> measured_targets();

/// Those of step times (time_body.cc).
[[nodiscard]] std::vector<FuzzTarget> time_targets();

/// Those of what a run held, by the stacks and operators that asked for it (held_body.cc).
[[nodiscard]] std::vector<FuzzTarget> held_targets();

/// Those of the gate's own files (gate_body.cc).
[[nodiscard]] std::vector<FuzzTarget> gate_targets();

}  // namespace tidemark::testing
