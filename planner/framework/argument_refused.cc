#include <array>

#include "planner/framework/argument_rows.h"

namespace tidemark::framework {
namespace {

constexpr std::string_view kImages = "the vision tower of a multimodal model is not modelled";
constexpr std::string_view kReinforcement =
    "reinforcement learning: the memory of its inference engine is not modelled";
constexpr std::string_view kDistillation = "distillation: the teacher's memory is not modelled";
constexpr std::string_view kLora = "LoRA: memory of frozen layers is not modelled";
constexpr std::string_view kSparse = "sparse attention: memory of its indexer and compressed keys is not modelled";
constexpr std::string_view kLinear = "linear attention: memory of its states is not modelled";
constexpr std::string_view kGraphs = "CUDA graphs keep private pools that are not modelled";
constexpr std::string_view kHyper = "hyper-connections: their widened residual stream is not modelled";

constexpr std::array kRows = {
    refused("img-h", kImages),
    refused("img-w", kImages),
    refused("patch-dim", kImages),
    refused("perform-rl-step", kReinforcement),
    refused("export-kd-cfg", kDistillation),
    refused("export-kd-teacher-load", kDistillation),
    refused("export-te-mcore-model", "quantised export: the memory of its modules is not modelled"),
    refused("enable-dsa-indexer", kSparse),
    refused("use-sparse-flash-attn", kSparse),
    refused("compress-ratios", kSparse),
    refused("kv-compress", kSparse),
    refused("o-lora-rank", kSparse),
    refused("linear-num-key-heads", kLinear),
    refused("linear-num-value-heads", kLinear),
    refused("full-attention-interval", kLinear),
    refused("enable-mhc", kHyper),
    refused("enable-hyper-connections", kHyper),
    refused("use-torch-fsdp2", "PyTorch FSDP2 is not modelled; Megatron FSDP is"),
    refused("cpu-offloading", "layer-wise activation offloading of Transformer Engine is not modelled"),
    refused("encoder-tensor-model-parallel-size", "an encoder with parallel sizes of its own is not modelled"),
    refused("encoder-pipeline-model-parallel-size", "an encoder with parallel sizes of its own is not modelled"),
    refused("heterogeneous-layers-config-path", "layers of different shapes are not modelled"),
    refused("retro-add-retriever", "retrieval models are not modelled"),
    refused("hybrid-attention-ratio", "give the layers of a hybrid model with --hybrid-layer-pattern"),

    not_modelled("disable-vision-class-token", kImages),
    not_modelled("use-packed-sequence", "samples of a packed sequence are taken as one sequence"),
    not_modelled("cuda-graph-impl", kGraphs),
    not_modelled("cuda-graph-modules", kGraphs),
    not_modelled("cuda-graph-scope", kGraphs),
    not_modelled("cuda-graph-warmup-steps", kGraphs),
    not_modelled("enable-cuda-graph", kGraphs),
    not_modelled("external-cuda-graph", kGraphs),
    not_modelled("reuse-grad-buf-for-mxfp8-param-ag",
                 "a gradient buffer that holds gathered parameters is not modelled"),
    not_modelled("outer-dp-sharding-strategy", "sharding over the outer data-parallel groups is not modelled"),
    not_modelled("no-use-layer-wise-param-layout", "the parameter layout of the layer-wise optimizer is not modelled"),
    not_modelled("delay-wgrad-compute", "inputs kept for delayed weight gradients are not modelled"),
    not_modelled("distribute-saved-activations", "saved inputs split over tensor ranks are not modelled"),
    not_modelled("o2-gradient", "16-bit gradients of MindSpeed are not modelled"),
    not_modelled("cpu-offloading-num-layers", "layer-wise activation offloading of Transformer Engine is not modelled"),
    not_modelled("share-kvstates", "layers that share keys and values are taken from --cla-share-factor"),
    not_modelled("recompute-in-bubble", "activations recomputed in pipeline bubbles are not modelled"),
    not_modelled("swap-modules", "modules swapped one by one are not modelled"),
};

constexpr std::array kFamilies = {
    refused("rl-", kReinforcement),
    refused("grpo-", kReinforcement),
    refused("lora-", kLora),
    no_effect("inference-", "only inference"),
    no_effect("profile-", "profiling"),
    no_effect("megatron-fsdp-", "types of FSDP's buffers; the defaults are modelled"),
    no_effect("tensorboard-", "logging"),
    no_effect("wandb-", "logging"),
    no_effect("log-", "logging"),
    no_effect("muon-", "steps of the optimizer"),
    no_effect("rotary-", "rotary tables"),
    no_effect("rope-scaling-", "rotary tables"),
    no_effect("moe-router-", "routing; the share of tokens is modelled by its quantile"),
    no_effect("fim-", "data"),
    no_effect("straggler-", "logging"),
    no_effect("index-", "sizes of a sparse attention's indexer"),
    no_effect("lr-", "learning rate"),
};

}  // namespace

std::span<const ArgumentRow> refused_arguments() {
  return kRows;
}

std::span<const ArgumentRow> argument_families() {
  return kFamilies;
}

}  // namespace tidemark::framework
