#pragma once
// What must hold for any bytes at all. One body a format, shared by the test, which damages small inputs for a second
// or two, and by fuzz_inputs, which does so for as long as one likes or repeats one file.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::testing {

struct FuzzTarget {
  std::string_view name;
  std::vector<std::string> (*seeds)();
  std::vector<std::string> (*words)();
  /// What is wrong with how the reader took these bytes, or nothing. Sets `accepted` where it read a value.
  std::optional<std::string> (*run)(std::string_view bytes, bool& accepted);
};

[[nodiscard]] const std::vector<FuzzTarget>& fuzz_targets();

}  // namespace tidemark::testing
