#pragma once
// What expert loads are made of.
//
//   f[step, layer, micro-batch, device] = mean * (1 + popularity[layer, device] + device[step, device] + site[...])
//
//   popularity   experts that a layer likes: stays with a layer and device from step to step and drifts, as a
//                first-order autoregression; `persistence` is its correlation from one step to the next
//   device       common to all layers and micro-batches of a device in a step
//   site         the sequences of one micro-batch in one layer: new everywhere
//
// The parts are independent and normal, with mean 0. Variances are those of f over its mean on one device, as it is
// seen. The devices of a group share a fixed number of rows, so parts that are drawn on their own before rows are
// shared out over G devices are seen with (G - 1) / G of their variance.

#include <cstdint>

#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Of variance, or of its standard error, in squares of the mean load.
struct LoadParts {
  double popularity = 0;
  double device = 0;
  double site = 0;
  [[nodiscard]] double sum() const { return popularity + device + site; }
  friend bool operator==(const LoadParts&, const LoadParts&) = default;
};

struct LoadModel {
  double mean = 1;
  LoadParts variance;
  double persistence = 1;  ///< of popularity from one step to the next, 0..1; 1: it does not drift
  friend bool operator==(const LoadModel&, const LoadModel&) = default;
};

[[nodiscard]] LoadModel load_model(const ExpertLoadSpec& spec);
/// `base`, whose quantile and seed stay, with the model's distribution.
[[nodiscard]] ExpertLoadSpec spec_of(const LoadModel& model, const ExpertLoadSpec& base);

/// Expected largest of `count` independent standard normals: the integral of 1 - F over x > 0 less that of F over
/// x < 0, with F = Phi^count, to 1e-9. 0 for one. REQUIRES: count >= 1.
[[nodiscard]] double mean_of_largest_normal(std::int64_t count);

/// x with Phi(x) = p, to 1e-12. REQUIRES: 0 < p < 1.
[[nodiscard]] double normal_quantile(double p);

/// Expected load of the fullest of `devices` devices at one (layer, micro-batch). A layer takes as long as that device,
/// since all wait for its rows, while memory follows a device's own load. Devices that share a fixed number of rows
/// deviate from their mean as independent ones do from theirs: mean * (1 + s * e), with s^2 = variance * G / (G - 1).
[[nodiscard]] double mean_fullest_load(const LoadModel& model, std::int64_t devices);
/// The same where no device holds more than `most`: of the smaller of both, to 1e-4 of the spread.
[[nodiscard]] double mean_fullest_load(const LoadModel& model, std::int64_t devices, double most);

}  // namespace tidemark::graph_build
