#pragma once
// What scripts/soak asks of a stress through the environment: TIDEMARK_SOAK_SECONDS=N, that it goes on for N seconds,
// and TIDEMARK_SOAK_SEED=N, which random numbers it draws. Without them a stress is short and the same each time.

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace tidemark {

/// How long one stress goes on, from its construction: some steps, and until the time asked for is over.
class Soak {
 public:
  [[nodiscard]] bool goes_on(int step, int least) const {
    return step < least || std::chrono::steady_clock::now() < end_;
  }
  /// For the random numbers of one of fewer than 1,000 users.
  [[nodiscard]] static std::uint64_t seed(std::size_t user) {
    return static_cast<std::uint64_t>(number("TIDEMARK_SOAK_SEED")) * 1'000 + user;
  }

 private:
  static int number(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? 0 : std::atoi(text);
  }
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(number("TIDEMARK_SOAK_SECONDS"));
};

}  // namespace tidemark
