set(TIDEMARK_WORKLOAD_FILES)
list(APPEND TIDEMARK_WORKLOAD_FILES workload/job_spec.cc workload/layer_placement.cc)
list(APPEND TIDEMARK_WORKLOAD_FILES
  workload/attention.cc
  workload/attention_core.cc
  workload/block_builder.cc
  workload/block_ends.cc
  workload/captured_graph.cc
  workload/chunk_line.cc
  workload/device_shapes.cc
  workload/elementwise.cc
  workload/expert_exchange.cc
  workload/gqa.cc
  workload/layer.cc
  workload/linear.cc
  workload/mla.cc
  workload/mlp.cc
  workload/moe.cc
  workload/mtp.cc
  workload/parameter_block.cc
  workload/parameter_groups.cc
  workload/pass_merge.cc
  workload/pipeline_schedule.cc
  workload/static_memory.cc
  workload/step_block.cc
  workload/step_graph.cc
  workload/step_parts.cc
  workload/vocabulary.cc)
