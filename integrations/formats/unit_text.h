#pragma once
// Figures as people read them: one place for units, ranges of numbers, and the names of lanes and roles.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"

namespace tidemark::formats {

/// Two decimals, without the unit: for tables whose head says GiB.
[[nodiscard]] std::string gib_text(Bytes bytes);

/// `34.51 s`, `120.5 ms`, `12.3 us`, `640 ns`: the largest unit that leaves at least 1, the sign kept. 0 is `0 ms`.
[[nodiscard]] std::string duration_text(std::int64_t ns);

/// `, every plan for expert load f 1.23`, of plans that are compared; empty at a load of 1.
[[nodiscard]] std::string one_load_text(double load);

/// Milliseconds with one decimal, without the unit.
[[nodiscard]] std::string ms_text(std::int64_t ns);
/// REQUIRES: bytes > 0.
[[nodiscard]] std::string ms_per_gib_text(std::int64_t ns, Bytes bytes);

/// `1.43 M`, `717.9 B`: a count in thousands, millions or billions.
[[nodiscard]] std::string count_text(double count);

/// `1 step`, `3 steps`, `2 batches`.
[[nodiscard]] inline std::string counted_text(std::int64_t count, std::string_view what) {
  const std::string_view ending = count == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return std::to_string(count).append(" ").append(what).append(ending);
}

/// `0-3, 7, 9-10`. REQUIRES: ascending; equal neighbours are said once.
[[nodiscard]] std::string ranges_text(const std::vector<std::int32_t>& numbers);

/// A share as percent, four digits.
[[nodiscard]] std::string percent_text(double share);
/// RankFigures::worst_load_f, with up to two decimals; 0 is `no`.
[[nodiscard]] std::string any_load_text(double worst_load_f);

[[nodiscard]] std::string_view lane_text(Lane lane);
[[nodiscard]] std::string_view role_text(StorageRole role);

/// `layer 12`, or what stands for it outside layers.
[[nodiscard]] std::string layer_text(std::int32_t layer, std::string_view outside);

}  // namespace tidemark::formats
