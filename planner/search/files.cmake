set(TIDEMARK_SEARCH_FILES
  search/keep_all_step.cc
  search/layout_search.cc
  search/layout_space.cc
  search/pass_times.cc
  search/placed_action.cc
  search/setting_search.cc)
