#pragma once
// The constants of FittedRates by the names that files give them, with the values that make sense.

#include <array>
#include <cstdint>
#include <string_view>

#include "core/chip.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/yaml_fields.h"

namespace tidemark::formats {

struct TimeConstant {
  enum class Unit : std::uint8_t { share, length, time };  ///< a time is written with its unit, like 18us
  std::string_view name;
  double FittedRates::*value = nullptr;
  Unit unit = Unit::share;
  double most = 1;  ///< above 0 to this, in seconds where it is a time
};

/// In the order of files.
inline constexpr std::array<TimeConstant, 10> kTimeConstants = {{
    {.name = "matmul", .value = &FittedRates::matmul},
    {.name = "tile_start",
     .value = &FittedRates::tile_start,
     .unit = TimeConstant::Unit::length,
     .most = kMostTileStart},
    {.name = "memory", .value = &FittedRates::memory},
    {.name = "launch", .value = &FittedRates::launch_s, .unit = TimeConstant::Unit::time},
    {.name = "intra_link", .value = &FittedRates::intra_link},
    {.name = "inter_link", .value = &FittedRates::inter_link},
    {.name = "hop", .value = &FittedRates::hop_s, .unit = TimeConstant::Unit::time},
    {.name = "attention", .value = &FittedRates::attention},
    {.name = "grouped_matmul", .value = &FittedRates::grouped_matmul},
    {.name = "fp8", .value = &FittedRates::fp8},
}};

/// Reads one where it is there, else leaves it. A value out of its range is a mistake of the document.
void read_time_constant(YamlMap& fields, const TimeConstant& constant, FittedRates& rates, Need need = Need::optional);

}  // namespace tidemark::formats
