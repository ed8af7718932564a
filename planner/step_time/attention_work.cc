#include "planner/step_time/attention_work.h"

#include <cmath>
#include <cstdint>

#include "planner/cost/attention_time.h"
#include "planner/cost/launch_counts.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"

namespace tidemark::step_time {
namespace {

struct LatentWidths {
  double q_lora, kv_lora, queries, keys_and_values;  ///< latent whole; up: of the rank's heads
};

LatentWidths latent_widths(const StepSetting& setting) {
  const TimedMla& mla = setting.run.model.mla;
  const RankShape& rank = setting.rank;
  return {.q_lora = static_cast<double>(mla.q_lora),
          .kv_lora = static_cast<double>(mla.kv_lora),
          .queries = rank.heads * rank.qk_dim,
          .keys_and_values = rank.heads * static_cast<double>(mla.qk_nope + mla.v)};
}

cost::MatmulPasses product(const StepSetting& setting, double rows, double columns, double inner) {
  return cost::matmul_passes({.rows = rows, .columns = columns, .inner = inner, .precision = setting.run.precision},
                             setting.device);
}

/// The downs' rows are split by sequence parallelism: every tensor parallel rank would compute the same.
Passes mla_projections(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  const LatentWidths widths = latent_widths(setting);
  const double rope = static_cast<double>(setting.run.model.mla.qk_rope);
  Passes passes;
  if (widths.q_lora > 0) {
    passes.add_matmul(product(setting, rank.split_tokens, widths.q_lora, rank.hidden));
    passes.add_matmul(product(setting, rank.tokens, widths.queries, widths.q_lora));
  } else {
    passes.add_matmul(product(setting, rank.tokens, widths.queries, rank.hidden));
  }
  passes.add_matmul(product(setting, rank.split_tokens, widths.kv_lora + rope, rank.hidden));
  passes.add_matmul(product(setting, rank.tokens, widths.keys_and_values, widths.kv_lora));
  passes.add_matmul(product(setting, rank.tokens, rank.hidden, rank.heads * rank.v_dim));
  return passes;
}

/// What softmax, mask and dropout move, bytes a score, and launch. Defaults of the model, not fitted.
struct Softmax {
  double forward_bytes, backward_bytes, launches;
};
constexpr Softmax kFusedSoftmax{.forward_bytes = 4, .backward_bytes = 6, .launches = 8};
constexpr Softmax kPlainSoftmax{.forward_bytes = 20, .backward_bytes = 16, .launches = 18};

/// Megatron's fused softmax refuses other shapes; then mask, scale and softmax are kernels of their own.
const Softmax& softmax_of(const StepSetting& setting) {
  constexpr double kHeadMultiple = 4;
  constexpr std::int64_t kLongest = 2048;
  const double heads = static_cast<double>(setting.run.micro_batch) * setting.rank.heads;
  const bool is_fused = std::fmod(heads, kHeadMultiple) == 0 && setting.run.sequence <= kLongest;
  return is_fused ? kFusedSoftmax : kPlainSoftmax;
}

double head_matmul_s(const StepSetting& setting, double columns, double inner) {
  const RankShape& rank = setting.rank;
  return cost::matmul_s({.rows = static_cast<double>(setting.run.sequence),
                         .columns = columns,
                         .inner = inner,
                         .count = static_cast<double>(setting.run.micro_batch) * rank.heads},
                        setting.device);
}

/// Context parallelism does not split it: the software that is eager has none.
Passes eager_core(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  const double sequence = static_cast<double>(setting.run.sequence);
  const double scores = static_cast<double>(setting.run.micro_batch) * rank.heads * sequence * sequence;
  const double to_scores_s = head_matmul_s(setting, sequence, rank.qk_dim);
  const double to_values_s = head_matmul_s(setting, rank.v_dim, sequence);
  const double backward_s =
      2 * head_matmul_s(setting, rank.qk_dim, sequence) + head_matmul_s(setting, sequence, rank.v_dim) + to_values_s;
  const Softmax& softmax = softmax_of(setting);
  const double reached = setting.device.rates.attention;
  Passes passes;
  passes.forward.attention_s =
      (to_scores_s + to_values_s) / reached + cost::memory_s(softmax.forward_bytes * scores, setting.device);
  passes.backward.attention_s = backward_s / reached + cost::memory_s(softmax.backward_bytes * scores, setting.device);
  passes.forward.launches = softmax.launches;
  return passes;
}

/// Keys a query could attend to. A window ends at the query, and whole blocks of it are computed: twice its length.
double attended_length(const TimedRun& run) {
  if (run.document > 0) return static_cast<double>(run.document);
  const std::int64_t blocks = 2 * run.model.window;
  const bool is_windowed = blocks > 0 && blocks < run.sequence && !run.model.alternates_window;
  return static_cast<double>(is_windowed ? blocks : run.sequence);
}

Passes fused_core(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  const cost::AttentionPasses core = cost::attention_passes({.tokens = rank.tokens,
                                                             .length = attended_length(setting.run),
                                                             .heads = rank.heads,
                                                             .qk_dim = rank.qk_dim,
                                                             .v_dim = rank.v_dim,
                                                             .is_causal = setting.run.model.is_causal,
                                                             .is_flash_2 = setting.software.is_flash_2},
                                                            setting.device);
  Passes passes;
  passes.forward.attention_s = core.forward_s;
  passes.forward.launches = cost::kAttentionLaunches;
  passes.backward.attention_s = core.backward_s;
  return passes;
}

}  // namespace

Passes projection_passes(const StepSetting& setting) {
  if (setting.run.model.is_mla) return mla_projections(setting);
  const RankShape& rank = setting.rank;
  Passes passes;
  passes.add_matmul(product(setting, rank.tokens, rank.qkv_width, rank.hidden));
  passes.add_matmul(product(setting, rank.tokens, rank.hidden, rank.heads * rank.v_dim));
  return passes;
}

double output_projection_s(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  return product(setting, rank.tokens, rank.hidden, rank.heads * rank.v_dim).forward_s;
}

PassCost up_projection_again(const StepSetting& setting) {
  constexpr double kLaunches = 10;  // with the rotary embedding and the copies between the products
  PassCost again{.launches = kLaunches};
  if (!setting.run.model.is_mla) return again;
  const LatentWidths widths = latent_widths(setting);
  const double tokens = setting.rank.tokens;
  const auto forward_s = [&](double columns, double inner) {
    return cost::matmul_s({.rows = tokens, .columns = columns, .inner = inner, .precision = setting.run.precision},
                          setting.device);
  };
  again.matmul_s = forward_s(widths.keys_and_values, widths.kv_lora) + forward_s(widths.queries, widths.q_lora);
  return again;
}

Passes core_passes(const StepSetting& setting) {
  return setting.software.is_eager ? eager_core(setting) : fused_core(setting);
}

}  // namespace tidemark::step_time
