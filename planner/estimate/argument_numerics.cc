#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

/// Tokens before and after the query, `4096,0` or `(4096, 0)`; -1: all.
std::string_view set_window(Draft& d, std::string_view text) {
  const std::optional<std::vector<std::int64_t>> numbers = number_list(text, 2);
  if (!numbers || numbers->empty()) return "write tokens before and after the query, like 4096,0";
  d.run.model.attention.window = std::max<std::int64_t>(0, numbers->front());
  return {};
}

/// MindSpeed's window of every other layer.
std::string_view set_interleaved_window(Draft& d, std::string_view text) {
  const std::optional<std::vector<std::int64_t>> numbers = number_list(text, 1024);
  if (!numbers || numbers->empty()) return "write tokens, like 4096";
  d.run.model.attention.window = std::max<std::int64_t>(0, numbers->front());
  d.run.model.attention.skips_windows = true;
  return {};
}

/// One layer in so many attends to all, or a list of layers that do not.
std::string_view set_skipped_windows(Draft& d, std::string_view) {
  d.run.model.attention.skips_windows = true;
  return {};
}

// Kernels, scaling, routing and communication.
constexpr std::array kRows = {
    no_effect("apply-layernorm-1p", "kernels: the same tensors"),
    no_effect("apply-rope-fusion", "kernels: the same tensors"),
    no_effect("bias-dropout-fusion", "kernels: the same tensors"),
    no_effect("bias-gelu-fusion", "kernels: the same tensors"),
    no_effect("cache-mla-latents", "kernels: the same tensors"),
    no_effect("disable-bf16-reduced-precision-matmul", "kernels: the same tensors"),
    no_effect("enable-experimental", "kernels: the same tensors"),
    no_effect("inference-rng-tracker", "kernels: the same tensors"),
    no_effect("layernorm-epsilon", "kernels: the same tensors"),
    no_effect("mla-mm-split", "kernels: the same tensors"),
    no_effect("mla-up-proj-tp-overlap", "kernels: the same tensors"),
    no_effect("moe-router-fusion", "kernels: the same tensors"),
    no_effect("next-tockens", "kernels: the same tensors"),
    no_effect("no-bias-dropout-fusion", "kernels: the same tensors"),
    no_effect("no-bias-gelu-fusion", "kernels: the same tensors"),
    no_effect("no-clone-scatter-output-in-embedding", "kernels: the same tensors"),
    no_effect("no-masked-softmax", "kernels: the same tensors"),
    no_effect("no-persist-layer-norm", "kernels: the same tensors"),
    no_effect("no-rope-fusion", "kernels: the same tensors"),
    no_effect("no-shared-storage", "kernels: the same tensors"),
    no_effect("norm-epsilon", "kernels: the same tensors"),
    no_effect("npu-deterministic", "kernels: the same tensors"),
    no_effect("onnx-safe", "kernels: the same tensors"),
    no_effect("persist-layer-norm", "kernels: the same tensors"),
    no_effect("pre-tockens", "kernels: the same tensors"),
    no_effect("sparse-mode", "kernels: the same tensors"),
    no_effect("te-rng-tracker", "kernels: the same tensors"),
    no_effect("use-fused-ring-attention-update", "kernels: the same tensors"),
    no_effect("use-fused-softmax", "kernels: the same tensors"),
    no_effect("use-kitchen", "kernels: the same tensors"),
    no_effect("use-te-activation-func", "kernels: the same tensors"),
    no_effect("activation-func-clamp-value", "scaling and activation functions: no tensor of its own"),
    no_effect("apply-query-key-layer-scaling", "scaling and activation functions: no tensor of its own"),
    no_effect("attention-multiplier", "scaling and activation functions: no tensor of its own"),
    no_effect("dim-model-base", "scaling and activation functions: no tensor of its own"),
    no_effect("embedding-multiplier-scale", "scaling and activation functions: no tensor of its own"),
    no_effect("fill-neg-inf", "scaling and activation functions: no tensor of its own"),
    no_effect("noisy-gate-policy", "scaling and activation functions: no tensor of its own"),
    no_effect("fix-router", "scaling and activation functions: no tensor of its own"),
    no_effect("fp16-lm-cross-entropy", "scaling and activation functions: no tensor of its own"),
    no_effect("gelu-tanh", "scaling and activation functions: no tensor of its own"),
    no_effect("glu-linear-offset", "scaling and activation functions: no tensor of its own"),
    no_effect("input-embeds-norm", "scaling and activation functions: no tensor of its own"),
    no_effect("input-jitter", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-apply-probs-on-input", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-aux-loss-coeff", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-comm-aux-loss-coeff", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-device-level-aux-loss-coeff", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-input-jitter-eps", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-permutation-async-comm", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-revert-type-after-topk", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-token-drop-policy", "scaling and activation functions: no tensor of its own"),
    no_effect("moe-z-loss-coeff", "scaling and activation functions: no tensor of its own"),
    no_effect("mscale", "scaling and activation functions: no tensor of its own"),
    no_effect("mscale-all-dim", "scaling and activation functions: no tensor of its own"),
    no_effect("mtp-loss-scaling-factor", "scaling and activation functions: no tensor of its own"),
    no_effect("no-query-key-layer-scaling", "scaling and activation functions: no tensor of its own"),
    no_effect("norm-topk-prob", "scaling and activation functions: no tensor of its own"),
    no_effect("openai-gelu", "scaling and activation functions: no tensor of its own"),
    no_effect("output-multiplier-scale", "scaling and activation functions: no tensor of its own"),
    no_effect("qk-l2-norm", "scaling and activation functions: no tensor of its own"),
    no_effect("query-pre-attn-scalar", "scaling and activation functions: no tensor of its own"),
    no_effect("routed-scaling-factor", "scaling and activation functions: no tensor of its own"),
    no_effect("router-gating-in-fp32", "scaling and activation functions: no tensor of its own"),
    no_effect("scale-depth", "scaling and activation functions: no tensor of its own"),
    no_effect("scale-emb", "scaling and activation functions: no tensor of its own"),
    no_effect("seq-aux", "scaling and activation functions: no tensor of its own"),
    no_effect("skip-bias-add", "scaling and activation functions: no tensor of its own"),
    no_effect("softmax-scale", "scaling and activation functions: no tensor of its own"),
    no_effect("square-alibi-mask", "scaling and activation functions: no tensor of its own"),
    no_effect("squared-relu", "scaling and activation functions: no tensor of its own"),
    no_effect("topk-group", "scaling and activation functions: no tensor of its own"),
    no_effect("topk-softmax-in-fp32", "scaling and activation functions: no tensor of its own"),
    no_effect("beta-fast", "rotary tables are small"),
    no_effect("beta-slow", "rotary tables are small"),
    no_effect("dynamic-factor", "rotary tables are small"),
    no_effect("high-freq-factor", "rotary tables are small"),
    no_effect("long-factor", "rotary tables are small"),
    no_effect("longrope-factor", "rotary tables are small"),
    no_effect("longrope-freqs-type", "rotary tables are small"),
    no_effect("low-freq-factor", "rotary tables are small"),
    no_effect("mrope-section", "rotary tables are small"),
    no_effect("no-rope-freq", "rotary tables are small"),
    no_effect("original-max-position-embeddings", "rotary tables are small"),
    no_effect("partial-rotary", "rotary tables are small"),
    no_effect("rope-type", "rotary tables are small"),
    no_effect("short-factor", "rotary tables are small"),
    no_effect("use-glm-rope", "rotary tables are small"),
    no_effect("use-rope-scaling", "rotary tables are small"),
    no_effect("yarn-scaling-factor", "rotary tables are small"),
    // Windows change what a fused kernel reads, and how long it takes, not what it keeps.
    count("sliding-window", 0, kMostTokens, [](Draft& d, std::int64_t n) { d.run.model.attention.window = n; }),
    text("interleave-sliding-window", set_interleaved_window),
    text("window-attn-skip-freq", set_skipped_windows),
    text("window-size", set_window),
    no_effect("mamba-chunk-size", "fixed by the head count"),
    no_effect("mamba-d-conv", "fixed by the head count"),
    no_effect("mamba-expand", "fixed by the head count"),
    no_effect("first-last-layers-bf16", "few layers of an 8-bit run"),
    no_effect("num-layers-at-end-in-bf16", "few layers of an 8-bit run"),
    no_effect("num-layers-at-start-in-bf16", "few layers of an 8-bit run"),
    no_effect("fp8-amax-compute-algo", "scaling factors of 8-bit types are small"),
    no_effect("fp8-amax-history-len", "scaling factors of 8-bit types are small"),
    no_effect("fp8-interval", "scaling factors of 8-bit types are small"),
    no_effect("fp8-margin", "scaling factors of 8-bit types are small"),
    no_effect("fp8-wgrad", "scaling factors of 8-bit types are small"),
    no_effect("no-fp8-wgrad", "scaling factors of 8-bit types are small"),
    no_effect("te-precision-config-file", "scaling factors of 8-bit types are small"),
    no_effect("align-grad-reduce", "communication: when, not how much is held"),
    no_effect("align-param-gather", "communication: when, not how much is held"),
    no_effect("async-log-allreduce", "communication: when, not how much is held"),
    no_effect("coc-fused-kernel", "communication: when, not how much is held"),
    no_effect("coc-mode", "communication: when, not how much is held"),
    no_effect("coc-parallel-num", "communication: when, not how much is held"),
    no_effect("ddp-average-in-collective", "communication: when, not how much is held"),
    no_effect("ddp-pad-buckets-for-high-nccl-busbw", "communication: when, not how much is held"),
    no_effect("ddp-reduce-scatter-with-fp32-accumulation", "communication: when, not how much is held"),
    no_effect("defer-p2p-send-wait", "communication: when, not how much is held"),
    no_effect("delay-grad-reduce", "communication: when, not how much is held"),
    no_effect("disable-symmetric-registration", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-bulk-dgrad", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-bulk-wgrad", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-overlap-ag", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-overlap-rs", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-split-ag", "communication: when, not how much is held"),
    no_effect("disable-tp-comm-split-rs", "communication: when, not how much is held"),
    no_effect("hccl-ep-group-buffer-adaptive-factor", "communication: when, not how much is held"),
    no_effect("hccl-group-buffer", "communication: when, not how much is held"),
    no_effect("hccl-group-buffer-adaptive", "communication: when, not how much is held"),
    no_effect("hccl-slice-size", "communication: when, not how much is held"),
    no_effect("high-priority-stream-groups", "communication: when, not how much is held"),
    no_effect("moe-alltoall-overlap-comm", "communication: when, not how much is held"),
    no_effect("moe-bmm-mc2", "communication: when, not how much is held"),
    no_effect("moe-deepep-num-sms", "communication: when, not how much is held"),
    no_effect("moe-enable-deepep", "communication: when, not how much is held"),
    no_effect("moe-flex-dispatcher-backend", "communication: when, not how much is held"),
    no_effect("moe-flex-dispatcher-num-sms", "communication: when, not how much is held"),
    no_effect("moe-hierarchical-alltoallv", "communication: when, not how much is held"),
    no_effect("moe-hybridep-num-sms", "communication: when, not how much is held"),
    no_effect("moe-shared-expert-overlap", "communication: when, not how much is held"),
    no_effect("nccl-communicator-config-path", "communication: when, not how much is held"),
    no_effect("no-align-grad-reduce", "communication: when, not how much is held"),
    no_effect("no-align-param-gather", "communication: when, not how much is held"),
    no_effect("no-async-tensor-model-parallel-allreduce", "communication: when, not how much is held"),
    no_effect("no-gradient-reduce-div-fusion", "communication: when, not how much is held"),
    no_effect("no-overlap-p2p-communication", "communication: when, not how much is held"),
    no_effect("no-scatter-gather-tensors-in-pipeline", "communication: when, not how much is held"),
    no_effect("optimize-send-recv-comm", "communication: when, not how much is held"),
    no_effect("optimize-vpp-send-comm", "communication: when, not how much is held"),
    no_effect("overlap-p2p-communication", "communication: when, not how much is held"),
    no_effect("overlap-p2p-communication-warmup-flush", "communication: when, not how much is held"),
    no_effect("overlap-param-gather", "communication: when, not how much is held"),
    no_effect("overlap-param-gather-with-optimizer-step", "communication: when, not how much is held"),
    no_effect("param-and-grad-buffer-pad", "communication: when, not how much is held"),
    no_effect("pipeline-model-parallel-comm-backend", "communication: when, not how much is held"),
    no_effect("reset-bucket-group-order", "communication: when, not how much is held"),
    no_effect("sharp-enabled-group", "communication: when, not how much is held"),
    no_effect("torch-fsdp2-no-reshard-after-forward", "communication: when, not how much is held"),
    no_effect("tp-comm-bootstrap-backend", "communication: when, not how much is held"),
    no_effect("tp-comm-overlap-cfg", "communication: when, not how much is held"),
    no_effect("tp-comm-overlap-rs-dgrad", "communication: when, not how much is held"),
    no_effect("use-ascend-mc2", "communication: when, not how much is held"),
    no_effect("use-mc2", "communication: when, not how much is held"),
    no_effect("use-ring-exchange-p2p", "communication: when, not how much is held"),
    no_effect("use-sharp", "communication: when, not how much is held"),
    no_effect("adaptive-cp-dynamic-attn-mask", "how context ranks exchange their parts"),
    no_effect("adaptive-cp-manually-set-mask-list", "how context ranks exchange their parts"),
    no_effect("adaptive-cp-only-reschedule", "how context ranks exchange their parts"),
    no_effect("adaptive-cp-without-coarse", "how context ranks exchange their parts"),
    no_effect("cp-comm-type", "how context ranks exchange their parts"),
    no_effect("cp-window-size", "how context ranks exchange their parts"),
    no_effect("hierarchical-context-parallel-sizes", "how context ranks exchange their parts"),
    no_effect("megatron-cp-in-bnsd", "how context ranks exchange their parts"),
    no_effect("use-cp-send-recv-overlap", "how context ranks exchange their parts"),
    no_effect("dpo-beta", "preference loss: the same logits"),
    no_effect("dpo-ftx-gamma", "preference loss: the same logits"),
    no_effect("dpo-label-smoothing", "preference loss: the same logits"),
    no_effect("dpo-loss-type", "preference loss: the same logits"),
    no_effect("gamma-beta-ratio", "preference loss: the same logits"),
    no_effect("pref-ftx", "preference loss: the same logits"),
    no_effect("ref-model", "preference loss: the same logits"),
    no_effect("refer-model-iter", "preference loss: the same logits"),
    no_effect("simpo-beta", "preference loss: the same logits"),
    no_effect("tp-x", "sizes of a two-dimensional tensor parallelism whose switch is refused"),
    no_effect("tp-y", "sizes of a two-dimensional tensor parallelism whose switch is refused"),
    no_effect("nd1-dim1-size", "sizes of a two-dimensional tensor parallelism whose switch is refused"),
    no_effect("nd2-dim1-size", "sizes of a two-dimensional tensor parallelism whose switch is refused"),
    no_effect("enable-mla-absorb", "sizes of a sparse attention whose switch is refused"),
    no_effect("indexer-loss-coeff", "sizes of a sparse attention whose switch is refused"),
    no_effect("no-use-sparse-c8-indexer", "sizes of a sparse attention whose switch is refused"),
    no_effect("use-fused-lightning-indexer", "sizes of a sparse attention whose switch is refused"),
    no_effect("use-fused-lightning-indexer-loss", "sizes of a sparse attention whose switch is refused"),
};

}  // namespace

std::span<const ArgumentRow> numerics_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
