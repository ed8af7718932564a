set(TIDEMARK_COST_FILES
  cost/attention_time.cc
  cost/collective_time.cc
  cost/copy_cost.cc
  cost/matmul_time.cc
  cost/op_prices.cc
  cost/op_work.cc)
