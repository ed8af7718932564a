set(TIDEMARK_COST_FILES
  cost/attention_time.cc
  cost/collective_time.cc
  cost/cost_model.cc
  cost/matmul_time.cc)
