#include "planner/cost/collective_time.h"

#include <algorithm>
#include <cmath>

namespace tidemark::cost {
namespace {

/// What all-to-all reaches between nodes of a ring's rate. A default of the model, not fitted.
constexpr double kExchangeOfRing = 0.55;
constexpr double kExchangeHops = 2;
/// Devices that share one ring where a node's links are not spread over.
constexpr double kDevicesOfOneLink = 4;

double intra_bytes_per_s(const Chip& device) {
  return device.sheet.intra_bytes_per_s * device.rates.intra_link;
}

double inter_bytes_per_s(const Network& network, const Chip& device) {
  return device.sheet.inter_bytes_per_s * network.share * device.rates.inter_link;
}

}  // namespace

GroupSpan group_span(std::int64_t ranks, std::int64_t stride, const Chip& device) {
  const std::int64_t room = device.sheet.devices_per_node / std::max<std::int64_t>(1, stride);
  return {.ranks = ranks, .per_node = std::max<std::int64_t>(1, std::min(ranks, room))};
}

double ring_bytes_per_s(const GroupSpan& span, const Network& network, const Chip& device) {
  const double inside = intra_bytes_per_s(device);
  if (span.ranks <= span.per_node) return inside;
  const double per_node = static_cast<double>(span.per_node);
  const double links = network.has_one_link ? std::max(1.0, per_node / kDevicesOfOneLink) : per_node;
  return std::min(inside, inter_bytes_per_s(network, device) * links);
}

double collective_latency_s(const GroupSpan& span, const Chip& device) {
  const double inside = static_cast<double>(std::max<std::int64_t>(2, std::min(span.ranks, span.per_node)));
  const double nodes = span.nodes();
  return device.rates.hop_s * (std::log2(inside) + (nodes > 1 ? nodes : 0));
}

double sent_s(double bytes, GroupShape::Pattern pattern, const GroupSpan& span, const Network& network,
              const Chip& chip) {
  if (span.ranks <= 1) return 0;
  const double ring_rate = ring_bytes_per_s(span, network, chip);
  switch (pattern) {
    case GroupShape::Pattern::send:
      return chip.rates.hop_s + bytes / ring_rate;
    case GroupShape::Pattern::ring:
      return collective_latency_s(span, chip) + bytes / ring_rate;
    case GroupShape::Pattern::exchange:
      break;
  }
  const bool is_inside = span.ranks <= span.per_node;
  return kExchangeHops * chip.rates.hop_s +
         bytes / (is_inside ? intra_bytes_per_s(chip) : inter_bytes_per_s(network, chip) * kExchangeOfRing);
}

double ring_s(double bytes, double passes, const GroupSpan& span, const Network& network, const Chip& device) {
  if (span.ranks <= 1 || bytes <= 0) return 0;
  const double ranks = static_cast<double>(span.ranks);
  const double sent = passes * bytes * (ranks - 1) / ranks;
  return collective_latency_s(span, device) + sent / ring_bytes_per_s(span, network, device);
}

double exchange_s(double bytes, double remote_share, const GroupSpan& span, const Network& network,
                  const Chip& device) {
  if (span.ranks <= 1) return 0;
  const double ranks = static_cast<double>(span.ranks), per_node = static_cast<double>(span.per_node);
  const double remote = bytes * (ranks - per_node) / ranks * remote_share;
  const double near = bytes * (per_node - 1) / ranks;
  const double remote_s = remote / (inter_bytes_per_s(network, device) * kExchangeOfRing);
  return kExchangeHops * device.rates.hop_s + std::max(remote_s, near / intra_bytes_per_s(device));
}

}  // namespace tidemark::cost
