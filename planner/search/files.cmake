set(TIDEMARK_SEARCH_FILES
  search/keep_all_step.cc
  search/placed_action.cc
  search/setting_search.cc)
