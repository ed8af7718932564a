#pragma once
// "Did you mean ...?": the known word closest to a misspelt one.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tidemark::formats {

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours; letter case is ignored),
/// if it is near: at most a third of the longer word, and at least 1. Ties: the first candidate. O(candidates *
/// length^2).
[[nodiscard]] std::optional<std::string> find_near_miss(std::string_view word, std::span<const std::string> candidates);

}  // namespace tidemark::formats
