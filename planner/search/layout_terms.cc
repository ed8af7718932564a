#include "planner/search/layout_terms.h"

namespace tidemark::search {
namespace {

void add_experts(TimeTerms& terms, const graph_build::ParallelSpec& parallel) {
  terms.add(TimeTerm::experts);
  const bool exchanges = parallel.expert_ranks() > 1;
  terms.add_if(exchanges, TimeTerm::expert_parallel);
  terms.add_if(parallel.tensor > 1 && !parallel.tensor_extends_expert, TimeTerm::expert_tensor_parallel);
  terms.add_if(exchanges && parallel.hierarchical_expert_communication, TimeTerm::exchange_by_node);
  terms.add_if(exchanges && parallel.overlap_forward_backward, TimeTerm::expert_overlap);
}

}  // namespace

TimeTerms terms_of(const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& parallel = job.parallel;
  TimeTerms terms;
  if (job.model.has_experts()) add_experts(terms, parallel);
  terms.add_if(job.model.attention.kind == graph_build::AttentionSpec::Kind::mla, TimeTerm::latent_attention);
  terms.add_if(job.model.mtp_layers > 0, TimeTerm::multi_token_prediction);
  terms.add_if(parallel.tensor > 1, TimeTerm::tensor_parallel);
  terms.add_if(parallel.tensor > 1 && parallel.sequence_parallel, TimeTerm::sequence_parallel);
  terms.add_if(parallel.pipeline > 1, TimeTerm::pipeline);
  terms.add_if(parallel.pipeline > 1 && parallel.virtual_pipeline > 1, TimeTerm::interleaved_pipeline);
  terms.add_if(parallel.context > 1, TimeTerm::context_parallel);
  terms.add_if(parallel.data > 1, TimeTerm::data_parallel);
  terms.add_if(parallel.is_head_apart(), TimeTerm::head_apart);
  return terms;
}

}  // namespace tidemark::search
