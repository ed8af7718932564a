set(TIDEMARK_BUDGET_FILES
  budget/comparison.cc
  budget/growth.cc
  budget/holdings.cc
  budget/limit.cc)
