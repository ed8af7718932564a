#pragma once
// A predicted step time beside the measured one, with all that scoring asks of the run.

#include <optional>
#include <string>

namespace tidemark::step_time {

/// One scored row. REQUIRES: seconds finite and > 0, and so `model_flops_per_s` where it is there.
struct TimedPair {
  std::string id, track;
  std::string split_key;  ///< near-copies share it: counted as one, and never in two folds
  std::string group;      ///< runs of the same job share it: ranked against each other. Empty: ranked against none
  std::string software, device, precision;
  double predicted_s = 0, measured_s = 0;
  std::optional<double> model_flops_per_s;  ///< measured, a device: what the rival is fitted to
};

}  // namespace tidemark::step_time
