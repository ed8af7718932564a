#include "integrations/formats/unit_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "core/number_ranges.h"

namespace tidemark::formats {

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string duration_text(std::int64_t ns) {
  const auto magnitude = std::abs(static_cast<double>(ns));
  const auto value = static_cast<double>(ns);
  if (ns == 0) return "0 ms";
  if (magnitude >= 1e9) return fmt::format("{:.2f} s", value / 1e9);
  if (magnitude >= 1e6) return fmt::format("{:.1f} ms", value / 1e6);
  if (magnitude >= 1e3) return fmt::format("{:.1f} us", value / 1e3);
  return fmt::format("{} ns", ns);
}

std::string ms_per_gib_text(std::int64_t ns, Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(ns) * 1e-6 * static_cast<double>(kGiB) / static_cast<double>(bytes));
}

std::string one_load_text(double load) {
  return load == 1 ? "" : fmt::format(", every plan for expert load f {:.2f}", load);
}

std::string ms_text(std::int64_t ns) {
  return fmt::format("{:.1f}", static_cast<double>(ns) / 1e6);
}

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string ranges_text(const std::vector<std::int32_t>& numbers) {
  return number_ranges(numbers, ", ");
}

std::string percent_text(double share) {
  return fmt::format("{:.4g}", 100 * share);
}

std::string any_load_text(double worst_load_f) {
  if (worst_load_f <= 0) return "no";
  return fmt::format("{:.7g}", std::round(100 * worst_load_f) / 100);
}

std::string_view lane_text(Lane lane) {
  constexpr std::array<std::string_view, kLaneCount> kNames = {
      "compute",        "intra-node communication", "inter-node communication",
      "pipeline sends", "pipeline receives",        "copy out (D2H)",
      "copy in (H2D)"};
  return kNames[static_cast<std::size_t>(lane)];
}

std::string_view role_text(StorageRole role) {
  constexpr std::array<std::string_view, kStorageRoleCount> kNames = {"parameters",  "gradients", "optimizer state",
                                                                      "activations", "temporary", "communication"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string layer_text(std::int32_t layer, std::string_view outside) {
  return layer < 0 ? std::string(outside) : fmt::format("layer {}", layer);
}

}  // namespace tidemark::formats
