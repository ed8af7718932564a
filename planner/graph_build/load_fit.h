#pragma once
// The load model (graph_build/load_model.h) that counted steps show: its variance components, estimated apart, and what
// the counts say of every layer and device.
//
// With f over the mean of its (layer, micro-batch), less 1, a step is a nested layout: sites within (layer, device)
// within device. g are means over micro-batches, c over layers as well, and h = g - c:
//
//   mean square of f - g, per site                = site
//   mean square of h, times L / (L - 1)           = popularity + site / M
//   mean square of c                              = device + (popularity + site / M) / L
//   mean product of h and h of k steps before     = popularity * persistence^k     (likewise times L / (L - 1))
//
// so every part is a difference of means and unbiased, but for one below 0, which is taken as 0. Persistence is read at
// the longest of the lags 1, 2, 4, ... 64 over which at least half of popularity stays: short ones tell slow drift
// badly.
//
// Cost: O(layers x micro-batches x devices) a step; memory: kMostLag steps of means. Threads: one at a time.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "planner/graph_build/load_model.h"

namespace tidemark::graph_build {

/// How often what was counted.
struct CountedShape {
  std::int64_t layers = 0, micro_batches = 0, devices = 0;
  friend bool operator==(const CountedShape&, const CountedShape&) = default;
};

/// Means of one step, by layer and device and by device: h and c above.
struct StepMeans {
  std::vector<double> of_layer, of_device;
};

struct LoadFit {
  LoadModel model;
  LoadParts error;  ///< standard errors of model.variance
  CountedShape shape;
  std::int64_t steps = 0;
  double fullest = 1;  ///< mean over sites of the fullest device's f over the site's mean, as counted
  /// What the counts cannot tell, and where it was put instead; empty: nothing is missing.
  std::string missing;

  double persistence_error = 0;   ///< standard error; 1 where it cannot be told
  double device_step = 0;         ///< of the variance of a device: new each step ...
  double device_step_error = 0;   ///< (its standard error)
  double device_lasting = 0;      ///< ... and what stays of a device's mean over layers, popularity included
  std::vector<StepMeans> recent;  ///< the last steps, oldest first
};

class LoadFitter {
 public:
  static constexpr std::int64_t kMostLag = 64;

  /// REQUIRES: two devices or more.
  explicit LoadFitter(const CountedShape& shape);

  /// Loads or rows of the next step by layer, micro-batch, device. A (layer, micro-batch) without any deviates nowhere.
  void add(std::span<const double> loads);
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// REQUIRES: a step.
  [[nodiscard]] LoadFit fit() const;

 private:
  struct Lag {
    double products = 0;  ///< of h with the h so many steps before
    std::int64_t pairs = 0;
  };
  struct Moments;
  [[nodiscard]] Moments moments() const;
  [[nodiscard]] double product_mean(std::size_t lag) const;
  void fit_parts(const Moments& m, LoadFit& fit) const;
  void fit_persistence(const Moments& m, LoadFit& fit) const;
  void fit_device(const Moments& m, LoadFit& fit) const;
  void fit_errors(const Moments& m, LoadFit& fit) const;
  [[nodiscard]] std::string missing() const;

  CountedShape shape_;
  std::int64_t steps_ = 0;
  double load_sum_ = 0, fullest_sum_ = 0;
  double within_ = 0, layer_ = 0, device_ = 0;   ///< sums of squares of f - g, h, c
  double layer_change_ = 0, device_change_ = 0;  ///< of what h and c changed by from step to step
  std::array<Lag, 7> lags_{};                    ///< 1, 2, 4, ... kMostLag
  std::deque<StepMeans> recent_;
};

}  // namespace tidemark::graph_build
