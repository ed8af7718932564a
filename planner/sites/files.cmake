set(TIDEMARK_SITES_FILES
  sites/effect.cc
  sites/evaluator.cc
  sites/gaps.cc
  sites/link_window.cc
  sites/problem.cc
  sites/state_offload.cc
  sites/uniform.cc)
