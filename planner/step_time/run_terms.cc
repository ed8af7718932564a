#include "planner/step_time/run_terms.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tidemark::step_time {
namespace {

constexpr std::array<std::pair<std::string_view, TimeTerm>, 8> kModuleTerms = {
    {{"core_attn", TimeTerm::core_attention_recomputed},
     {"mla_up_proj", TimeTerm::latent_projections_recomputed},
     {"mlp", TimeTerm::dense_feed_forward_recomputed},
     {"moe", TimeTerm::moe_recomputed},
     {"shared_experts", TimeTerm::shared_experts_recomputed},
     {"layernorm", TimeTerm::norms_recomputed},
     {"moe_act", TimeTerm::expert_activation_recomputed},
     {"activation", TimeTerm::activation_recomputed}}};

/// `mlp` is a module of dense layers only, the experts' of MoE layers only.
bool acts_on(const TimedModel& model, TimeTerm term) {
  if (term == TimeTerm::dense_feed_forward_recomputed) return model.moe_layers < model.layers;
  if (term == TimeTerm::latent_projections_recomputed) return model.is_mla;
  if (term == TimeTerm::shared_experts_recomputed) return model.shared_ffn > 0;
  return model.moe_layers > 0 || (term != TimeTerm::moe_recomputed && term != TimeTerm::expert_activation_recomputed);
}

void add_layout(TimeTerms& terms, const TimedRun& run) {
  terms.add_if(run.tensor > 1, TimeTerm::tensor_parallel);
  terms.add_if(run.tensor > 1 && run.is_sequence_parallel, TimeTerm::sequence_parallel);
  terms.add_if(run.pipeline > 1, TimeTerm::pipeline);
  terms.add_if(run.pipeline > 1 && run.virtual_pipeline > 1 && !run.is_folded, TimeTerm::interleaved_pipeline);
  terms.add_if(run.pipeline > 1 && run.is_folded, TimeTerm::folded_pipeline);
  terms.add_if(run.context > 1, TimeTerm::context_parallel);
  terms.add_if(run.model.experts > 0 && run.expert > 1, TimeTerm::expert_parallel);
  terms.add_if(run.model.experts > 0 && run.expert_tensor > 1, TimeTerm::expert_tensor_parallel);
  terms.add_if(run.data > 1, TimeTerm::data_parallel);
  terms.add_if(run.sharded > 1, TimeTerm::fully_sharded);
  terms.add_if(run.model.experts > 0 && run.expert > 1 && run.sends_once_a_node, TimeTerm::exchange_by_node);
  terms.add_if(run.model.experts > 0 && run.expert > 1 && run.expert_hidden > 0, TimeTerm::expert_overlap);
}

void add_recomputed(TimeTerms& terms, const TimedRun& run) {
  terms.add_if(run.recomputed.layers > 0, TimeTerm::whole_layers_recomputed);
  terms.add_if(run.recomputed.is_half_of_products, TimeTerm::operators_recomputed);
  if (run.recomputed.layers >= 1) return;
  for (const RecomputedModule& module : run.recomputed.modules) {
    const TimeTerm term = term_of_module(module.name);
    terms.add_if(module.share > 0 && acts_on(run.model, term), term);
  }
}

}  // namespace

TimeTerm term_of_module(std::string_view name) {
  const auto found = std::ranges::find(kModuleTerms, name, &std::pair<std::string_view, TimeTerm>::first);
  return found == kModuleTerms.end() ? TimeTerm::operators_recomputed : found->second;
}

TimeTerms terms_of(const TimedRun& run) {
  TimeTerms terms;
  terms.add_if(run.model.experts > 0, TimeTerm::experts);
  terms.add_if(run.model.is_mla, TimeTerm::latent_attention);
  terms.add_if(run.model.mtp_layers > 0, TimeTerm::multi_token_prediction);
  add_layout(terms, run);
  // Four bits count as eight: products of both are narrow, and casts come before them.
  terms.add_if(run.precision >= Precision::fp8, TimeTerm::fp8);
  add_recomputed(terms, run);
  terms.add_if(run.host.dense_bytes > 0 || run.host.moe_bytes > 0, TimeTerm::activations_on_host);
  terms.add_if(run.host.is_state_swapped || run.host.updated_share > 0, TimeTerm::state_on_host);
  return terms;
}

}  // namespace tidemark::step_time
