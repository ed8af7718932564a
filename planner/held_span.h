#pragma once
// When a residency holds its bytes as a picture of the step shows it. Packing asks for less: bytes that nothing touches
// before a position of the clock may be anywhere until then, while what a reader sees in memory lasts from the end of
// one step to the beginning of the next.

#include <cstdint>

#include "core/schedule.h"

namespace tidemark::plan {

/// Positions of the compute clock (core/schedule.h), half-open. The last position, 2 * compute_tasks, is the end of the
/// step: what lasts holds its bytes there too, so its `end` is one more.
struct HeldSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  [[nodiscard]] bool holds(std::int32_t clock) const { return begin <= clock && clock < end; }
  friend bool operator==(const HeldSpan&, const HeldSpan&) = default;
};

/// From the first position where it holds content before the step, to the last and beyond where it holds content behind
/// it; acquire to release otherwise. Empty where nothing is ever held.
[[nodiscard]] inline HeldSpan held_span(const Residency& residency, std::int32_t compute_tasks) {
  return {.begin = residency.full_before ? 0 : residency.acquire,
          .end = residency.full_behind ? 2 * compute_tasks + 1 : residency.release};
}

}  // namespace tidemark::plan
