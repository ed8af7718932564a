set(TIDEMARK_PLANNER_FILES
  cost_model.cc
  liveness.cc
  simulator.cc)
