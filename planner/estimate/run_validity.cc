#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "planner/estimate/run_derive.h"

namespace tidemark::estimate {
namespace {

constexpr double kLargestProduct = 9007199254740992.0;  // 2^53
constexpr double kMostTensors = 4e6;                    // of one rank: each is looked at
constexpr double kStateBytes = 24;                      // at most, a parameter

// ---- divisibility -------------------------------------------------------------------------------------------------

struct Division {
  const char* argument;
  const char* part_name;
  std::int64_t part;
  const char* whole_name;
  std::int64_t whole;
};

Problem check(std::initializer_list<Division> divisions) {
  for (const Division& division : divisions)
    if (division.whole % division.part != 0)
      return RunProblem{division.argument, fmt::format("{} {} does not divide {} {}", division.part_name, division.part,
                                                       division.whole_name, division.whole)};
  return std::nullopt;
}

bool holds(const Model& model, bool moe) {
  return model.moe.experts == 0 ? !moe
                                : model.kind == ModelClass::hybrid || std::ranges::count(model.moe.is_moe, moe) > 0;
}

Problem check_divisions(const TrainingRun& run) {
  const Model& model = run.model;
  const Parallel& parallel = run.parallel;
  const char* tensor = "tensor-model-parallel-size";
  const std::int64_t groups = model.attention.groups;
  const std::int64_t part_of_sequence = model.sequence / parallel.context;
  const bool dense = holds(model, false);
  const bool moe = holds(model, true);
  const auto if_used = [](bool used, std::int64_t part) { return used ? part : 1; };
  return check({
      {tensor, "tensor", parallel.tensor, "attention heads", model.attention.heads},
      {"num-query-groups", "tensor",
       if_used(!model.attention.multi_latent && groups > parallel.tensor, parallel.tensor), "query groups", groups},
      {"num-query-groups", "the number of query groups",
       if_used(!model.attention.multi_latent && groups < parallel.tensor, groups), "tensor", parallel.tensor},
      {tensor, "tensor", if_used(dense, parallel.tensor), "feed-forward width", model.ffn},
      {"expert-tensor-parallel-size", "expert tensor", if_used(moe, parallel.expert_tensor), "expert width",
       model.moe.width},
      {tensor, "tensor", if_used(moe, parallel.tensor), "shared expert width", model.moe.shared_width},
      {"expert-model-parallel-size", "expert", parallel.expert, "experts", model.moe.experts},
      {"context-parallel-size", "context", parallel.context, "sequence", model.sequence},
      {tensor, "tensor", if_used(parallel.sequence_parallel, parallel.tensor), "the sequence of one context rank,",
       part_of_sequence},
  });
}

// ---- products -----------------------------------------------------------------------------------------------------

struct Product {
  const char* argument;  ///< the factor to shrink first
  const char* what;
  double value;
  double most = kLargestProduct;
  const char* unit = "bytes";
};

double real(std::int64_t n) {
  return static_cast<double>(n);
}

Problem check_products(const TrainingRun& run) {
  const Model& model = run.model;
  const Attention& attention = model.attention;
  const Parallel& parallel = run.parallel;
  const double layers =
      real(model.layers + model.encoder_layers + model.mtp_layers) * (model.kind == ModelClass::t5 ? 2 : 1);
  const double hidden = real(model.hidden);
  const double heads =
      real(attention.heads) * (attention.multi_latent
                                   ? real(2 * (attention.qk_head_dim + attention.qk_rope_dim) + attention.v_head_dim)
                                   : 3 * real(attention.head_dim));
  const double widest =
      std::max({hidden, heads, real(attention.q_lora_rank), real(attention.kv_lora_rank), 2 * real(model.ffn),
                real(model.moe.shared_width),
                model.kind == ModelClass::hybrid ? real(model.mamba.heads) * real(model.mamba.head_dim) +
                                                       2 * real(model.mamba.groups) * real(model.mamba.state_dim)
                                                 : 0.0});
  const double inner =
      std::max({hidden, real(attention.q_lora_rank), real(attention.kv_lora_rank), real(model.moe.latent)});
  const double tokens = std::max(real(model.sequence), real(model.decoder_sequence)) * real(run.batch.micro);
  const double rows = tokens * real(model.moe.top_k) * std::max(1.0, model.moe.capacity_factor);
  const double passes = layers * real(parallel.pipeline) * real(parallel.virtual_pipeline);
  const double longest = std::max(real(model.sequence), real(model.decoder_sequence));
  const double experts = std::max(1.0, real(model.moe.experts));
  for (const Product& product : std::initializer_list<Product>{
           {"padded-vocab-size", "vocabulary x hidden size x bytes of training state",
            real(model.vocabulary.padded) * hidden * kStateBytes},
           {"hidden-size", "weights of the layers and their training state", layers * widest * inner * kStateBytes},
           {"num-experts", "weights of the experts and their training state",
            layers * experts * 3 * real(model.moe.width) * std::max(hidden, real(model.moe.latent)) * kStateBytes},
           {"max-position-embeddings", "position embedding and its training state",
            real(model.max_positions) * hidden * kStateBytes},
           {"seq-length", "activations: tokens x widest layer x layers in flight",
            tokens * 64 * (widest + hidden) * passes},
           {"seq-length", "attention scores",
            real(run.batch.micro) * real(attention.heads) * longest * longest * 8 * layers},
           {"seq-length", "logits: tokens x vocabulary",
            tokens * real(model.vocabulary.padded) * 32 * (layers + real(run.batch.micro_batches))},
           {"moe-router-topk", "rows sent to experts", rows * 64 * (hidden + 3 * real(model.moe.width)) * passes},
           {"expert-model-parallel-size", "gathered tokens",
            tokens * real(parallel.expert) * real(parallel.expert_tensor) * hidden * 8},
           {"num-layers", "tensors of one rank", layers * 16 * (1 + experts / real(parallel.expert)), kMostTensors * 16,
            "tensors"},
       }) {
    if (!(product.value <= product.most))
      return RunProblem{product.argument, fmt::format("{} come to {:.3g} {}; is a number far off?", product.what,
                                                      product.value, product.unit)};
  }
  return std::nullopt;
}

}  // namespace

Problem find_problem(const TrainingRun& run) {
  if (Problem problem = check_divisions(run)) return problem;
  return check_products(run);
}

}  // namespace tidemark::estimate
