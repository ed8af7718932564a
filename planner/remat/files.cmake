set(TIDEMARK_REMAT_FILES
  remat/bound.cc
  remat/decisions.cc
  remat/improve.cc
  remat/plan.cc
  remat/problem.cc
  remat/profile.cc
  remat/state.cc)
