set(TIDEMARK_COST_FILES
  cost/cost_model.cc)
