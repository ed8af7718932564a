#include "core/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cassert>

namespace tidemark {
namespace {

struct Unit {
  std::string_view name;
  Bytes bytes;
};

constexpr std::array<Unit, 9> kUnits = {{{"B", 1},
                                         {"KiB", kKiB},
                                         {"MiB", kMiB},
                                         {"GiB", kGiB},
                                         {"TiB", kTiB},
                                         {"KB", 1'000},
                                         {"MB", 1'000'000},
                                         {"GB", 1'000'000'000},
                                         {"TB", 1'000'000'000'000}}};

constexpr std::string_view kExample = "write a size like 60.97GiB, 64GB, 512MiB or 4096B";
constexpr std::string_view kUnitList = "B, KiB, MiB, GiB, TiB (1024s) or KB, MB, GB, TB (1000s)";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The leading run of digits; the rest stays in `text`.
std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

/// The text as it may stand in a one-line message: bounded, and nothing that breaks a line.
std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, kLongest)) shown += (c >= ' ' && c != '\x7f') ? c : '?';
  if (text.size() > kLongest) shown += "...";
  return shown + "'";
}

Error refused(std::string_view text, std::string_view why) {
  return bad_input(fmt::format("{} is not a size: {}", quoted(text), why));
}

std::optional<Bytes> to_integer(std::string_view digits) {
  Bytes value = 0;
  for (const char c : digits) {
    const auto tens = checked_multiply(value, 10);
    const auto sum = tens ? checked_add(*tens, c - '0') : std::nullopt;
    if (!sum) return std::nullopt;
    value = *sum;
  }
  return value;
}

/// floor(0.digits * unit), exactly. Long division one digit at a time from the last: the remainder carries nothing that
/// can change the floor, because nested floors of a division by ten agree with one floor.
Bytes fraction_of(std::string_view digits, Bytes unit) {
  Bytes below = 0;
  for (std::size_t i = digits.size(); i > 0; --i) below = ((digits[i - 1] - '0') * unit + below) / 10;
  return below;
}

const Unit* find_unit(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

}  // namespace

std::optional<Bytes> checked_multiply(Bytes a, Bytes b) {
  assert(a >= 0 && b >= 0);
  Bytes product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::optional<Bytes> checked_add(Bytes a, Bytes b) {
  assert(a >= 0 && b >= 0);
  Bytes sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

Result<Bytes> parse_bytes(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return refused(text, kExample);
  if (text.front() == '-' || text.front() == '+') {
    return refused(text, fmt::format("no sign is allowed; {}", kExample));
  }
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  if (!whole.empty() && !rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    if (fraction.empty()) return refused(text, fmt::format("digits are missing after the point; {}", kExample));
  }
  if (whole.empty()) return refused(text, kExample);
  if (rest.size() > 1 && rest.front() == ' ') rest.remove_prefix(1);
  if (rest.empty()) return refused(text, fmt::format("a bare number has no unit; append one of {}", kUnitList));
  const Unit* unit = find_unit(rest);
  if (unit == nullptr) return refused(text, fmt::format("unknown unit {}; use {}", quoted(rest), kUnitList));

  const auto count = to_integer(whole);
  const auto whole_bytes = count ? checked_multiply(*count, unit->bytes) : std::nullopt;
  const auto bytes = whole_bytes ? checked_add(*whole_bytes, fraction_of(fraction, unit->bytes)) : std::nullopt;
  if (!bytes) return refused(text, "it exceeds the largest size, 8388607TiB");
  return *bytes;
}

std::string format_bytes(Bytes bytes) {
  // The magnitude as unsigned, so that the smallest Bytes has one too.
  const bool negative = bytes < 0;
  const auto magnitude =
      negative ? std::uint64_t{0} - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes);
  const char* sign = negative ? "-" : "";
  for (const Unit& unit : {kUnits[4], kUnits[3], kUnits[2], kUnits[1]}) {
    const auto size = static_cast<std::uint64_t>(unit.bytes);
    if (magnitude >= size) {
      return fmt::format("{}{:.2f} {}", sign, static_cast<double>(magnitude) / static_cast<double>(size), unit.name);
    }
  }
  return fmt::format("{}{} B", sign, magnitude);
}

std::string format_bytes_up(Bytes bytes) {
  for (const Unit& unit : {kUnits[4], kUnits[3], kUnits[2], kUnits[1]}) {
    if (bytes < unit.bytes) continue;
    const Bytes whole = bytes / unit.bytes, rest = bytes % unit.bytes;
    const Bytes hundredths = whole * 100 + (rest * 100 + unit.bytes - 1) / unit.bytes;
    return fmt::format("{}.{:02} {}", hundredths / 100, hundredths % 100, unit.name);
  }
  return fmt::format("{} B", bytes);
}

}  // namespace tidemark
