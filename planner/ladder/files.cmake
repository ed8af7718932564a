set(TIDEMARK_LADDER_FILES
  ladder/chunk_search.cc
  ladder/contingency.cc
  ladder/contingency_drafts.cc
  ladder/dynamic_bound.cc
  ladder/section_drafts.cc)
