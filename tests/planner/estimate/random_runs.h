#pragma once
// Random training runs of every kind, for properties that hold of all of them.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "tests/planner/estimate/memory_runs.h"

namespace tidemark::estimate::testing {

class RandomRuns {
 public:
  explicit RandomRuns(std::uint32_t seed) : random_(seed) {}

  TrainingRun next() {
    TrainingRun run = coin() ? gpt_run() : ascend_run();
    if (run.platform.accelerator != Accelerator::ascend) {
      run.platform.accelerator = pick({Accelerator::a100, Accelerator::h100, Accelerator::gb200});
      if (coin(4)) run.model.kind = pick({ModelClass::bert, ModelClass::t5, ModelClass::hybrid});
    }
    draw_parallel(run);
    draw_model(run);
    draw_switches(run);
    fill_world(run);
    return run;
  }
  std::int64_t rank_of(const TrainingRun& run) { return draw(0, run.parallel.world - 1); }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool coin(std::int64_t one_in = 2) { return draw(1, one_in) == 1; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + draw(0, static_cast<std::int64_t>(values.size()) - 1));
  }

  void draw_parallel(TrainingRun& run) {
    Parallel& parallel = run.parallel;
    parallel.tensor = pick<std::int64_t>({1, 2, 4});
    parallel.sequence_parallel = coin();
    parallel.context = pick<std::int64_t>({1, 1, 2});
    parallel.data = pick<std::int64_t>({1, 2, 4});
    parallel.pipeline = run.model.kind == ModelClass::t5 ? 1 : pick<std::int64_t>({1, 2, 4});
    if (parallel.pipeline > 1 && run.model.kind != ModelClass::hybrid) {
      parallel.virtual_pipeline = draw(1, 3);
      if (coin(4)) {
        parallel.schedule = Schedule::dualpipev;
        parallel.virtual_pipeline = 2;
      }
    }
    parallel.pipeline_inside_data = coin(4);
    parallel.overlap_expert_communication = coin(4);
    run.batch = {.micro = draw(1, 4), .global = 64, .micro_batches = draw(1, 4) * parallel.pipeline};
  }

  void draw_model(TrainingRun& run) {
    Model& model = run.model;
    model.sequence = 256 * draw(1, 8);
    model.decoder_sequence = 128;
    model.encoder_layers = model.kind == ModelClass::t5 ? 3 : 0;
    model.mtp_layers = model.kind == ModelClass::gpt && coin(4) ? 1 : 0;
    model.gated = coin();
    model.variable_lengths = coin(8);
    model.positions = pick({PositionEmbedding::learned_absolute, PositionEmbedding::rope, PositionEmbedding::none});
    Attention& attention = model.attention;
    attention.groups = pick<std::int64_t>({attention.heads, 4});
    attention.multi_latent = coin(4);
    attention.kv_lora_rank = 128;
    attention.q_lora_rank = coin() ? 256 : 0;
    attention.backend = pick({AttentionBackend::automatic, AttentionBackend::unfused, AttentionBackend::flash});
    attention.qk_norm = coin();
    fill_layout(run, draw(1, 3));
    if (model.kind == ModelClass::t5) model.layers = 3;
    if (model.kind == ModelClass::hybrid) model.hybrid_pattern = run.parallel.pipeline == 1 ? "M*-E/M*" : "M*|-E|MM|E";
    if (model.kind == ModelClass::hybrid && run.parallel.pipeline == 2) run.parallel.virtual_pipeline = 2;
    if (coin() || model.kind == ModelClass::hybrid) draw_experts(run);
  }

  void draw_experts(TrainingRun& run) {
    run.parallel.expert = std::min(run.parallel.data, pick<std::int64_t>({1, 2}));
    run.parallel.expert_tensor = run.parallel.tensor;
    run.model.moe = {.experts = 8,
                     .top_k = draw(1, 4),
                     .width = 512,
                     .shared_width = coin() ? 512 : 0,
                     .grouped_gemm = coin(),
                     .dispatcher = pick({Dispatcher::allgather, Dispatcher::alltoall, Dispatcher::flex}),
                     .capacity_factor = coin(3) ? 1.5 : 0,
                     .pad_to_capacity = coin(),
                     .zero_memory = pick({ZeroMemory::off, ZeroMemory::level0, ZeroMemory::level1})};
    run.model.moe.is_moe.assign(static_cast<std::size_t>(run.model.layers), true);
    if (coin()) run.model.moe.is_moe.front() = false;
  }

  void draw_switches(TrainingRun& run) {
    run.precision = pick({Precision::bf16, Precision::fp16, Precision::fp32});
    OptimizerState& optimizer = run.optimizer;
    optimizer.distributed = coin();
    optimizer.fsdp = coin(8);
    optimizer.gradient_16bit = run.precision == Precision::fp16;
    optimizer.overlap_grad_reduce = coin();
    optimizer.gradient_fusion = coin();
    optimizer.reuse_fp32_parameter = coin(4);
    optimizer.moments_16bit = coin(4);
    optimizer.on_host = coin(8);
    run.quantization = {.used = coin(6), .both_layouts = coin(), .parameters = coin()};
    run.recompute.granularity =
        pick({Recompute::Granularity::none, Recompute::Granularity::selective, Recompute::Granularity::full});
    run.recompute.method = pick({Recompute::Method::uniform, Recompute::Method::block});
    run.recompute.layers = draw(1, 3);
    run.recompute.layers_per_rank = coin();
    run.recompute.modules = pick<std::vector<std::string>>({{}, {"mlp", "layernorm"}, {"moe_act", "mla_up_proj"}});
    run.recompute.activation_function = coin(4);
    run.offload.attention = coin(8);
    run.loss.fused = coin();
    run.loss.fused_by_te = coin();
    run.loss.output_slices = draw(1, 2);
  }

  std::mt19937 random_;
};

}  // namespace tidemark::estimate::testing
