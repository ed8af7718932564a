#pragma once
// What stages cost in a search for a placement: times of every chunk that a stage may hold, and sums over stages whose
// terms depend on what each stage holds alone.

#include <array>
#include <cstdint>
#include <map>
#include <string>
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

/// For each stage, what it may hold: the chunk's number by first layer and number of layers; -1: it may not. Filled for
/// one place of the main head.
class StageChoices {
 public:
  /// `most`: layers a stage may hold. Errors: those of ChunkCatalogue::chunk_of.
  static Result<StageChoices> of(ChunkCatalogue& catalogue, bool is_head_apart, std::int32_t most);

  [[nodiscard]] std::int32_t chunk(std::int32_t stage, std::int32_t first, std::int32_t layers) const {
    return chunks_[(static_cast<std::size_t>(class_of_[static_cast<std::size_t>(stage)]) *
                        static_cast<std::size_t>(layers_ + 1) +
                    static_cast<std::size_t>(first)) *
                       static_cast<std::size_t>(most_ + 1) +
                   static_cast<std::size_t>(layers)];
  }
  [[nodiscard]] std::int32_t stages() const { return static_cast<std::int32_t>(class_of_.size()); }
  [[nodiscard]] std::int32_t layers() const { return layers_; }
  [[nodiscard]] std::int32_t most() const { return most_; }
  [[nodiscard]] bool is_head_apart() const { return is_head_apart_; }

 private:
  std::vector<std::int32_t> class_of_;  ///< first, between, last
  std::vector<std::int32_t> chunks_;
  std::int32_t layers_ = 0, most_ = 0;
  bool is_head_apart_ = false;
};

/// A sum over stages: what each chunk would cost at each stage.
class StageSum {
 public:
  /// `weights`: of each span, by stage. The sum is never above the true one: it is rounded down at the end.
  StageSum(const ChunkCatalogue& catalogue, const std::vector<std::array<double, 2 * simulate::kPassSpans>>& weights);

  [[nodiscard]] double at(std::int32_t stage, std::int32_t chunk) const {
    return costs_[static_cast<std::size_t>(stage) * chunks_ + static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] double of(const StageChoices& choices, const std::vector<std::int32_t>& layers) const;

 private:
  std::size_t chunks_;
  std::vector<double> costs_;
};

/// The least of a sum over all placements from each stage and first layer on; `rest(0, 0)` is that of whole placements.
class LeastSum {
 public:
  LeastSum(const StageSum& sum, const StageChoices& choices);
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
