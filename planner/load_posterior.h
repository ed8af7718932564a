#pragma once
// What counted steps leave open of a load model, as draws: each of variances and persistence as the fit's errors allow
// (a variance: scaled chi-squared), and of the popularity of every layer and device as the last steps say (a
// Kalman filter of the autoregression), which then drifts on. Seeded: the same input, the same draws. Threads: one at a
// time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/graph_build/load_fit.h"
#include "planner/graph_build/normal_draws.h"

namespace tidemark::plan {

class LoadPosterior {
 public:
  /// `layers`: rows of the fit whose popularity is drawn, in this order. REQUIRES: `fit` outlives it.
  LoadPosterior(const graph_build::LoadFit& fit, std::vector<std::size_t> layers, std::uint64_t seed);

  /// Draws what is true, as of the last counted step.
  void draw();
  /// Popularity so many steps later. REQUIRES: draw() before.
  void drift(double steps);

  // Of what is true by the last draw:
  [[nodiscard]] double site_deviation() const { return site_; }
  [[nodiscard]] double device_deviation() const { return device_; }
  [[nodiscard]] double persistence() const { return persistence_; }
  /// Of a device in a layer, by place among the layers that are asked for.
  [[nodiscard]] double popularity(std::size_t layer, std::size_t device) const {
    return of_layer_[layer * devices_ + device] + of_device_[device];
  }

  /// A step under what is true, by place of layer, micro-batch, device: parts of the rows, none below 0, which are
  /// shared out (graph_build/load_draws.h). REQUIRES: all layers of the fit, in its order.
  [[nodiscard]] std::vector<double> draw_step();

  [[nodiscard]] graph_build::NormalDraws& draws() { return draws_; }

 private:
  void draw_variances();
  void filter_popularity();
  [[nodiscard]] double variance_near(double variance, double error);
  void drift(std::vector<double>& parts, double variance, double steps);
  void scatter(std::vector<double>& parts, double variance);
  /// Variances are those of loads that share a fixed number of rows, which takes a G-th from parts that are drawn
  /// apart.
  [[nodiscard]] double shared_spread() const;

  const graph_build::LoadFit& fit_;
  std::size_t rows_ = 0, devices_ = 0;
  std::vector<graph_build::StepMeans> recent_;  ///< of the layers asked for
  graph_build::NormalDraws draws_;
  double site_ = 0, device_ = 0, persistence_ = 1;
  double layer_variance_ = 0, lasting_variance_ = 0;  ///< of popularity about the device's mean, of that mean
  std::vector<double> of_layer_, of_device_;          ///< popularity
  double layer_unknown_ = 0, device_unknown_ = 0;     ///< variances of what is not known of each
};

}  // namespace tidemark::plan
