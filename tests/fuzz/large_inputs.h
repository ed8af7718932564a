#pragma once
// Inputs near a size that are made of one piece over and over: what costs a reader most for its length.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::testing {

struct LargeInput {
  std::string begin;
  std::string piece;  ///< `#` stands for a number that counts up
  std::string end = {};

  /// At most `size` bytes.
  [[nodiscard]] std::string bytes(std::size_t size) const;
  /// Of a failure: the first bytes, printable.
  [[nodiscard]] std::string name() const;
};

/// Of a reader (reader_bodies.h).
[[nodiscard]] std::vector<LargeInput> large_inputs(std::string_view reader);

}  // namespace tidemark::testing
