#pragma once
// Which rows a row is never judged by: folds of split keys, so that near-copies of a run stay together.

#include <string_view>

namespace tidemark::step_time {

inline constexpr int kFolds = 5;

/// 0 to 4: FNV-1a of 64 bits over the bytes of "fold" and the key, modulo five. The same on every machine and in every
/// order of rows, and short to write again in a script.
[[nodiscard]] int fold_of(std::string_view split_key);

}  // namespace tidemark::step_time
