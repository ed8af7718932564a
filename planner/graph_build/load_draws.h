#pragma once
// Rows per device drawn step by step, from families of load that a dropless job may meet. Any step is drawn on its own:
// the same shape, family and seed give the same rows, whichever steps were asked for before.
//
//   own           the job's distribution (graph_build/load_model.h): its parts are drawn before rows are shared out
//   persistent    popular experts: devices differ by layer in all steps (cv 0.20), by step (0.05) and by site (0.07)
//   hotspot       as own; in one layer, another every step, one device has 3 times the mean
//   cold_start    experts of a layer are log-normally popular, with a spread of 1 that falls to 0.2 over 500 steps;
//                 sites vary besides (cv 0.07)
//   worst_site    as own; one (layer, micro-batch) has the physical worst on one device
//   worst_layer   the same in all micro-batches of a layer
//   worst_step    the same everywhere in the step

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::graph_build {

enum class LoadFamily : std::uint8_t { own, persistent, hotspot, cold_start, worst_site, worst_layer, worst_step };
inline constexpr std::array<std::string_view, 7> kLoadFamilyNames = {
    "own", "persistent", "hotspot", "cold-start", "worst-site", "worst-layer", "worst-step"};

class LoadDraws {
 public:
  /// `own`: the job's distribution.
  LoadDraws(const LoadShape& shape, LoadFamily family, const ExpertLoadSpec& own, std::uint64_t seed)
      : shape_(shape), family_(family), own_(own), seed_(seed) {}

  /// Rows by place of the layer in the shape, micro-batch, device. Those of a (layer, micro-batch) sum to all_rows().
  /// O(layers x micro-batches x devices).
  [[nodiscard]] std::vector<std::int64_t> rows(std::int64_t step) const;
  /// The same rows by expert in place of device: those of a device, in order, sum to its rows. Experts of a device vary
  /// as model_of_experts says (dropped_rows.h), of `cold_start` by their own popularity. O(that many).
  [[nodiscard]] std::vector<std::int64_t> expert_rows(std::int64_t step) const;

 private:
  /// Coefficients of variation of a device's mean over its experts.
  struct ExpertSpread {
    double layer = 0, site = 0;
  };
  [[nodiscard]] ExpertSpread expert_spread() const;
  /// By layer and expert, in no unit of their own: what stays with a layer.
  [[nodiscard]] std::vector<double> expert_popularity(std::int64_t step) const;
  /// Shares of the rows before they are made whole numbers, in the same order.
  [[nodiscard]] std::vector<double> shares(std::int64_t step) const;
  void add_own(std::int64_t step, std::vector<double>& shares) const;
  /// By layer and device; empty: the job has none.
  [[nodiscard]] std::vector<double> own_popularity(std::int64_t step) const;
  /// So many autoregressions of this spread and this correlation from step to step.
  [[nodiscard]] std::vector<double> drifting(std::uint64_t kind, double spread, double keep, std::int64_t step,
                                             std::size_t count) const;
  void add_persistent(std::int64_t step, std::vector<double>& shares) const;
  void add_cold_start(std::int64_t step, std::vector<double>& shares) const;
  /// Gives one device `load` times the mean at one (layer, micro-batch); the others share the rest as they did.
  void set_load(std::vector<double>& shares, std::size_t layer, std::int64_t micro_batch, std::int64_t device,
                double load) const;
  [[nodiscard]] std::size_t place(std::size_t layer, std::int64_t micro_batch, std::int64_t device) const;
  [[nodiscard]] std::uint64_t stream(std::uint64_t kind, std::int64_t step) const;

  LoadShape shape_;
  LoadFamily family_;
  ExpertLoadSpec own_;
  std::uint64_t seed_;
};

/// Whole rows in the proportion of `parts`, in their order: `all` in every (layer, micro-batch), none above the most of
/// a device. REQUIRES: 0 <= all <= shape.all_rows(); as many parts as the shape has of (layer, micro-batch, device),
/// none below 0.
[[nodiscard]] std::vector<std::int64_t> share_rows(const LoadShape& shape, std::span<const double> parts,
                                                   std::int64_t all);

}  // namespace tidemark::graph_build
