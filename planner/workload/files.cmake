set(TIDEMARK_WORKLOAD_FILES)
list(APPEND TIDEMARK_WORKLOAD_FILES workload/job_spec.cc workload/layer_placement.cc)
list(APPEND TIDEMARK_WORKLOAD_FILES
  workload/parameter_groups.cc
  workload/pipeline_schedule.cc
  workload/static_memory.cc)
