# What a training framework's own run of a job holds: arguments in (argument_*, run_*), memory of a rank out (the rest).
set(TIDEMARK_FRAMEWORK_FILES)
list(APPEND TIDEMARK_FRAMEWORK_FILES
  framework/argument_attention.cc
  framework/argument_experts.cc
  framework/argument_mindspeed.cc
  framework/argument_model.cc
  framework/argument_numerics.cc
  framework/argument_optimizer.cc
  framework/argument_parallel.cc
  framework/argument_recompute.cc
  framework/argument_refused.cc
  framework/argument_table.cc
  framework/argument_training.cc
  framework/argument_value.cc
  framework/run_derive.cc
  framework/run_environment.cc
  framework/run_expressions.cc
  framework/run_layout.cc
  framework/run_validity.cc
  framework/run_vocabulary.cc)
list(APPEND TIDEMARK_FRAMEWORK_FILES
  framework/attention_backend.cc
  framework/estimable.cc
  framework/hybrid.cc
  framework/in_flight.cc
  framework/layer_parameters.cc
  framework/local_sizes.cc
  framework/loss_spike.cc
  framework/optimizer_step.cc
  framework/parameter_list.cc
  framework/peak_ascend.cc
  framework/peak_cuda.cc
  framework/rank_memory.cc
  framework/rank_place.cc
  framework/recompute_rule.cc
  framework/saved_ascend.cc
  framework/saved_cuda.cc
  framework/state_bytes.cc
  framework/static_ascend.cc
  framework/static_cuda.cc
  framework/static_state.cc)
list(APPEND TIDEMARK_FRAMEWORK_FILES
  framework/accuracy.cc
  framework/calibration.cc
  framework/error_band.cc
  framework/megatron_formula.cc)
