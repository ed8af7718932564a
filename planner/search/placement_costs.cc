#include "planner/search/placement_costs.h"

#include <algorithm>
#include <limits>

namespace tidemark::search {
namespace {

constexpr double kNoPlacement = std::numeric_limits<double>::infinity();

}  // namespace

ChunkCatalogue::ChunkCatalogue(const graph_build::JobSpec& job, simulate::ChunkTimes& times)
    : job_(job),
      table_(times),
      stages_(static_cast<std::int32_t>(job.parallel.stages())),
      layers_(static_cast<std::int32_t>(job.model.layers.size())) {}

Result<std::int32_t> ChunkCatalogue::chunk_of(std::int32_t stage, std::int32_t first, std::int32_t layers,
                                              bool is_head_apart) {
  const bool has_last_layer = layers > 0 && first + layers == layers_;
  const simulate::ChunkContent content{.first_layer = first,
                                       .layers = layers,
                                       .is_first = stage == 0,
                                       .is_last = stage + 1 == stages_,
                                       .has_head = is_head_apart ? has_last_layer : stage + 1 == stages_};
  const std::int32_t flags = (content.is_first ? 1 : 0) + (content.is_last ? 2 : 0) + (content.has_head ? 4 : 0);
  const std::array<std::int32_t, 3> key = {flags, first, layers};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const Result<simulate::ChunkTime> time = table_.chunk_of(job_, content);
  if (!time) return time.error();
  const auto spans = simulate::spans_of(time.value());
  auto same = static_cast<std::size_t>(std::ranges::find(spans_, spans) - spans_.begin());
  if (same == spans_.size()) {
    times_.push_back(time.value());
    spans_.push_back(spans);
  }
  return known_[key] = static_cast<std::int32_t>(same);
}

StageChoices::StageChoices(ChunkCatalogue& catalogue, bool is_head_apart, std::int32_t most)
    : catalogue_(&catalogue),
      is_head_apart_(is_head_apart),
      most_(most),
      chunks_(3 * static_cast<std::size_t>(catalogue.layers() + 1) * static_cast<std::size_t>(most + 1), kUnknown) {}

std::int32_t StageChoices::look_up(std::int32_t stage, std::int32_t first, std::int32_t layers) {
  const bool is_end = first + layers == this->layers();
  // The first stage begins with the first layer; the last takes what is left, nothing where the head is apart from it.
  if (first + layers > this->layers() || (stage == 0 && first > 0)) return -1;
  if (stage + 1 == stages() && (!is_end || (is_head_apart_ && layers > 0))) return -1;
  const Result<std::int32_t> chunk = catalogue_->chunk_of(stage, first, layers, is_head_apart_);
  if (chunk) return chunk.value();
  if (status_) status_ = chunk.error();
  return -1;
}

Status StageChoices::fill() {
  for (const std::int32_t stage : {std::int32_t{0}, std::int32_t{1}, stages() - 1})
    for (std::int32_t first = 0; stage < stages() && first <= (stage == 0 ? 0 : layers()); ++first)
      for (std::int32_t layers = 0; layers <= std::min(most_, this->layers() - first); ++layers)
        static_cast<void>(chunk(stage, first, layers));
  return status_;
}

StageSum::StageSum(const ChunkCatalogue& catalogue,
                   const std::vector<std::array<double, 2 * simulate::kPassSpans>>& weights)
    : chunks_(catalogue.size()), costs_(weights.size() * chunks_) {
  for (std::size_t stage = 0; stage < weights.size(); ++stage)
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const auto& spans = catalogue.spans(static_cast<std::int32_t>(chunk));
      double cost = 0;
      for (std::size_t span = 0; span < spans.size(); ++span)
        cost += weights[stage][span] * static_cast<double>(spans[span]);
      costs_[stage * chunks_ + chunk] = cost;
    }
}

MovedSums::MovedSums(const StageSum& sum, StageChoices& choices, const std::vector<std::int32_t>& layers)
    : before_(layers.size() + 1), less_(layers.size()), more_(layers.size()) {
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const auto stage = static_cast<std::int32_t>(s);
    const auto cost = [&](std::int32_t first, std::int32_t count) {
      const bool exists = first >= 0 && count >= 0 && count <= choices.most() && first + count <= choices.layers();
      const std::int32_t chunk = exists ? choices.chunk(stage, first, count) : -1;
      return chunk < 0 ? Sum{.impossible = 1} : Sum{.cost = sum.at(stage, chunk)};
    };
    for (std::int32_t shift = -1; shift <= 1; ++shift) {
      const auto i = static_cast<std::size_t>(shift + 1);
      before_[s + 1][i] = before_[s][i] + cost(begin + shift, layers[s]);
      less_[s][i] = cost(begin + shift, layers[s] - 1);
      more_[s][i] = cost(begin + shift, layers[s] + 1);
    }
    begin += layers[s];
  }
}

double MovedSums::of(std::size_t from, std::size_t to) const {
  constexpr std::size_t kSame = 1;
  const std::size_t low = std::min(from, to), high = std::max(from, to);
  const std::size_t shift = from < to ? 0 : 2;  // of the stages between, and of the one behind them
  const Sum& at_from = less_[from][from < to ? kSame : shift];
  const Sum& at_to = more_[to][from < to ? shift : kSame];
  const Sum sum = before_[low][kSame] + at_from + (before_[high][shift] - before_[low + 1][shift]) + at_to +
                  (before_.back()[kSame] - before_[high + 1][kSame]);
  return sum.impossible > 0 ? kNoPlacement : sum.cost;
}

LeastSum::LeastSum(const StageSum& sum, StageChoices& choices)
    : width_(static_cast<std::size_t>(choices.layers()) + 1),
      rest_((static_cast<std::size_t>(choices.stages()) + 1) * width_, kNoPlacement),
      taken_(static_cast<std::size_t>(choices.stages()) * width_, -1) {
  rest_.back() = 0;  // every stage and layer is placed
  for (std::int32_t stage = choices.stages() - 1; stage >= 0; --stage)
    for (std::int32_t first = 0; first <= (stage == 0 ? 0 : choices.layers()); ++first) {
      const std::size_t here = static_cast<std::size_t>(stage) * width_ + static_cast<std::size_t>(first);
      for (std::int32_t layers = 0; layers <= std::min(choices.most(), choices.layers() - first); ++layers) {
        const std::int32_t chunk = choices.chunk(stage, first, layers);
        if (chunk < 0) continue;
        const double cost = sum.at(stage, chunk) + rest(stage + 1, first + layers);
        if (cost >= rest_[here]) continue;
        rest_[here] = cost;
        taken_[here] = layers;
      }
    }
}

std::vector<std::int32_t> LeastSum::placement() const {
  std::vector<std::int32_t> layers;
  std::size_t first = 0;
  for (std::size_t stage = 0; (stage + 1) * width_ < rest_.size(); ++stage) {
    const std::int32_t taken = taken_[stage * width_ + first];
    if (taken < 0) return {};
    layers.push_back(taken);
    first += static_cast<std::size_t>(taken);
  }
  return layers;
}

}  // namespace tidemark::search
