#pragma once
// Hybrid models: a pattern of layer letters instead of a number of layers. M: state-space mixer, *: attention, -: dense
// feed-forward, E: experts; `|` separates pipeline chunks, `/` comes before each multi-token-prediction depth.

#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/parameter_list.h"

namespace tidemark::estimate {

struct HybridPattern {
  std::vector<std::string> chunks;  ///< chunk i is on pipeline rank i % pipeline
  std::vector<std::string> depths;
};

/// A pattern without `|` is cut evenly over the pipeline, as the framework does.
[[nodiscard]] HybridPattern hybrid_pattern(const TrainingRun& run);
/// Letters of the chunks of one pipeline rank.
[[nodiscard]] std::vector<std::string> hybrid_chunks(const TrainingRun& run, std::int64_t stage);
[[nodiscard]] bool hybrid_letter_known(char letter);

void append_hybrid_layer(const TrainingRun& run, char letter, std::vector<Parameter>& list);
/// Bytes a state-space layer keeps for backward.
[[nodiscard]] double saved_mixer(const TrainingRun& run, const LocalSizes& sizes);

}  // namespace tidemark::estimate
