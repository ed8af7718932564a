#include <array>

#include "planner/estimate/argument_rows.h"

namespace tidemark::estimate {
namespace {

constexpr std::string_view kImages = "the vision tower of a multimodal model is not modelled";
constexpr std::string_view kReinforcement =
    "reinforcement learning: the memory of its inference engine is not modelled";
constexpr std::string_view kDistillation = "distillation: the teacher's memory is not modelled";
constexpr std::string_view kLora = "LoRA: memory of frozen layers is not modelled";
constexpr std::string_view kSparse = "sparse attention: memory of its indexer and compressed keys is not modelled";
constexpr std::string_view kLinear = "linear attention: memory of its states is not modelled";
constexpr std::string_view kGraphs = "CUDA graphs keep private pools that are not modelled";
constexpr std::string_view kTwoDimensional = "two-dimensional tensor parallelism is not modelled";
constexpr std::string_view kDelayed = "inputs kept for delayed weight gradients are not modelled";
constexpr std::string_view kAdaptive =
    "what is recomputed or swapped is decided while the job runs; that is not modelled";
constexpr std::string_view kHyper = "hyper-connections: their widened residual stream is not modelled";

constexpr std::array kRows = {
    refused("yaml-cfg", "the file replaces all arguments here; give it instead"),
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
    refused("qlora", kLora),
    refused("layerwise-disaggregated-training", "stages of one model on two sites are not modelled"),
    refused("use-torch-fsdp2", "PyTorch FSDP2 is not modelled; Megatron FSDP is"),
    refused("cpu-offloading", "layer-wise activation offloading of Transformer Engine is not modelled"),
    refused("encoder-tensor-model-parallel-size", "an encoder with parallel sizes of its own is not modelled"),
    refused("encoder-pipeline-model-parallel-size", "an encoder with parallel sizes of its own is not modelled"),
    refused("heterogeneous-layers-config-path", "layers of different shapes are not modelled"),
    refused("retro-add-retriever", "retrieval models are not modelled"),
    refused("hybrid-attention-ratio", "give the layers of a hybrid model with --hybrid-layer-pattern"),

    refused("batch-size", "it is no longer taken; write --micro-batch-size"),
    refused("checkpoint-activations", "it is no longer taken; write --recompute-activations"),
    refused("tp-2d", kTwoDimensional),
    refused("use-nd-matmul", kTwoDimensional),
    refused("layerzero", "layer-wise sharding of MindSpeed is not modelled"),
    refused("use-fsdp2", "PyTorch FSDP2 is not modelled; Megatron FSDP is"),
    refused("use-legacy-models", "models before Megatron-Core are not modelled"),
    refused("heterogeneous-layers-config-encoded-json", "layers of different shapes are not modelled"),
    refused("experimental-attention-variant", kSparse),
    refused("sliding-window-size", kSparse),
    refused("pipeline-model-parallel-split-rank", "an encoder on pipeline ranks of its own is not modelled"),

    not_modelled("disable-vision-class-token", kImages),
    not_modelled("fp32-residual-connection", "residual connections in fp32 are not modelled: twice as wide"),
    not_modelled("tp-comm-overlap", "buffers of overlapped tensor communication are not modelled"),
    not_modelled("use-nccl-ub", "registered communication buffers are not modelled"),
    not_modelled("nccl-ub", "registered communication buffers are not modelled"),
    not_modelled("fsdp-double-buffer", "FSDP's second communication buffer is not modelled"),
    not_modelled("suggested-communication-unit-size", "FSDP's communication buffers are not modelled"),
    not_modelled("keep-fp8-transpose-cache", "transposed 8-bit weights kept by FSDP are not modelled"),
    not_modelled("enable-full-sharding-in-hsdp", "sharding over the outer data-parallel groups is not modelled"),
    not_modelled("moe-extended-tp", "it is no longer taken; write --expert-tensor-parallel-size"),
    not_modelled("overlap-dispatch-backward-with-experts-wgrad", kDelayed),
    not_modelled("dualpipev-dw-detach", kDelayed),
    not_modelled("qk-clip", "the largest scores kept for clipping are not modelled"),
    not_modelled("attention-output-gate", "the gate on the attention's output is not modelled"),
    not_modelled("skip-train", "a run without training is not modelled"),
    not_modelled("use-ema", "an average of the weights kept beside them is not modelled"),
    not_modelled("quant-states", "quantised optimizer state is not modelled"),
    not_modelled("quant-grads", "quantised gradients are not modelled"),
    not_modelled("virtual-optimizer", "optimizer state moved by pages is not modelled"),
    not_modelled("smart-swap", kAdaptive),
    not_modelled("adaptive-memory-optimization", kAdaptive),
    not_modelled("adaptive-recompute-device-swap", kAdaptive),
    not_modelled("adaptive-recompute-device-size", kAdaptive),
    not_modelled("moe-adaptive-recompute-activation", kAdaptive),
    not_modelled("automated-pipeline", kAdaptive),
    not_modelled("swap-layer-input", "layer inputs swapped to the host are not modelled"),
    not_modelled("moe-unperm2-mem-optim", "the un-permute that keeps less is not modelled"),
    not_modelled("moe-unperm2-mem-optim-swap", "the un-permute that keeps less is not modelled"),
    not_modelled("moe-experts-pipeline-degree", "experts in pipelined parts are not modelled"),
    not_modelled("use-pipe-experts", "experts in pipelined parts are not modelled"),
    not_modelled("ampipe-degree", "attention in pipelined parts is not modelled"),
    not_modelled("balanced-moe-experts", "copies of busy experts are not modelled"),
    not_modelled("enable-high-availability", "copies of optimizer state for recovery are not modelled"),
    not_modelled("enable-optimizer-state-local-copy", "copies of optimizer state for recovery are not modelled"),
    not_modelled("use-multiparameter-pipeline-model-parallel", "several tensors between stages are not modelled"),
    not_modelled("use-fused-mlp", "what the fused feed-forward part keeps is not modelled"),
    not_modelled("use-nanopipe", "weight gradients that wait for pipeline bubbles are not modelled"),
    not_modelled("moe-zerc", "tokens moved by their experts' ranks are not modelled"),
    not_modelled("enable-token-rearrange-opt", "rearranged tokens of experts are not modelled"),
    not_modelled("shared-expert-gate-output-dimension", "the gate of the shared experts is taken as one column"),
    not_modelled("input-layernorm-in-fp32", "norms in fp32 are not modelled"),
    not_modelled("no-post-layer-norm", "the final norm is modelled as if it were there"),
    not_modelled("add-output-layer-bias", "a bias of the output layer is not modelled"),
    not_modelled("embed-layernorm", "a norm behind the embedding is not modelled"),
    not_modelled("add-lmhead-bias", "a bias of the output layer is not modelled"),
    not_modelled("compress-activation", "compressed activations are not modelled"),
    not_modelled("compress-dense", "compressed activations are not modelled"),
    not_modelled("compress-optimizer", "compressed optimizer state is not modelled"),
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
    not_modelled("delay-wgrad-compute", kDelayed),
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
    refused("fsdp2-", "PyTorch FSDP2 is not modelled; Megatron FSDP is"),
    refused("dino-", "vision models are not modelled"),
    refused("swin-", "vision models are not modelled"),
    refused("retro-", "retrieval models are not modelled"),
    no_effect("langrl-", "reinforcement learning"),
    no_effect("nsys-", "profiling"),
    no_effect("ft-", "fault tolerance"),
    no_effect("inprocess-", "fault tolerance"),
    no_effect("ckpt-", "checkpoints"),
    no_effect("dist-ckpt-", "checkpoints"),
    no_effect("one-logger-", "logging"),
    no_effect("inference-", "only inference"),
    no_effect("profile-", "profiling"),
    no_effect("megatron-fsdp-", "types of FSDP's communication; the defaults are modelled"),
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

}  // namespace tidemark::estimate
