#include "integrations/formats/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

#include "core/bytes.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

struct Quantity {
  std::string_view what;
  std::string_view example;
  std::span<const Unit> units;
};

constexpr Unit kRateUnits[] = {{"B/s", 1},
                               {"KB/s", 1e3},
                               {"MB/s", 1e6},
                               {"GB/s", 1e9},
                               {"TB/s", 1e12},
                               {"KiB/s", static_cast<double>(kKiB)},
                               {"MiB/s", static_cast<double>(kMiB)},
                               {"GiB/s", static_cast<double>(kGiB)},
                               {"TiB/s", static_cast<double>(kTiB)}};
constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kFlopsUnits[] = {{"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}};

constexpr Unit kCountUnits[] = {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};

constexpr Quantity kRate = {"a rate", "23.4GB/s", kRateUnits};
constexpr Quantity kTime = {"a time", "10us", kTimeUnits};
constexpr Quantity kFlops = {"a compute rate", "313TFLOPS", kFlopsUnits};
constexpr Quantity kCount = {"a number of parameters", "718B", kCountUnits};

Error refused(std::string_view text, const Quantity& quantity) {
  std::string units;
  for (const Unit& unit : quantity.units) units += fmt::format("{}{}", units.empty() ? "" : ", ", unit.name);
  return bad_input(fmt::format("{} is not {}; write a number and a unit ({}), like {}", shown(text), quantity.what,
                               units, quantity.example));
}

Result<double> parse(std::string_view text, const Quantity& quantity) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  // from_chars takes "-", "inf" and "nan"; a quantity starts with a digit.
  const bool digit_first = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (error != std::errc{} || !digit_first) return refused(text, quantity);
  std::string_view unit_text(rest, static_cast<std::size_t>(end - rest));
  if (unit_text.size() > 1 && unit_text.front() == ' ') unit_text.remove_prefix(1);
  for (const Unit& unit : quantity.units) {
    if (unit.name != unit_text) continue;
    if (!std::isfinite(number * unit.factor)) break;
    return number * unit.factor;
  }
  return refused(text, quantity);
}

}  // namespace

Result<double> parse_bytes_per_s(std::string_view text) {
  return parse(text, kRate);
}
Result<double> parse_duration_ns(std::string_view text) {
  return parse(text, kTime);
}
Result<double> parse_flops_per_s(std::string_view text) {
  return parse(text, kFlops);
}
Result<double> parse_parameters(std::string_view text) {
  return parse(text, kCount);
}

}  // namespace tidemark::formats
