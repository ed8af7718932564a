#include "integrations/formats/time_constants.h"

#include <fmt/format.h>

#include "integrations/formats/quantity.h"

namespace tidemark::formats {
namespace {

constexpr double kNsPerS = 1e9;

/// As files write it.
std::string written(double value, TimeConstant::Unit unit) {
  return unit == TimeConstant::Unit::time ? fmt::format("{}us", value * 1e6) : fmt::format("{}", value);
}

}  // namespace

void read_time_constant(YamlMap& fields, const TimeConstant& constant, FittedRates& rates, Need need) {
  double value = rates.*constant.value;
  if (constant.unit == TimeConstant::Unit::time) {
    double ns = value * kNsPerS;
    fields.quantity(constant.name, ns, parse_duration_ns, "18us", need);
    value = ns / kNsPerS;
  } else {
    fields.real(constant.name, value, need);
  }
  if (!fields.has(constant.name)) return;
  if (value > 0 && value <= constant.most) {
    rates.*constant.value = value;
  } else {
    fields.wrong(constant.name, fmt::format("{} is {}; it must be above 0 and at most {}", constant.name,
                                            written(value, constant.unit), written(constant.most, constant.unit)));
  }
}

}  // namespace tidemark::formats
