set(TIDEMARK_SCHEDULE_FILES
  schedule/link_window.cc
  schedule/peak.cc
  schedule/program_rows.cc
  schedule/scheduler.cc)
