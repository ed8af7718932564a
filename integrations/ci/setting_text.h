#pragma once
// A line of a job as key and value, and whether two of them say the same. Pure.

#include <string>
#include <string_view>

namespace tidemark::ci {

/// `model.layers: 61`, `training.steps = 9`, `--num-layers 61`, `CUBLAS_WORKSPACE_CONFIG=:4096:8`.
struct Setting {
  std::string_view key, value;  ///< of the text
};
[[nodiscard]] Setting setting_of(std::string_view text);

/// The same text for the same key and value: mappings in the order of their keys, numbers by their value, blanks
/// between parts left out. `layers: {moe: 7, dense: 1}` is `layers: {dense: 1, moe: 7}`, and 0.10 is 0.1.
[[nodiscard]] std::string canonical_text(std::string_view text);

}  // namespace tidemark::ci
