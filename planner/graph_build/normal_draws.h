#pragma once
// Normal draws that are the same on every platform: SplitMix64, seeded.

#include <cmath>
#include <cstdint>

namespace tidemark::graph_build {

class NormalDraws {
 public:
  explicit NormalDraws(std::uint64_t seed) : state_(seed) {}

  double normal() {
    // Box-Muller; the second value is dropped to keep one call one draw.
    const double u = (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53;
    const double v = (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }
  /// Nearly normal: four 16-bit uniforms of one draw, centred and scaled to variance 1 (Irwin-Hall). For what is summed
  /// over dozens of sites anyway.
  double nearly_normal() {
    const std::uint64_t bits = next();
    const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return (static_cast<double>(sum) / 65536.0 - 2.0 + 2.0 / 65536.0) * 1.7320508075688772;
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tidemark::graph_build
