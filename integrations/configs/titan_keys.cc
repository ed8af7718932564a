#include "integrations/configs/titan_keys.h"

#include <array>

#include "integrations/configs/key_reasons.h"

namespace tidemark::configs {
namespace {

constexpr std::string_view kFault = "fault tolerance keeps what is not modelled";
constexpr std::string_view kEightBit =
    "8-bit copies live for one product: the published runs with float8 take 0.2 GiB less than those without";
constexpr std::string_view kSplit = "stages that are not divided by torchtitan's own rule are not modelled";

constexpr auto kRules = std::to_array<KeyRule>({
    own_key("model.name"),
    own_key("model.flavor"),
    own_key("model.converters"),
    no_bytes("model.tokenizer_path", kTokenizer),
    no_bytes("model.hf_assets_path", kTokenizer),
    no_bytes("model.tokenizer_backend", kTokenizer),
    no_bytes("model.print_after_conversion", kLogging),
    no_bytes("model.norm_type", "norms are taken as RMSNorm, which all flavors have"),
    own_key("training.local_batch_size"),
    own_key("training.batch_size"),
    own_key("training.global_batch_size"),
    own_key("training.seq_len"),
    own_key("training.mixed_precision_param"),
    own_key("training.mixed_precision_reduce"),
    own_key("training.compile"),
    doubtful("training.enable_cpu_offload", "state kept on the host by FSDP2 is not modelled"),
    doubtful("training.dtype", "master weights of another type than fp32 are not modelled", "float32"),
    no_bytes("training.dataset", kData),
    no_bytes("training.dataset_path", kData),
    no_bytes("training.max_norm", kSteps),
    no_bytes("training.steps", kLoop),
    no_bytes("training.warmup_steps", kLoop),
    no_bytes("training.gc_freq", kLoop),
    no_bytes("training.gc_debug", kLoop),
    no_bytes("training.seed", kSeeds),
    no_bytes("training.deterministic", kKernels),
    no_bytes("training.deterministic_warn_only", kKernels),
    own_key("compile.enable"),
    own_key("compile.components"),
    no_bytes("compile.backend", kKernels),
    no_bytes("compile.fullgraph", kKernels),
    own_key("parallelism.data_parallel_replicate_degree"),
    own_key("parallelism.data_parallel_shard_degree"),
    own_key("parallelism.fsdp_reshard_after_forward"),
    own_key("parallelism.tensor_parallel_degree"),
    own_key("parallelism.disable_loss_parallel"),
    own_key("parallelism.context_parallel_degree"),
    own_key("parallelism.pipeline_parallel_degree"),
    own_key("parallelism.pipeline_parallel_layers_per_stage"),
    own_key("parallelism.pipeline_parallel_first_stage_less_layers"),
    own_key("parallelism.pipeline_parallel_last_stage_less_layers"),
    own_key("parallelism.pipeline_parallel_schedule"),
    own_key("parallelism.pipeline_parallel_microbatch_size"),
    own_key("parallelism.expert_parallel_degree"),
    own_key("parallelism.expert_tensor_parallel_degree"),
    doubtful("parallelism.pipeline_parallel_split_points", kSplit),
    doubtful("parallelism.module_fqns_per_model_part", kSplit),
    doubtful("parallelism.pipeline_parallel_schedule_csv", "a schedule of its own file is not modelled"),
    doubtful("parallelism.pipeline_parallel_expert_parallel_overlap", "two micro-batches at once are not modelled"),
    doubtful("parallelism.enable_async_tensor_parallel",
             "symmetric buffers of asynchronous tensor parallelism are not modelled"),
    doubtful("parallelism.enable_compiled_autograd", "a compiled backward pass keeps other tensors"),
    no_bytes("parallelism.context_parallel_rotate_method", kContextParts),
    no_bytes("parallelism.expert_parallel_comm_backend", "how experts' ranks exchange tokens"),
    own_key("activation_checkpoint.mode"),
    own_key("activation_checkpoint.selective_ac_option"),
    no_bytes("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
             "the router's product, a few numbers a token"),
    no_bytes("activation_checkpoint.early_stop", kLoop),
    no_bytes("activation_checkpoint.preserve_rng_state", kSeeds),
    no_bytes("activation_checkpoint.determinism_check", kLoop),
    no_bytes("activation_checkpoint.debug", kLogging),
    own_key("optimizer.name"),
    doubtful("optimizer.implementation", "copies that an unfused step makes are not modelled", "fused"),
    doubtful("optimizer.early_step_in_backward", "gradients freed within backward are not modelled"),
    doubtful("optimizer.state_dtype", "optimizer state of another type is not modelled", "float32"),
    no_bytes("optimizer.lr", kSteps),
    no_bytes("optimizer.beta1", kSteps),
    no_bytes("optimizer.beta2", kSteps),
    no_bytes("optimizer.eps", kSteps),
    no_bytes("optimizer.weight_decay", kSteps),
    doubtful("fault_tolerance.enable", kFault),
    no_bytes("fault_tolerance.*", "matters only with fault_tolerance.enable"),
    doubtful("experimental.custom_import", "code of one's own is not known here"),
    doubtful("experimental.custom_args_module", "code of one's own is not known here"),
    no_bytes("job.custom_config_module", "reads keys that are judged one by one"),
    own_key("validation.enabled"),
    own_key("validation.enable"),
    own_key("validation.local_batch_size"),
    own_key("validation.seq_len"),
    no_bytes("validation.*", kEvaluation),
    no_bytes("job.*", kLogging),
    no_bytes("profiling.*", kProfiling),
    no_bytes("metrics.*", kLogging),
    no_bytes("lr_scheduler.*", kLearningRate),
    no_bytes("checkpoint.*", kCheckpoints),
    no_bytes("comm.*", "time-outs and traces"),
    no_bytes("debug.*", kKernels),
    no_bytes("memory_estimation.*", "an estimate of torchtitan's own"),
    no_bytes("float8.*", kEightBit),
    no_bytes("quantize.*", kEightBit),
    no_bytes("mx.*", kEightBit),
    refused_key("lora", "LoRA: memory of frozen layers is not modelled"),
    refused_key("lora.*", "LoRA: memory of frozen layers is not modelled"),
    refused_key("peft.*", "LoRA and other adapters: memory of frozen layers is not modelled"),
});

}  // namespace

const KeyTable& titan_table() {
  static const KeyTable table = {.rules = kRules};
  return table;
}

}  // namespace tidemark::configs
