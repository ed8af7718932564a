#include "planner/estimate/hybrid.h"

#include <algorithm>

#include "planner/estimate/layer_parameters.h"

namespace tidemark::estimate {
namespace {

/// Widths of a state-space mixer over all tensor ranks.
struct MixerWidths {
  std::int64_t inner = 0;
  std::int64_t heads = 0;
  std::int64_t states = 0;  ///< groups * state size
  [[nodiscard]] std::int64_t projected() const { return 2 * inner + 2 * states + heads; }
};

MixerWidths mixer_widths(const TrainingRun& run) {
  const Mamba& mamba = run.model.mamba;
  const std::int64_t heads = mamba.heads > 0 ? mamba.heads : 2 * run.model.hidden / mamba.head_dim;
  return {.inner = heads * mamba.head_dim, .heads = heads, .states = mamba.groups * mamba.state_dim};
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator)
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  return parts;
}

void append_mixer(const TrainingRun& run, std::vector<Parameter>& list) {
  constexpr std::int64_t kConvolution = 4;  // taps a channel, and a bias
  const MixerWidths widths = mixer_widths(run);
  const std::int64_t tensor = run.parallel.tensor;
  const std::int64_t hidden = run.model.hidden;
  append_norm(run, list);
  list.push_back({.elements = hidden * widths.projected() / tensor, .role = ParameterRole::linear});
  list.push_back({.elements = (widths.inner + 2 * widths.states) / tensor * (kConvolution + 1)});
  list.push_back({.elements = 3 * widths.heads / tensor});  // dt bias, A, D
  list.push_back({.elements = widths.inner / tensor});
  list.push_back({.elements = widths.inner * hidden / tensor, .role = ParameterRole::linear});
}

}  // namespace

bool hybrid_letter_known(char letter) {
  return letter == 'M' || letter == '*' || letter == '-' || letter == 'E';
}

HybridPattern hybrid_pattern(const TrainingRun& run) {
  HybridPattern pattern;
  std::vector<std::string> parts = split(run.model.hybrid_pattern, '/');
  pattern.depths.assign(parts.begin() + 1, parts.end());
  pattern.chunks = split(parts.front(), '|');
  const auto pipeline = static_cast<std::size_t>(run.parallel.pipeline);
  if (pattern.chunks.size() > 1 || pipeline == 1) return pattern;
  const std::string all = pattern.chunks.front();
  const std::size_t each = all.size() / pipeline;
  pattern.chunks.clear();
  for (std::size_t i = 0; i < pipeline; ++i) pattern.chunks.push_back(all.substr(i * each, each));
  return pattern;
}

std::vector<std::string> hybrid_chunks(const TrainingRun& run, std::int64_t stage) {
  const std::vector<std::string> all = hybrid_pattern(run).chunks;
  std::vector<std::string> mine;
  const auto step = static_cast<std::size_t>(run.parallel.pipeline);
  for (auto i = static_cast<std::size_t>(stage); i < all.size(); i += step) mine.push_back(all[i]);
  return mine;
}

void append_hybrid_layer(const TrainingRun& run, char letter, std::vector<Parameter>& list) {
  switch (letter) {
    case 'M':
      return append_mixer(run, list);
    case '*':
      return append_attention(run, 0, list);
    case 'E':
      return append_experts(run, list);
    default:
      return append_mlp(run, list);
  }
}

double saved_mixer(const TrainingRun& run, const LocalSizes& sizes) {
  const MixerWidths widths = mixer_widths(run);
  const double tensor = static_cast<double>(run.parallel.tensor);
  const double projected = static_cast<double>(widths.projected()) / tensor;
  const double inner = static_cast<double>(widths.inner) / tensor;
  // The memory-saving scan keeps its projected input; scan output, its norm and the gated product follow it.
  const double scan = sizes.tokens * (projected + 3 * inner) * sizes.element_bytes;
  const double mask = run.model.hidden_dropout > 0 ? sizes.shard_tokens * sizes.hidden : 0;
  return 2 * sizes.boundary_bytes + scan + mask;
}

}  // namespace tidemark::estimate
