#pragma once
// The largest expert load a program carries, by the rule of core/dynamic_region.h, fast enough to ask many times:
// routed stays become events on the compute clock once, and each load is one pass over them that stops at the first
// half-step with too little room. Loads are searched in steps of 1 / kSteps, downwards rounded, up to kMostLoad.

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/dynamic_region.h"
#include "core/program.h"

namespace tidemark::ladder {

class DynamicBound {
 public:
  static constexpr std::int64_t kSteps = 1024;
  static constexpr double kMostLoad = 64;

  /// REQUIRES: program.routed is filled and the layout's dynamic region is set. Keeps no reference.
  explicit DynamicBound(const Program& program);

  /// Half-steps [from, until) in which the storage in `residency` gives its extra back.
  struct Window {
    ResidencyId residency = kNone<ResidencyId>;
    std::int32_t from = 0;
    std::int32_t until = 0;
  };
  /// REQUIRES: windows lie within the stay, and those of one residency do not meet.
  void add(const std::vector<Window>& windows);
  /// Takes back the windows of these residencies.
  void remove(const std::vector<ResidencyId>& residencies);

  /// The first half-step at which `load` is too much.
  [[nodiscard]] std::optional<std::int32_t> first_overflow(double load) const;

  /// Largest load at least `least` that overflows nowhere. REQUIRES: `least` does not.
  [[nodiscard]] double limit(double least) const;

  [[nodiscard]] bool is_routed(ResidencyId residency) const { return row_of_[row(residency)] >= 0; }
  /// Granules that the residency takes at `load` beyond its slot.
  [[nodiscard]] std::int64_t extra(ResidencyId residency, double load) const;
  [[nodiscard]] Bytes bytes(ResidencyId residency, double load) const;

 private:
  struct Row {
    RoutedResidency routed;
    Bytes planned_bytes = 0;
    std::int64_t inside = 0;  ///< granules inside its slot
    [[nodiscard]] std::int64_t extra(double load) const;
  };
  /// A row's extra is taken (sign 1) or given back (-1) at a half-step; what gives back comes first.
  struct Event {
    std::int32_t clock = 0;
    std::int32_t sign = 0;
    std::int32_t row = 0;
    bool window = false;
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  std::vector<std::int32_t> row_of_;  ///< per residency; -1: not routed
  std::vector<Row> rows_;
  std::vector<Event> events_;
  std::int64_t region_ = 0;
  mutable std::vector<std::int64_t> extra_;  ///< per row, of the load asked for
};

/// The pieces of spare host memory that planned copies take (core/spare_host.h), prepared in the same way.
class SpareHostBound {
 public:
  /// REQUIRES: program.routed is filled. Keeps no reference.
  explicit SpareHostBound(const Program& program);
  /// The most pieces in use at once while no site's load exceeds `load`; spare_host_demand of the program.
  [[nodiscard]] std::int64_t demand(double load) const;

 private:
  struct Row {
    RoutedResidency routed;
    Bytes planned_bytes = 0;
  };
  struct Event {
    std::int32_t clock = 0;
    std::int32_t sign = 0;
    std::int32_t row = 0;
    friend auto operator<=>(const Event&, const Event&) = default;
  };
  std::vector<Row> rows_;
  std::vector<Event> events_;
};

}  // namespace tidemark::ladder
