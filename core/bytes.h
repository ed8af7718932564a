#pragma once
// The one home of byte sizes: the integer type, its literals, checked arithmetic, and sizes as text.
// Binary units (KiB, MiB, GiB, TiB) are powers of 1024, decimal units (KB, MB, GB, TB) powers of 1000.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark {

/// A count of bytes. Signed 64-bit: differences are meaningful and 2^63 bytes is beyond any machine.
using Bytes = std::int64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;
inline constexpr Bytes kTiB = 1024 * kGiB;

namespace literals {
consteval Bytes operator""_B(unsigned long long n) {
  return static_cast<Bytes>(n);
}
consteval Bytes operator""_KiB(unsigned long long n) {
  return static_cast<Bytes>(n) * kKiB;
}
consteval Bytes operator""_MiB(unsigned long long n) {
  return static_cast<Bytes>(n) * kMiB;
}
consteval Bytes operator""_GiB(unsigned long long n) {
  return static_cast<Bytes>(n) * kGiB;
}
}  // namespace literals

/// Parses `60.97GiB`, `64GB`, `512MiB`, `4096B`. One blank before the unit is allowed. A fraction is rounded down to
/// whole bytes. Errors (bad_input, without a place): no unit, unknown unit, sign, blank text, overflow of 2^63-1.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

/// `12.34 GiB`, `512.00 MiB`, `4096 B`: the largest binary unit that leaves at least 1. Negative sizes keep their sign.
[[nodiscard]] std::string format_bytes(Bytes bytes);
/// The same, rounded up where the unit has no room for all digits: what a user types in to get at least `bytes`.
/// REQUIRES: bytes >= 0.
[[nodiscard]] std::string format_bytes_up(Bytes bytes);

/// a*b and a+b, or nothing on overflow. REQUIRES: a >= 0 and b >= 0.
[[nodiscard]] std::optional<Bytes> checked_multiply(Bytes a, Bytes b);
[[nodiscard]] std::optional<Bytes> checked_add(Bytes a, Bytes b);

/// The smallest multiple of `alignment` that is at least `bytes`. REQUIRES: bytes >= 0, alignment > 0.
[[nodiscard]] constexpr Bytes round_up(Bytes bytes, Bytes alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace tidemark
