#include "planner/step_time/software.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace tidemark::step_time {
namespace {

/// Megatron before fused attention: scores in memory, no sequence parallelism unless a run says so, sends not hidden.
/// Its host starts the passes of every checkpointed layer anew.
Software eager_megatron(std::string_view name) {
  Software software{.name = std::string(name)};
  software.is_eager = true;
  software.hidden_passes = 10;
  software.loss_bytes = 12;
  software.layer_launches = 32;
  software.head_launches = 30;
  software.exchange_hidden = 0;
  software.gradient_bytes = 4;
  software.weight_bytes = 0;
  software.optimizer_bytes = 20;
  software.weight_gradient_bytes = 6;
  software.is_sequence_parallel = false;
  software.send_hidden = 0;
  software.step_s = 5e-3;
  software.pass_corner = 2.75;
  return software;
}

/// vTrain (VIA-Research/vTrain), data/ground_truth_single.csv: Megatron-DeepSpeed of 2022-23, fp16, one node. The head
/// takes 2.5 times as long at tp 1 as tp 2 scaled, which the TF32 rate explains; sends reach 7 % of NVLink.
Software vtrain() {
  Software software = eager_megatron("vtrain");
  software.gradient_bytes = 2;
  software.has_one_link = true;
  software.send_rate = 0.07;
  software.has_tf32_head = true;
  return software;
}

/// vTrain, data/ground_truth_multi.csv: the same line of code on 64 to 512 A100; gradients in fp32, rings on few links.
Software vtrain_multi() {
  Software software = eager_megatron("vtrain-multi");
  software.has_one_link = true;
  return software;
}

/// Megatron-LM of arXiv:2104.04473 (SC21): before sequence parallelism.
Software megatron_2021() {
  Software software = eager_megatron("megatron-2021");
  software.optimizer_bytes = 30;
  software.has_one_link = true;
  software.send_rate = 0.5;
  return software;
}

/// Megatron-LM of arXiv:2205.05198: sequence parallelism and selective recompute; weights gathered after the update.
Software megatron_2022() {
  Software software = eager_megatron("megatron-2022");
  software.layer_launches = 28;
  software.weight_bytes = 2;
  software.optimizer_bytes = 30;
  software.send_rate = 0.5;
  return software;
}

/// llm-foundry (mosaicml/llm-foundry), scripts/train/benchmarking of 2024-04: FSDP, FlashAttention-2 on every device.
Software foundry() {
  Software software{.name = "foundry"};
  software.hidden_passes = 11;
  software.activation_factor = 1.6;
  software.loss_bytes = 20;
  software.layer_launches = 24;
  software.is_flash_2 = true;
  software.weight_gradient_bytes = 4;
  software.is_sequence_parallel = false;
  software.step_s = 5e-3;
  return software;
}

/// InternEvo (InternLM/InternEvo), doc/en/train_performance: ZeRO-1 whose new weights are broadcast tensor by tensor.
Software internevo() {
  Software software{.name = "internevo"};
  software.hidden_passes = 10;
  software.loss_bytes = 20;
  software.layer_launches = 18;
  software.exchange_hidden = 0.3;
  software.gradient_bytes = 2;
  software.is_sequence_parallel = false;
  software.broadcasts_weights = true;
  software.step_s = 20e-3;
  return software;
}

/// What FSDP2-like code in plain PyTorch shares.
Software plain_fsdp(std::string_view name, double layer_launches) {
  Software software{.name = std::string(name)};
  software.loss_bytes = 20;
  software.layer_launches = layer_launches;
  software.weight_gradient_bytes = 4;
  software.step_s = 5e-3;
  return software;
}

/// torchtitan (pytorch/torchtitan), benchmarks of 2024-04 to 2025-06.
Software titan() {
  return plain_fsdp("titan", 16);
}

/// fms-fsdp (foundation-model-stack/fms-fsdp) of 2024: compiled blocks, FlashAttention-2.
Software fms() {
  Software software = plain_fsdp("fms", 12);
  software.is_flash_2 = true;
  return software;
}

/// JAX-Toolbox (NVIDIA/JAX-Toolbox), Pax and MaxText of 2024: one compiled program a step.
Software jax() {
  Software software = plain_fsdp("jax", 4);
  software.loss_bytes = 16;
  software.step_s = 0;
  return software;
}

/// What recipes of NeMo have in common: cuDNN attention, buffers that hide tensor parallel traffic, bf16 gradients.
Software nemo_recipe(std::string_view name) {
  Software software{.name = std::string(name)};
  software.loss_bytes = 12;
  software.layer_launches = 16;
  software.tensor_hidden = 0.75;
  software.gradient_bytes = 2;
  software.step_s = 5e-3;
  return software;
}

/// NVIDIA/dgxc-benchmarking, releases 24.11 to 25.08: NeMo recipes.
Software dgxc() {
  Software software = nemo_recipe("dgxc");
  software.ungated_passes = 4;
  return software;
}

/// NVIDIA/NeMo and NeMo-Framework-Launcher, performance summaries.
Software nemo() {
  Software software = nemo_recipe("nemo");
  software.ungated_passes = 4;
  return software;
}

/// NVIDIA-NeMo/Megatron-Bridge, releases 25.09 to 26.08: fused permutation and router.
Software bridge() {
  Software software = nemo_recipe("bridge");
  software.moe_launches = 35;
  return software;
}

/// Megatron-LM with Megatron-Core, its functional tests.
Software megatron_core() {
  Software software{.name = "megatron-core"};
  software.loss_bytes = 12;
  software.layer_launches = 18;
  software.step_s = 5e-3;
  return software;
}

/// What the two lines for Ascend share. Experts are not balanced by force: the fullest device has 1.15 of the mean.
Software ascend_line(std::string_view name) {
  Software software{.name = std::string(name)};
  software.hidden_passes = 10;
  software.loss_bytes = 20;
  software.layer_launches = 20;
  software.send_hidden = 0;
  software.imbalance = 1.15;
  software.step_s = 20e-3;
  return software;
}

/// MindSpeed-LLM (Ascend/MindSpeed-LLM), tables of RC1 to 25.12; its CI baselines under a name of their own.
Software mindspeed_line(std::string_view name) {
  Software software = ascend_line(name);
  software.exchange_hidden = 0;
  return software;
}

/// The releases of the tables; what permutes tokens in one kernel is an option that their scripts do not set.
Software mindspeed() {
  Software software = mindspeed_line("mindspeed");
  software.permutes_plainly = true;
  return software;
}

/// MindFormers (mindspore-lab/mindformers) r1.0 to r1.5: MindSpore's graph mode launches nothing from the host.
Software mindformers() {
  Software software = ascend_line("mindformers");
  software.gradient_bytes = 2;
  software.is_graph = true;
  return software;
}

const std::vector<Software>& table() {
  static const std::vector<Software> software = [] {
    std::vector<Software> all = {
        vtrain(),     vtrain_multi(), megatron_2021(), megatron_2022(), foundry(),
        internevo(),  titan(),        fms(),           jax(),           dgxc(),
        nemo(),       bridge(),       megatron_core(), mindspeed(),     mindspeed_line("mindspeed-ci"),
        mindformers()};
    std::ranges::sort(all, {}, &Software::name);
    return all;
  }();
  return software;
}

struct Origin {
  std::string_view pattern, software;
};

/// The first that a source contains decides: narrower ones stand first.
constexpr std::array kOrigins = {Origin{"ground_truth_multi", "vtrain-multi"},
                                 Origin{"VIA-Research", "vtrain"},
                                 Origin{"2104.04473", "megatron-2021"},
                                 Origin{"2205.05198", "megatron-2022"},
                                 Origin{"llm-foundry", "foundry"},
                                 Origin{"InternEvo", "internevo"},
                                 Origin{"torchtitan", "titan"},
                                 Origin{"fms-fsdp", "fms"},
                                 Origin{"JAX", "jax"},
                                 Origin{"Megatron-Bridge", "bridge"},
                                 Origin{"dgxc", "dgxc"},
                                 Origin{"NVIDIA/NeMo", "nemo"},
                                 Origin{"Megatron-LM", "megatron-core"},
                                 Origin{"MindSpeed-LLM tests", "mindspeed-ci"},
                                 Origin{"MindSpeed", "mindspeed"},
                                 Origin{"mindformers", "mindformers"}};

}  // namespace

std::span<const Software> all_software() {
  return table();
}

const Software* find_software(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Software::name);
  return found == table().end() ? nullptr : &*found;
}

const Software* software_of(std::string_view source) {
  const auto found = std::ranges::find_if(
      kOrigins, [&](const Origin& origin) { return source.find(origin.pattern) != std::string_view::npos; });
  return found == kOrigins.end() ? nullptr : find_software(found->software);
}

}  // namespace tidemark::step_time
