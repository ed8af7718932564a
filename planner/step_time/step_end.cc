#include "planner/step_time/step_end.h"

#include <algorithm>
#include <cstdint>

#include "planner/cost/collective_time.h"
#include "planner/cost/memory_time.h"
#include "planner/step_time/host_time.h"

namespace tidemark::step_time {
namespace {

/// Ranks that hold the same weights.
struct ReplicaGroups {
  std::int64_t dense = 1, experts = 1;
};

ReplicaGroups replica_groups(const TimedRun& run) {
  const std::int64_t dense = run.data * run.context;
  if (run.model.moe_layers == 0) return {.dense = dense};
  return {.dense = dense, .experts = std::max<std::int64_t>(1, dense * run.tensor / (run.expert * run.expert_tensor))};
}

/// What an exchange of these elements takes: gradients reduced and new weights gathered, or gradients all-reduced.
double replicas_s(const StepSetting& setting, double elements, const cost::GroupSpan& span) {
  const Software& software = setting.software;
  const double gradients = software.gradient_bytes * elements, weights = software.weight_bytes * elements;
  const cost::Network network{.share = setting.run.network_share};
  return cost::ring_s(gradients, 1, span, network, setting.device) +
         cost::ring_s(weights, 1, span, network, setting.device);
}

double dense_exchange_s(const StepSetting& setting, double elements, const cost::GroupSpan& span) {
  const Software& software = setting.software;
  if (software.weight_bytes > 0) return replicas_s(setting, elements, span);
  const cost::Network network{.share = setting.run.network_share, .has_one_link = software.has_one_link};
  return cost::ring_s(software.gradient_bytes * elements, 2, span, network, setting.device);
}

/// New weights tensor by tensor: a hop for each of a layer's tensors and rank of the sharding span.
double broadcast_s(const StepSetting& setting, const HeldElements& held, std::int64_t replicas) {
  if (!setting.software.broadcasts_weights) return 0;
  constexpr double kTensorsOfLayer = 4;
  const std::int64_t span = setting.run.optimizer_span > 0 ? setting.run.optimizer_span : replicas;
  return static_cast<double>(span) * kTensorsOfLayer * held.layers * setting.device.rates.hop_s;
}

/// All of it, hidden or not.
double exchange_s(const StepSetting& setting, const HeldElements& held) {
  const TimedRun& run = setting.run;
  const ReplicaGroups groups = replica_groups(run);
  if (groups.dense <= 1) return 0;
  const cost::GroupSpan span = cost::group_span(groups.dense, run.tensor, setting.device);
  const cost::GroupSpan expert_span = cost::group_span(groups.experts, run.expert * run.expert_tensor, setting.device);
  const double wire_bytes = (setting.software.gradient_bytes + setting.software.weight_bytes) * held.dense();
  return dense_exchange_s(setting, held.dense(), span) + replicas_s(setting, held.experts(), expert_span) +
         broadcast_s(setting, held, groups.dense) +
         cost::collective_latency_s(span, setting.device) * wire_bytes / setting.software.bucket_bytes;
}

/// State is sharded over the ranks that hold the same weights, or over a span of them; not where all update all.
double updated_elements(const StepSetting& setting, const HeldElements& held) {
  const TimedRun& run = setting.run;
  const ReplicaGroups groups = replica_groups(run);
  std::int64_t shards = setting.software.weight_bytes > 0 ? groups.dense : 1;
  if (run.optimizer_span > 0) shards = std::min(shards, run.optimizer_span);
  const std::int64_t expert_shards = shards > 1 ? groups.experts : 1;
  return held.dense() / static_cast<double>(shards) + held.experts() / static_cast<double>(expert_shards);
}

/// On the device but for what the host updates, and what either moves between them.
double optimizer_s(const StepSetting& setting, double elements) {
  const double on_device = (1 - setting.run.host.updated_share) * setting.software.optimizer_bytes * elements;
  return cost::memory_s(on_device, setting.device) + host_state_s(setting, elements);
}

/// Of fully sharded weights: gradients are reduced micro-batch by micro-batch already, only replicas of the whole
/// remain.
StepEnd sharded_end(const StepSetting& setting, const HeldElements& held) {
  const TimedRun& run = setting.run;
  const double elements = (held.dense() + held.experts()) / static_cast<double>(run.sharded);
  const cost::GroupSpan span = cost::group_span(std::max<std::int64_t>(1, run.data * run.context / run.sharded),
                                                run.sharded * run.tensor, setting.device);
  return {
      .optimizer_s = optimizer_s(setting, elements),
      .exchange_s = cost::ring_s(run.reduced_bytes * elements, 2, span, {.share = run.network_share}, setting.device)};
}

}  // namespace

StepEnd step_end(const StepSetting& setting, const HeldElements& held, double micro_batch_s) {
  if (setting.run.sharded > 1) return sharded_end(setting, held);
  const Software& software = setting.software;
  const double whole_s = exchange_s(setting, held);
  // The backward of the last micro-batch and the forward of the first can hide it, no more than the share.
  const double hidden_s = software.exchange_hidden * std::min(whole_s, micro_batch_s);
  return {.optimizer_s = optimizer_s(setting, updated_elements(setting, held)), .exchange_s = whole_s - hidden_s};
}

}  // namespace tidemark::step_time
