set(TIDEMARK_PLANNER_FILES
  cost_model.cc
  liveness.cc
  memory_profile.cc
  simulator.cc)
