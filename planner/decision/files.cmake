set(TIDEMARK_DECISION_FILES
  decision/enumeration.cc
  decision/gap_problem.cc
  decision/greedy.cc
  decision/prices.cc
  decision/relaxation.cc
  decision/search.cc)
