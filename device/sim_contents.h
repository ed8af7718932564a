#pragma once
// What simulated memory holds: for a range, "places p, p+1, ... of pattern(seed)" (device/pattern.h), or nothing known.
// Keyed by memory, not by address, so mapping tricks carry contents along. Threads: the caller serialises.

#include <cstdint>
#include <map>
#include <vector>

#include "device/device.h"

namespace tidemark {

/// Part of a range whose contents are known. `offset` counts from the range's start.
struct SimContent {
  Bytes offset = 0;
  Bytes bytes = 0;
  std::uint64_t seed = 0;
  Bytes place = 0;  ///< of its first byte in the pattern
  friend bool operator==(const SimContent&, const SimContent&) = default;
};

class SimContents {
 public:
  void forget(Address begin, Bytes bytes);
  void set(Address begin, Bytes bytes, std::uint64_t seed, Bytes place);
  /// Known parts of [begin, begin + bytes), in order; offsets count from `begin` plus `base`. Appends.
  void read(Address begin, Bytes bytes, Bytes base, std::vector<SimContent>& parts) const;
  [[nodiscard]] bool holds(Address begin, Bytes bytes, std::uint64_t seed, Bytes place) const;

 private:
  struct Part {
    Address end = 0;
    std::uint64_t seed = 0;
    Bytes place = 0;
  };
  using Parts = std::map<Address, Part>;
  void cut(Address at);
  [[nodiscard]] Parts::const_iterator first_in(Address begin) const;
  Parts parts_;
};

}  // namespace tidemark
