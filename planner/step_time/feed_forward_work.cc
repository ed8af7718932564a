#include "planner/step_time/feed_forward_work.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/collective_time.h"
#include "planner/cost/launch_counts.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"

namespace tidemark::step_time {
namespace {

constexpr double kElementBytes = 2;

/// Products into and out of a feed-forward of `width`.
Passes products(const StepSetting& setting, const cost::Matmul& rows, double width) {
  cost::Matmul in = rows, out = rows;
  in.columns = setting.rank.gates * width;
  in.inner = setting.rank.hidden;
  out.columns = setting.rank.hidden;
  out.inner = width;
  Passes passes;
  passes.add_matmul(cost::matmul_passes(in, setting.device));
  passes.add_matmul(cost::matmul_passes(out, setting.device));
  return passes;
}

/// The activation reads what the products before it wrote and writes what the one after it reads.
double activation_s(const StepSetting& setting, double rows, double width) {
  return cost::memory_s((setting.rank.gates + 1) * rows * width * kElementBytes, setting.device);
}

/// Rows of the fullest rank.
double fullest_rows(const StepSetting& setting) {
  return setting.rank.routed_rows * setting.software.imbalance;
}

Passes expert_products(const StepSetting& setting) {
  return products(setting,
                  {.rows = fullest_rows(setting) / setting.rank.experts,
                   .count = setting.rank.experts,
                   .precision = setting.run.precision,
                   .is_grouped = true},
                  setting.rank.expert_ffn);
}

/// In fp32, at the TF32 rate. Backward is two products as long as the forward's.
Passes router(const StepSetting& setting) {
  const double forward_s = cost::matmul_s({.rows = setting.rank.split_tokens,
                                           .columns = static_cast<double>(setting.run.model.experts),
                                           .inner = setting.rank.hidden,
                                           .precision = Precision::tf32},
                                          setting.device);
  Passes passes;
  passes.add_matmul({.forward_s = forward_s, .backward_s = 2 * forward_s});
  return passes;
}

/// Share of what crosses nodes that is sent: a token goes once to each node that has one of its experts, on average.
double remote_share(const StepSetting& setting, double nodes) {
  if (!setting.run.sends_once_a_node || nodes <= 1) return 1;
  const double top_k = static_cast<double>(setting.run.model.top_k);
  return std::min(1.0, nodes * (1 - std::pow(1 - 1 / nodes, top_k)) / top_k);
}

/// Dispatch and combine, each pass, what is not hidden.
double exchanges_s(const StepSetting& setting) {
  const TimedRun& run = setting.run;
  const cost::GroupSpan span = cost::group_span(run.expert, run.expert_tensor, setting.device);
  const double bytes = fullest_rows(setting) / setting.rank.expert_tensor * setting.rank.hidden * kElementBytes;
  const double one_s =
      cost::exchange_s(bytes, remote_share(setting, span.nodes()), span, {.share = run.network_share}, setting.device);
  return 2 * one_s * (1 - run.expert_hidden);
}

/// Rows gathered to and scattered from the ranks that share an expert, each pass; inside a node.
double expert_tensor_s(const StepSetting& setting) {
  const double bytes = setting.rank.routed_rows * setting.rank.hidden * kElementBytes;
  const cost::GroupSpan span = cost::group_span(setting.run.expert_tensor, 1, setting.device);
  return 2 * cost::ring_s(bytes, 1, span, {}, setting.device);
}

/// Over the routed rows, around dispatch and combine, forward. Fused kernels permute and put back, each reading and
/// writing once. Plain ones (Megatron-Core 0.8, moe_utils.py) select (2 passes) and put back by a zeroed buffer (1), a
/// copy into it (2), the product with the router's weights (2) and the sum (1); several experts of a rank have their
/// rows sorted after dispatch (2) and put back before combine (3).
double permute_passes(const StepSetting& setting) {
  if (!setting.software.permutes_plainly) return 4;
  return setting.rank.experts > 1 ? 13 : 8;
}

Passes routed(const StepSetting& setting, double activation_forward_s) {
  Passes passes = expert_products(setting);
  passes += router(setting);
  passes.add_vector(cost::memory_s(
      permute_passes(setting) * kElementBytes * fullest_rows(setting) * setting.rank.hidden, setting.device));
  passes.add_vector(activation_forward_s);
  const double exchange_s = exchanges_s(setting), tensor_s = expert_tensor_s(setting);
  for (PassCost* pass : {&passes.forward, &passes.backward}) {
    pass->expert_s += exchange_s;
    pass->tensor_s += tensor_s;
  }
  passes.forward.launches = setting.software.moe_launches + setting.run.more_moe_launches;
  return passes;
}

/// All the micro-batch's tokens go through it. No factor on its activation: its software is younger than those that
/// have one.
Passes shared(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  if (rank.shared_ffn <= 0) return {};
  Passes passes = products(setting, {.rows = rank.tokens, .precision = setting.run.precision}, rank.shared_ffn);
  passes.add_vector(activation_s(setting, rank.tokens, rank.shared_ffn));
  passes.forward.launches = cost::kFeedForwardLaunches;
  return passes;
}

}  // namespace

PassCost dense_activation(const StepSetting& setting) {
  const double factor = setting.run.fused_vector_share * setting.software.activation_factor;
  return {.vector_s = factor * activation_s(setting, setting.rank.tokens, setting.rank.ffn),
          .launches = cost::kActivationLaunches};
}

Passes dense_passes(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  Passes passes = products(setting, {.rows = rank.tokens, .precision = setting.run.precision}, rank.ffn);
  passes.add_vector(dense_activation(setting).vector_s);
  passes.forward.launches = cost::kFeedForwardLaunches;
  return passes;
}

MoePasses moe_passes(const StepSetting& setting) {
  const double activation_forward_s =
      setting.software.activation_factor * activation_s(setting, fullest_rows(setting), setting.rank.expert_ffn);
  return {.routed = routed(setting, activation_forward_s),
          .shared = shared(setting),
          .activation = {.vector_s = activation_forward_s, .launches = cost::kActivationLaunches}};
}

}  // namespace tidemark::step_time
