set(TIDEMARK_DECIDE_SITES_FILES
  decide/sites/effect.cc
  decide/sites/evaluator.cc
  decide/sites/gaps.cc
  decide/sites/problem.cc
  decide/sites/state_offload.cc
  decide/sites/uniform.cc)
