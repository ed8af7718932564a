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
list(APPEND TIDEMARK_FRAMEWORK_FILES)
