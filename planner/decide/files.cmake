set(TIDEMARK_DECIDE_FILES
  decide/rank_problem.cc)
