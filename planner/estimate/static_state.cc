#include "planner/estimate/static_state.h"

namespace tidemark::estimate {

void add_state_terms(const RankView& view, TermList& terms) {
  const StateBytes& state = view.state;
  const bool reuse = view.run.optimizer.reuse_fp32_parameter;
  terms.add({"parameters", state.weight, Origin::code, "megatron/core/models: every tensor of the rank"});
  terms.add({"gradients", state.gradient, Origin::code, "megatron/core/distributed/param_and_grad_buffer.py"});
  terms.add({"main_parameters", state.main, Origin::code,
             reuse ? "mindspeed/core/memory/reuse_param/reuse_distrib_optimizer.py"
                   : "megatron/core/optimizer/distrib_optimizer.py"});
  terms.add({"moments", state.moments, Origin::code, "megatron/core/optimizer/__init__.py: Adam, SGD or Muon"});
  terms.add({"gradient_copy", state.gradient_copy, Origin::code,
             "megatron/core/optimizer/distrib_optimizer.py: _copy_model_grads_to_main_grads"});
  terms.add(
      {"reference_model", state.reference, Origin::code, "mindspeed_llm/tasks/posttrain/dpo: frozen second model"});
}

}  // namespace tidemark::estimate
