#pragma once
// What must hold for any bytes at all. One body a format, shared by the test, which damages small inputs for a second
// or two, and by fuzz_inputs, which does so for as long as one likes or repeats one file.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutation.h"

namespace tidemark::testing {

/// How far inputs came: places in the code behind the reader, by name.
using Reached = std::map<std::string, std::int64_t, std::less<>>;

struct FuzzTarget {
  std::string_view name;
  std::vector<std::string> (*seeds)();
  std::vector<std::string> (*words)();
  /// What is wrong with how these bytes were taken, or nothing. Counts the places they reached.
  std::optional<std::string> (*run)(std::string_view bytes, Reached& reached);
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

}  // namespace tidemark::testing
