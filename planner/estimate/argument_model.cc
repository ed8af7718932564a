#include <array>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

std::string_view set_positions(Draft& draft, std::string_view word) {
  if (word == "learned_absolute") {
    draft.positions = PositionEmbedding::learned_absolute;
  } else if (word == "rope" || word == "yarn" || word == "mrope") {
    draft.positions = PositionEmbedding::rope;
  } else if (word == "alibi") {
    draft.positions = PositionEmbedding::alibi;
  } else if (word == "none" || word == "relative" || word == "deepseek4") {
    // A table of relative positions has a few hundred numbers a head.
    draft.positions = PositionEmbedding::none;
  } else {
    return "write learned_absolute, rope, yarn, mrope, relative, alibi or none";
  }
  return {};
}

std::string_view set_norm(Draft& draft, std::string_view word) {
  if (word != "RMSNorm" && word != "LayerNorm") return "write LayerNorm or RMSNorm";
  draft.run.model.norm = word == "RMSNorm" ? Norm::rms_norm : Norm::layer_norm;
  return {};
}

std::string_view set_implementation(Draft& draft, std::string_view word) {
  if (word != "local" && word != "transformer_engine" && word != "inference_optimized")
    return "write local or transformer_engine";
  draft.run.model.transformer_impl_local = word == "local";
  return {};
}

constexpr std::array kRows = {
    count("num-layers", 1, 100'000, [](Draft& d, std::int64_t n) { d.layers = n; }),
    count("encoder-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.encoder_layers = n; }),
    count("decoder-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.decoder_layers = n; }),
    count("hidden-size", 1, kMostWidth, [](Draft& d, std::int64_t n) { d.run.model.hidden = n; }),
    count("ffn-hidden-size", 1, kMostWidth, [](Draft& d, std::int64_t n) { d.ffn = n; }),
    count("seq-length", 1, kMostTokens, [](Draft& d, std::int64_t n) { d.sequence = n; }),
    count("encoder-seq-length", 1, kMostTokens, [](Draft& d, std::int64_t n) { d.encoder_sequence = n; }),
    count("decoder-seq-length", 1, kMostTokens, [](Draft& d, std::int64_t n) { d.decoder_sequence = n; }),
    count("max-position-embeddings", 1, kMostTokens, [](Draft& d, std::int64_t n) { d.max_positions = n; }),
    text("position-embedding-type", set_positions),
    on_off("use-rotary-position-embeddings", [](Draft& d, bool on) { d.rotary = on; }),
    on_off("no-position-embedding", [](Draft& d, bool on) { d.no_positions = on; }),
    on_off("add-position-embedding", [](Draft& d, bool on) { d.no_positions = !on; }),
    text("normalization", set_norm),
    on_off("swiglu",
           [](Draft& d, bool on) {
             d.run.model.gated |= on;
             d.swiglu = on;
           }),
    on_off("bias-swiglu-fusion", [](Draft& d, bool on) { d.gate_fusion = on; }),
    on_off("no-bias-swiglu-fusion", [](Draft& d, bool on) { d.gate_fusion = !on; }),
    on_off("geglu", [](Draft& d, bool on) { d.run.model.gated |= on; }),
    on_off("quick-geglu", [](Draft& d, bool on) { d.run.model.gated |= on; }),
    on_off("gated-linear-unit", [](Draft& d, bool on) { d.run.model.gated |= on; }),
    on_off("disable-bias-linear", [](Draft& d, bool on) { d.run.model.linear_bias = !on; }),
    on_off("add-bias-linear", [](Draft& d, bool on) { d.run.model.linear_bias = on; }),
    real("hidden-dropout", 0, 1, [](Draft& d, double x) { d.run.model.hidden_dropout = x; }),
    on_off("untie-embeddings-and-output-weights", [](Draft& d, bool on) { d.run.model.tied_embedding = !on; }),
    on_off("share-embeddings-and-output-weights", [](Draft& d, bool on) { d.run.model.tied_embedding = on; }),
    count("mtp-num-layers", 0, 64, [](Draft& d, std::int64_t n) { d.run.model.mtp_layers = n; }),
    on_off("mtp-use-repeated-layer", [](Draft& d, bool on) { d.run.model.mtp_repeated = on; }),
    text("transformer-impl", set_implementation),
    text("spec",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.spec = t;
           return {};
         }),
    text("hybrid-layer-pattern",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.run.model.hybrid_pattern = t;
           return {};
         }),
    text("hybrid-override-pattern",
         [](Draft& d, std::string_view t) -> std::string_view {
           if (d.run.model.hybrid_pattern.empty()) d.run.model.hybrid_pattern = t;
           return {};
         }),
    count("mamba-num-heads", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.mamba.heads = n; }),
    count("mamba-head-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.mamba.head_dim = n; }),
    count("mamba-state-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.mamba.state_dim = n; }),
    count("mamba-num-groups", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.mamba.groups = n; }),
    // vocabulary
    count("padded-vocab-size", 1, 1 << 28, [](Draft& d, std::int64_t n) { d.run.model.vocabulary.padded = n; }),
    count("vocab-size", 1, 1 << 28, [](Draft& d, std::int64_t n) { d.run.model.vocabulary.size = n; }),
    count("vocab-extra-ids", 0, 1 << 24, [](Draft& d, std::int64_t n) { d.run.model.vocabulary.extra_ids = n; }),
    count("make-vocab-size-divisible-by", 1, 1 << 24,
          [](Draft& d, std::int64_t n) {
            d.run.model.vocabulary.multiple = n;
            d.run.model.vocabulary.multiple_given = true;
          }),
    text("tokenizer-type",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.run.model.vocabulary.tokenizer = t;
           return {};
         }),
    text("tokenizer-model",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.run.model.vocabulary.tokenizer_path = t;
           return {};
         }),
    text("tokenizer-name-or-path",
         [](Draft& d, std::string_view t) -> std::string_view {
           if (d.run.model.vocabulary.tokenizer_path.empty()) d.run.model.vocabulary.tokenizer_path = t;
           return {};
         }),
    // batch
    count("micro-batch-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.micro_batch = n; }),
    count("global-batch-size", 1, 1 << 30, [](Draft& d, std::int64_t n) { d.global_batch = n; }),
};

}  // namespace

std::span<const ArgumentRow> model_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
