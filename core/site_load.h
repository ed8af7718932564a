#pragma once
// How many rows routing makes at a site (chunk, layer, micro-batch): here for experts, and of the tokens here.

#include <cstdint>

namespace tidemark {

/// Whose rows a routed storage holds.
enum class RowsOf : std::uint8_t {
  received,  ///< of the experts here: as many as routing sends to this device
  sent,      ///< of the tokens here, on their way to experts or back
};

/// Rows that routing makes at a site, relative to the mean.
struct SiteLoad {
  double received = 1;  ///< the expert load f of this device
  /// Other than 1 only with hierarchical exchange, where a device sends for its tokens what the experts of one node
  /// get.
  double sent = 1;
  SiteLoad() = default;
  /// One number is the expert load; the device sends the mean.
  SiteLoad(double received_rows, double sent_rows = 1) : received(received_rows), sent(sent_rows) {}
  [[nodiscard]] double of(RowsOf rows) const { return rows == RowsOf::received ? received : sent; }
  /// Neither has fewer rows than `other`.
  [[nodiscard]] bool covers(const SiteLoad& other) const { return received >= other.received && sent >= other.sent; }
  friend bool operator==(const SiteLoad&, const SiteLoad&) = default;
};

/// No group has so many devices, of which one might get the rows of all.
inline constexpr double kMostSiteLoad = 1 << 20;

}  // namespace tidemark
