set(TIDEMARK_SEARCH_FILES
  search/layout_ranking.cc
  search/layout_search.cc
  search/layout_space.cc
  search/layout_terms.cc
  search/placed_action.cc
  search/setting_search.cc)
