#pragma once
// What a seeded schedule (device/sim_world.h) leaves to chance. Seed 0, the nominal schedule, draws nothing.
// Same seed and calls, same answers. Threads: the caller serialises.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "device/sim_world.h"

namespace tidemark {

class SimChance {
 public:
  explicit SimChance(const SimSchedule& schedule) : schedule_(schedule), state_(schedule.seed) {}

  [[nodiscard]] bool nominal() const { return schedule_.seed == 0; }
  /// Among what is due at the same time the lowest key goes first.
  [[nodiscard]] std::uint32_t key_of(std::uint32_t stream) {
    return nominal() ? stream : static_cast<std::uint32_t>(draw());
  }
  /// Of `count` that wait in line, who is next. REQUIRES: count > 0.
  [[nodiscard]] std::size_t pick(std::size_t count) { return nominal() ? 0 : draw() % count; }
  /// How long work that nominally takes `ns` takes this time.
  [[nodiscard]] std::int64_t stretched(std::int64_t ns) {
    if (nominal()) return ns;
    const double factor = schedule_.shortest * std::pow(schedule_.longest / schedule_.shortest, draw_unit());
    auto result = std::llround(static_cast<double>(ns) * factor);
    if (draw_unit() < schedule_.stall_probability)
      result += std::llround(static_cast<double>(schedule_.stall_ns) * draw_unit());
    return result;
  }
  /// REQUIRES: not nominal.
  [[nodiscard]] bool host_pauses() { return draw_unit() < schedule_.host_pause_probability; }

 private:
  [[nodiscard]] std::uint64_t draw() {  // a counter through a mixer: any seed is a good one
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15ULL;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    return x ^ x >> 31;
  }
  [[nodiscard]] double draw_unit() { return static_cast<double>(draw() >> 11) * 0x1p-53; }

  SimSchedule schedule_;
  std::uint64_t state_;
};

}  // namespace tidemark
