#pragma once
// What stages cost in a search for a placement: times of every chunk that a stage may hold, and sums over stages whose
// terms depend on what each stage holds alone.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/simulate/pass_times.h"

namespace tidemark::search {

/// Chunks of one job by what they hold, each worked out once. One thread.
class ChunkCatalogue {
 public:
  ChunkCatalogue(const graph_build::JobSpec& job, simulate::ChunkTimes& times);

  /// Number of the chunk that stage `stage` is with `layers` layers from `first` on. Errors: those of its graph.
  [[nodiscard]] Result<std::int32_t> chunk_of(std::int32_t stage, std::int32_t first, std::int32_t layers,
                                              bool is_head_apart);
  [[nodiscard]] const simulate::ChunkTime& time(std::int32_t chunk) const {
    return times_[static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] const std::array<std::int64_t, 2 * simulate::kPassSpans>& spans(std::int32_t chunk) const {
    return spans_[static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] std::size_t size() const { return times_.size(); }
  [[nodiscard]] std::int32_t stages() const { return stages_; }
  [[nodiscard]] std::int32_t layers() const { return layers_; }

 private:
  const graph_build::JobSpec& job_;
  simulate::ChunkTimes& table_;
  std::int32_t stages_, layers_;
  std::map<std::array<std::int32_t, 3>, std::int32_t> known_;  ///< by flags, first layer and layers
  std::vector<simulate::ChunkTime> times_;
  std::vector<std::array<std::int64_t, 2 * simulate::kPassSpans>> spans_;
};

/// For each stage, what it may hold: the chunk's number by first layer and number of layers; -1: it may not. For one
/// place of the main head. Chunks are looked up when they are first asked for.
class StageChoices {
 public:
  /// `most`: layers a stage may hold. `catalogue` outlives it.
  StageChoices(ChunkCatalogue& catalogue, bool is_head_apart, std::int32_t most);

  [[nodiscard]] std::int32_t chunk(std::int32_t stage, std::int32_t first, std::int32_t layers) {
    std::int32_t& known = chunks_[index(stage, first, layers)];
    if (known == kUnknown) known = look_up(stage, first, layers);
    return known;
  }
  /// Looks all of them up, as sums over stages need. Errors: those of ChunkCatalogue::chunk_of.
  [[nodiscard]] Status fill();
  /// The first error of a chunk that was looked up since; that chunk counts as one that may not be.
  [[nodiscard]] const Status& status() const { return status_; }

  [[nodiscard]] std::int32_t stages() const { return catalogue_->stages(); }
  [[nodiscard]] std::int32_t layers() const { return catalogue_->layers(); }
  [[nodiscard]] std::int32_t most() const { return most_; }

 private:
  static constexpr std::int32_t kUnknown = -2;

  /// First, between, last.
  [[nodiscard]] std::size_t class_of(std::int32_t stage) const {
    return stage == 0 ? 0 : stage + 1 == stages() ? 2 : 1;
  }
  [[nodiscard]] std::size_t index(std::int32_t stage, std::int32_t first, std::int32_t layers) const {
    const auto width = static_cast<std::size_t>(most_ + 1);
    return (class_of(stage) * static_cast<std::size_t>(this->layers() + 1) + static_cast<std::size_t>(first)) * width +
           static_cast<std::size_t>(layers);
  }
  [[nodiscard]] std::int32_t look_up(std::int32_t stage, std::int32_t first, std::int32_t layers);

  ChunkCatalogue* catalogue_;
  bool is_head_apart_;
  std::int32_t most_;
  std::vector<std::int32_t> chunks_;
  Status status_;
};

/// A sum over stages: what each chunk would cost at each stage.
class StageSum {
 public:
  /// `weights`: of each span, by stage. The sum is never above the true one: it is rounded down at the end.
  StageSum(const ChunkCatalogue& catalogue, const std::vector<std::array<double, 2 * simulate::kPassSpans>>& weights);

  [[nodiscard]] double at(std::int32_t stage, std::int32_t chunk) const {
    return costs_[static_cast<std::size_t>(stage) * chunks_ + static_cast<std::size_t>(chunk)];
  }

 private:
  std::size_t chunks_;
  std::vector<double> costs_;
};

/// Sums of the placements that differ from one by a single layer, each in constant time: stages between keep their
/// number of layers and begin one layer earlier or later.
class MovedSums {
 public:
  /// REQUIRES: choices.fill() was called before `sum` was made.
  MovedSums(const StageSum& sum, StageChoices& choices, const std::vector<std::int32_t>& layers);

  /// With a layer of stage `from` at stage `to` instead. Infinite: a stage may not hold what it would.
  /// REQUIRES: from != to.
  [[nodiscard]] double of(std::size_t from, std::size_t to) const;

 private:
  /// What stages cost together, of those that may hold what they would.
  struct Sum {
    double cost = 0;
    std::int32_t impossible = 0;  ///< stages
    friend Sum operator+(const Sum& a, const Sum& b) { return {a.cost + b.cost, a.impossible + b.impossible}; }
    friend Sum operator-(const Sum& a, const Sum& b) { return {a.cost - b.cost, a.impossible - b.impossible}; }
  };
  /// With first layers one earlier, where they are, and one later.
  using Shifted = std::array<Sum, 3>;
  std::vector<Shifted> before_;       ///< of all stages before one, each with as many layers as now
  std::vector<Shifted> less_, more_;  ///< of one stage with a layer less and with one more
};

/// The least of a sum over all placements from each stage and first layer on; `rest(0, 0)` is that of whole placements.
class LeastSum {
 public:
  /// REQUIRES: choices.fill() was called before `sum` was made.
  LeastSum(const StageSum& sum, StageChoices& choices);
  [[nodiscard]] double rest(std::int32_t stage, std::int32_t first) const {
    return rest_[static_cast<std::size_t>(stage) * width_ + static_cast<std::size_t>(first)];
  }
  /// A placement that reaches it. Empty: there is none.
  [[nodiscard]] std::vector<std::int32_t> placement() const;

 private:
  std::size_t width_;
  std::vector<double> rest_;
  std::vector<std::int32_t> taken_;
};

}  // namespace tidemark::search
