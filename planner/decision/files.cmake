set(TIDEMARK_DECISION_FILES decision / bound.cc decision / effect.cc decision / evaluator.cc decision /
    link_window.cc decision / moves.cc decision / problem.cc decision / search.cc decision / uniform.cc)
