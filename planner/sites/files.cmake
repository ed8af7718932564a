set(TIDEMARK_SITES_FILES
  sites/effect.cc
  sites/evaluator.cc
  sites/gaps.cc
  sites/link_window.cc
  sites/problem.cc
  sites/uniform.cc)
