#pragma once
// One switch of a job and what the step takes with it off and on, everything else the same.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/bytes.h"

namespace tidemark::prices {

/// The model whose published figures are its own (models/pangu-ultra-moe-718b.yaml).
inline constexpr std::string_view kPanguModel = "pangu-ultra-moe-718b";

/// How a line's two steps were come by; lines of one basis compare with each other.
enum class Basis : std::uint8_t {
  ops,     ///< every op of every rank simulated
  passes,  ///< whole passes of chunks played in order, messages beside them; nothing of the end of the step
};

/// With everything kept: nothing is recomputed, swapped or offloaded beyond what the switch says. Modelled.
struct SwitchSide {
  std::string setting;       ///< e.g. "2 chunks"
  std::int64_t step_ns = 0;  ///< of all ranks
  Bytes peak_bytes = 0;      ///< of the rank with most: reserves, state and what is alive at its peak
  Bytes host_bytes = 0;      ///< a device's share of host memory, of what the switch puts there
  double bubble_share = 0;   ///< of the step, that a mean rank waits for others
};

/// A published figure of the same switch.
struct PublishedPrice {
  std::string_view text;
  std::string_view source;
};

struct SwitchPrice {
  std::string_view name;
  Basis basis = Basis::ops;
  std::optional<SwitchSide> off, on;  ///< both or neither
  std::string why_not;                ///< it does not apply to this job because of that; empty where it does
  std::string_view constant;          ///< where the numbers behind the difference come from
  std::string note;                   ///< what else to know; may be empty
  std::optional<PublishedPrice> published;

  /// Of the step without it, in percent; negative where it costs time. REQUIRES: off and on.
  [[nodiscard]] double gain_percent() const {
    const auto without = static_cast<double>(off->step_ns);
    return without > 0 ? 100.0 * (without - static_cast<double>(on->step_ns)) / without : 0;
  }
};

}  // namespace tidemark::prices
