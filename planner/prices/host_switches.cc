#include "planner/prices/host_switches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/cost/collective_time.h"
#include "planner/cost/nanoseconds.h"

namespace tidemark::prices {
namespace {

Result<SwitchPrice> binding_price(const KeptStep& step) {
  SwitchPrice price{.name = "core binding of the host",
                    .constant = "host time x 2497/2887 (DeepSpeed, CPU optimizer step in ms, bound against not)",
                    .note = "the device file's launch time is taken as bound",
                    .published = PublishedPrice{.text = "2887 ms -> 2497 ms of a step with a CPU optimizer",
                                                .source = "DeepSpeed (measured)"}};
  if (step.request().job.model.name == kPanguModel)
    price.published = PublishedPrice{.text = "host-bound time 2.1 ms -> 0.6 ms, by more than binding",
                                     .source = "Huawei on Pangu Ultra MoE, June 2025 (secondary)"};
  Machine unbound = step.request().machine;
  unbound.chip.rates.launch_s /= kBoundHostTime;
  Result<SwitchSide> off = step.on_machine(unbound);
  if (!off) return off.error();
  price.off = std::move(off).value();
  price.off->setting = fmt::format("{:.1f} us a launch", 1e6 * unbound.chip.rates.launch_s);
  price.on = step.side();
  price.on->setting = fmt::format("{:.1f} us", 1e6 * step.request().machine.chip.rates.launch_s);
  return price;
}

/// State that an op reads, each storage once.
Bytes state_bytes(const Graph& graph, OpId op) {
  std::set<StorageId> seen;
  Bytes bytes = 0;
  for (const Access& access : graph.accesses_of(op)) {
    if (access.kind != AccessKind::read || !seen.insert(access.storage).second) continue;
    if (graph.template_of(access.storage).role == StorageRole::optimizer_state)
      bytes += graph.storages[row(access.storage)].bytes;
  }
  return bytes;
}

Bytes all_state_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages)
    if (graph.storage_templates[row(storage.storage_template)].role == StorageRole::optimizer_state)
      bytes += storage.bytes;
  return bytes;
}

void update_on_host(const PriceRequest& request, ChangedRank& rank) {
  Graph& graph = rank.graph;
  const graph_build::ParallelSpec& p = request.job.parallel;
  const Machine& machine = request.machine;
  const std::vector<std::int32_t> first = first_ops(graph);
  rank.instead_ns.assign(graph.op_templates.size(), -1);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const OpTemplate& op = graph.op_templates[i];
    if (first[i] < 0 || op.phase != OpPhase::optimizer || op.lane != Lane::compute) continue;
    const auto state = static_cast<double>(state_bytes(graph, static_cast<OpId>(first[i])));
    const double elements = state / p.optimizer_bytes;
    // Its memory, which the devices of a node share, is taken to carry what a device's link does.
    const double down_s = elements * p.gradient_bytes / machine.d2h.bytes_per_s;
    const double update_s = 2 * state / machine.d2h.bytes_per_s;
    const double up_s = elements * p.parameter_bytes / machine.h2d.bytes_per_s;
    rank.instead_ns[i] = std::llround(cost::kNsPerSecond * (down_s + update_s + up_s));
  }
  for (Storage& storage : graph.storages)
    if (graph.storage_templates[row(storage.storage_template)].role == StorageRole::optimizer_state) storage.bytes = 0;
  rank.resizes = true;
}

Result<SwitchPrice> update_price(const KeptStep& step) {
  const PriceRequest& request = step.request();
  SwitchPrice price{.name = "optimizer on the host",
                    .constant = "bytes counted; the device file's link; host memory assumed as fast as the link",
                    .note = "an update waits for its gradients; reductions and gathers of other weights run beside it"};
  if (request.job.parallel.optimizer_bytes <= 0) {
    price.why_not = "there is no optimizer state";
  } else if (request.machine.d2h.bytes_per_s <= 0 || request.machine.h2d.bytes_per_s <= 0) {
    price.why_not = "the device file has no link to host memory";
  }
  if (!price.why_not.empty()) return price;
  Result<SwitchSide> on = step.changed([&](ChangedRank& rank) { update_on_host(request, rank); });
  if (!on) return on.error();
  price.off = step.side();
  price.off->setting = "on the device";
  price.on = std::move(on).value();
  price.on->setting = "on the host";
  for (const Graph& graph : step.graphs())
    price.on->host_bytes = std::max(price.on->host_bytes, all_state_bytes(graph));
  return price;
}

SwitchPrice loader_price(const KeptStep& step) {
  const PriceRequest& request = step.request();
  const graph_build::ParallelSpec& p = request.job.parallel;
  SwitchPrice price{.name = "one data loader a tensor group",
                    .constant = "28 bytes a token (Megatron-LM), 2 workers x 2 batches ahead (PyTorch); link rates"};
  if (p.tensor == 1) {
    price.why_not = "a tensor group is one device";
    return price;
  }
  constexpr double kBroadcasts = 4;  // a tensor each
  const Bytes batch = p.micro_batch * request.job.model.sequence * kLoadedTokenBytes;
  const cost::GroupSpan span = cost::group_span(p.tensor, 1, request.machine.chip);
  const double broadcast_s = cost::ring_send_s(static_cast<double>(batch), span, {}, request.machine.chip) +
                             kBroadcasts * cost::collective_latency_s(span, request.machine.chip);
  price.off = price.on = step.side();
  price.off->setting = "a loader a device";
  price.on->setting = "read once, broadcast";
  price.on->step_ns += std::llround(cost::kNsPerSecond * broadcast_s * static_cast<double>(p.micro_batches()));
  price.off->host_bytes = kPrefetchedBatches * batch;
  price.on->host_bytes = kPrefetchedBatches * batch / p.tensor;
  const Bytes read = batch * p.micro_batches();
  price.note = fmt::format(
      "{} read a step by each tensor group of the first and the last stage, for {} with a loader "
      "a device; reading is taken as hidden, broadcasts as not",
      format_bytes(read), format_bytes(read * p.tensor));
  return price;
}

}  // namespace

Result<std::vector<SwitchPrice>> host_prices(const KeptStep& step) {
  std::vector<SwitchPrice> prices;
  for (auto* price_of : {binding_price, update_price}) {
    Result<SwitchPrice> price = price_of(step);
    if (!price) return price.error();
    prices.push_back(std::move(price).value());
  }
  prices.push_back(loader_price(step));
  return prices;
}

}  // namespace tidemark::prices
