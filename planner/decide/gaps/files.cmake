set(TIDEMARK_DECIDE_GAPS_FILES
  decide/gaps/enumeration.cc
  decide/gaps/gap_problem.cc
  decide/gaps/give_up.cc
  decide/gaps/greedy.cc
  decide/gaps/prices.cc
  decide/gaps/relaxation.cc
  decide/gaps/search.cc)
