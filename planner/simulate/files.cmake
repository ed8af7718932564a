set(TIDEMARK_SIMULATE_FILES
  simulate/keep_all_step.cc
  simulate/layer_sums.cc
  simulate/longest_path.cc
  simulate/pass_clock.cc
  simulate/pass_times.cc
  simulate/simulator.cc
  simulate/split_step.cc)
