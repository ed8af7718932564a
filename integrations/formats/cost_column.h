#pragma once
// Costs as files state them, real numbers, as whole numbers of one quantum, so that sums are exact and do not depend on
// the order in which they are formed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tidemark::formats {

class CostColumn {
 public:
  /// Sums up to this stay exact, also where a schedule runs ops many times over.
  static constexpr double kMostTotal = 1e14;

  void add(double cost) {
    sum_ += cost;
    whole_ = whole_ && cost == std::floor(cost);
  }
  /// 1, or the power of ten that keeps most digits: exact where costs are whole and add up to less than kMostTotal.
  [[nodiscard]] double quantum() const {
    if (sum_ <= 0 || (whole_ && sum_ <= kMostTotal)) return 1;
    return std::pow(10.0, std::ceil(std::log10(sum_ / kMostTotal)));
  }
  [[nodiscard]] static std::int64_t quanta(double cost, double quantum) { return std::llround(cost / quantum); }

 private:
  double sum_ = 0;
  bool whole_ = true;
};

}  // namespace tidemark::formats
