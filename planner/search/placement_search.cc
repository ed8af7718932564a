#include "planner/search/placement_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/graph_build/layer_placement.h"
#include "planner/search/placement_costs.h"
#include "planner/simulate/pass_clock.h"
#include "planner/threads/parallel.h"

namespace tidemark::search {
namespace {

constexpr std::size_t kMostPaths = 32;  ///< kept for passing placements over
constexpr std::size_t kImproved = 4;    ///< placements whose layers are moved
constexpr std::int64_t kSumsAPass = 4;  ///< sums over stages that take as long as a pass to play
constexpr std::size_t kMoved = 64;      ///< neighbours of a placement that are played

using Weights = std::vector<std::array<double, 2 * simulate::kPassSpans>>;

Weights weights_of(const simulate::SchedulePath& path) {
  Weights weights(path.size());
  for (std::size_t stage = 0; stage < path.size(); ++stage) std::ranges::copy(path[stage], weights[stage].begin());
  return weights;
}

void mix(Weights& weights, const Weights& with, double share) {
  for (std::size_t stage = 0; stage < weights.size(); ++stage)
    for (std::size_t span = 0; span < weights[stage].size(); ++span)
      weights[stage][span] += share * (with[stage][span] - weights[stage][span]);
}

/// Times of stages in the mean of placements.
class SpanMeans {
 public:
  explicit SpanMeans(Weights first) : means_(std::move(first)) {}
  void add(const Weights& spans, double share) { mix(means_, spans, share); }

  [[nodiscard]] simulate::StageTimes times(std::size_t ranks) const {
    simulate::StageTimes times(ranks);
    for (std::size_t stage = 0; stage < means_.size(); ++stage) {
      std::array<std::int64_t, 2 * simulate::kPassSpans> spans{};
      std::ranges::transform(means_[stage], spans.begin(), [](double mean) { return std::llround(mean); });
      times[stage % ranks].push_back(simulate::chunk_time(spans));
    }
    return times;
  }

 private:
  Weights means_;
};

/// Rounded down, with room for what summing up lost: a bound.
std::int64_t bound_of(double sum) {
  return static_cast<std::int64_t>(std::floor(sum * (1 - 1e-12)));
}

/// Whole nanoseconds: nothing of which this is a bound is shorter than `step_ns`.
bool is_no_better(double bound, std::int64_t step_ns) {
  return bound * (1 - 1e-12) > static_cast<double>(step_ns) - 1;
}

/// All stages alike but for what is left over, which the first, the last or every n-th stage takes.
std::vector<std::vector<std::int32_t>> even_ways(std::int32_t layers, std::int32_t stages) {
  const std::vector<std::int32_t> first = graph_build::even_layers(layers, stages);
  std::vector<std::int32_t> spread(static_cast<std::size_t>(stages), layers / stages);
  const std::int32_t over = layers % stages;
  for (std::int32_t i = 0; i < over; ++i) ++spread[static_cast<std::size_t>(i * stages / over)];
  return {first, {first.rbegin(), first.rend()}, std::move(spread)};
}

/// Placements with the main head in one place.
class HeadSearch {
 public:
  /// `most`: layers a stage may hold.
  HeadSearch(const graph_build::JobSpec& job, simulate::ChunkTimes& times, simulate::PassClock clock,
             const PlacementEffort& effort, bool is_head_apart, std::int32_t most)
      : catalogue_(job, times),
        clock_(std::move(clock)),
        effort_(effort),
        is_head_apart_(is_head_apart),
        choices_(catalogue_, is_head_apart, most),
        ranks_(static_cast<std::size_t>(job.parallel.pipeline)) {}

  /// Plays even placements and those that mixtures of paths lead to.
  Status look_around() {
    if (Status status = start(); !status) return status;
    if (steps_.empty() || effort_.bounding_rounds == 0) return choices_.status();
    if (Status status = choices_.fill(); !status) return status;
    return bound();
  }

  /// Goes on from there, where something shorter than `known_ns` may be found.
  Status look_closer(std::int64_t known_ns) {
    if (sharpest_.empty() || is_proven() || bound_ns_ >= known_ns) return {};
    if (Status status = improve(); !status) return status;
    return is_proven() ? Status() : branch();
  }

  /// Steps of all that was played.
  [[nodiscard]] const std::map<std::vector<std::int32_t>, std::int64_t>& steps() const { return steps_; }
  [[nodiscard]] std::int64_t bound_ns() const { return bound_ns_; }
  [[nodiscard]] std::int64_t best_ns() const { return best_ns_; }
  [[nodiscard]] bool is_head_apart() const { return is_head_apart_; }

 private:
  [[nodiscard]] bool is_proven() const { return bound_ns_ >= best_ns_; }

  /// A stage may not hold what `layers` asks of it.
  [[nodiscard]] bool is_legal(const std::vector<std::int32_t>& layers) {
    std::int32_t first = 0;
    for (std::int32_t stage = 0; stage < choices_.stages(); ++stage) {
      const std::int32_t count = layers[static_cast<std::size_t>(stage)];
      if (count > choices_.most() || choices_.chunk(stage, first, count) < 0) return false;
      first += count;
    }
    return first == choices_.layers();
  }

  [[nodiscard]] simulate::StageTimes times_of(const std::vector<std::int32_t>& layers) {
    simulate::StageTimes times(ranks_);
    std::size_t stage = 0;
    for (const std::int32_t chunk : chunks_of(layers)) times[stage++ % ranks_].push_back(catalogue_.time(chunk));
    return times;
  }

  /// REQUIRES: is_legal(layers).
  Result<std::int64_t> play(const std::vector<std::int32_t>& layers) {
    if (const auto known = steps_.find(layers); known != steps_.end()) return known->second;
    const Result<std::int64_t> step = clock_.step_ns(times_of(layers));
    if (!step) return step.error();
    work_ += clock_.passes();
    steps_[layers] = step.value();
    if (best_.empty() || step.value() < best_ns_) {
      best_ns_ = step.value();
      best_ = layers;
    }
    return step.value();
  }

  Result<Weights> path(const std::vector<std::int32_t>& layers) {
    const Result<simulate::SchedulePath> path = clock_.path(times_of(layers));
    if (!path) return path.error();
    work_ += clock_.passes();
    return weights_of(path.value());
  }

  void keep(const Weights& weights) {
    if (paths_.size() == kMostPaths) paths_.erase(paths_.begin());
    paths_.emplace_back(catalogue_, weights);
  }

  /// Plays what people would write.
  Status start() {
    for (std::vector<std::int32_t> layers :
         even_ways(choices_.layers(), choices_.stages() - (is_head_apart_ ? 1 : 0))) {
      if (is_head_apart_) layers.push_back(0);
      if (!is_legal(layers)) continue;
      if (const Result<std::int64_t> step = play(layers); !step) return step.error();
    }
    return {};
  }

  /// Fictitious play of two players: one mixes paths, the other placements. Each round adds the placement that is least
  /// under the mixture of paths, and a longest path of the mean of all placements so far; so the bound closes in on the
  /// best mixture of placements, which is no longer than the best placement.
  Status bound() {
    SpanMeans means(spans_of_all(best_));
    for (int round = 0; round < effort_.bounding_rounds && !is_proven(); ++round) {
      if (work_ > effort_.work) break;
      const Result<simulate::SchedulePath> longest = clock_.path(means.times(ranks_));
      if (!longest) return longest.error();
      work_ += clock_.passes();
      const Weights added = weights_of(longest.value());
      if (round == 0)
        mixture_ = added;
      else
        mix(mixture_, added, 1.0 / (round + 1));
      const LeastSum least(StageSum(catalogue_, mixture_), choices_);
      const std::int64_t bound = bound_of(least.rest(0, 0));
      if (bound > bound_ns_) {
        bound_ns_ = bound;
        sharpest_ = mixture_;
      }
      const std::vector<std::int32_t> layers = least.placement();
      if (const Result<std::int64_t> step = play(layers); !step) return step.error();
      means.add(spans_of_all(layers), 1.0 / (round + 2));
    }
    if (sharpest_.empty()) sharpest_ = mixture_;
    for (const auto& [step, layers] : fastest(kMostPaths / 2)) {
      const Result<Weights> longest = path(layers);
      if (!longest) return longest.error();
      keep(longest.value());
    }
    keep(sharpest_);
    return {};
  }

  [[nodiscard]] Weights spans_of_all(const std::vector<std::int32_t>& layers) {
    Weights spans;
    for (const std::int32_t chunk : chunks_of(layers)) {
      const auto& of_chunk = catalogue_.spans(chunk);
      std::ranges::copy(of_chunk, spans.emplace_back().begin());
    }
    return spans;
  }

  [[nodiscard]] std::vector<std::int32_t> chunks_of(const std::vector<std::int32_t>& layers) {
    std::vector<std::int32_t> chunks;
    std::int32_t first = 0;
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
      chunks.push_back(choices_.chunk(static_cast<std::int32_t>(stage), first, layers[stage]));
      first += layers[stage];
    }
    return chunks;
  }

  /// Of what was played.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> fastest(std::size_t count) const {
    std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> list;
    for (const auto& [layers, step] : steps_) list.emplace_back(step, layers);
    std::ranges::sort(list);
    if (list.size() > count) list.resize(count);
    return list;
  }

  /// Moves single layers of the best placements while that helps.
  Status improve() {
    for (auto& [step, layers] : fastest(kImproved)) {
      bool moved = true;
      while (moved) {
        const Result<bool> better = move_a_layer(layers, step);
        if (!better) return better.error();
        moved = better.value();
      }
    }
    return {};
  }

  /// To the first better neighbour, of those that paths say most for.
  Result<bool> move_a_layer(std::vector<std::int32_t>& layers, std::int64_t& step_ns) {
    std::vector<std::pair<double, std::vector<std::int32_t>>> moved = neighbours(layers);
    std::erase_if(moved, [&](const auto& neighbour) { return is_no_better(neighbour.first, step_ns); });
    std::ranges::sort(moved);
    if (moved.size() > kMoved) moved.resize(kMoved);
    for (auto& [sum, neighbour] : moved) {
      if (work_ > effort_.work) return false;
      const Result<std::int64_t> step = play(neighbour);
      if (!step) return step.error();
      if (step.value() >= step_ns) continue;
      step_ns = step.value();
      layers = std::move(neighbour);
      const Result<Weights> of_layers = path(layers);
      if (!of_layers) return of_layers.error();
      keep(of_layers.value());
      return true;
    }
    return false;
  }

  /// One layer less here and one more there, with the most that a path says it takes.
  [[nodiscard]] std::vector<std::pair<double, std::vector<std::int32_t>>> neighbours(
      const std::vector<std::int32_t>& layers) {
    std::vector<MovedSums> sums;
    for (const StageSum& sum : paths_) sums.emplace_back(sum, choices_, layers);
    std::vector<std::pair<double, std::vector<std::int32_t>>> list;
    for (std::size_t from = 0; from < layers.size(); ++from)
      for (std::size_t to = 0; to < layers.size(); ++to) {
        if (from == to || layers[from] == 0) continue;
        if (work_ > effort_.work) return list;
        work_ += static_cast<std::int64_t>(paths_.size()) / kSumsAPass;
        double most = 0;
        for (const MovedSums& sum : sums) most = std::max(most, sum.of(from, to));
        if (std::isinf(most)) continue;
        std::vector<std::int32_t> moved = layers;
        --moved[from];
        ++moved[to];
        list.emplace_back(most, std::move(moved));
      }
    return list;
  }

  /// All placements, stage by stage, but those that some path bounds away.
  Status branch() {
    for (const StageSum& sum : paths_) least_.emplace_back(sum, choices_);
    branches_ = 0;
    std::vector<std::int32_t> layers;
    std::vector<double> sums(paths_.size(), 0);
    if (Status status = branch_from(layers, 0, sums); !status) return status;
    if (branches_ <= effort_.branches) bound_ns_ = best_ns_;
    return {};
  }

  Status branch_from(std::vector<std::int32_t>& layers, std::int32_t first, const std::vector<double>& sums) {
    const auto stage = static_cast<std::int32_t>(layers.size());
    if (stage == choices_.stages()) {
      const Result<std::int64_t> step = play(layers);
      return step ? Status() : Status(step.error());
    }
    for (std::int32_t count : by_least(stage, first)) {
      if (++branches_ > effort_.branches || work_ > effort_.work) {
        branches_ = effort_.branches + 1;
        return {};
      }
      const std::int32_t chunk = choices_.chunk(stage, first, count);
      std::vector<double> next = sums;
      bool hopeless = false;
      for (std::size_t i = 0; i < paths_.size() && !hopeless; ++i) {
        next[i] += paths_[i].at(stage, chunk);
        hopeless = is_no_better(next[i] + least_[i].rest(stage + 1, first + count), best_ns_);
      }
      if (hopeless) continue;
      layers.push_back(count);
      const Status status = branch_from(layers, first + count, next);
      layers.pop_back();
      if (!status) return status;
    }
    return {};
  }

  /// Layers that the stage may hold, the most promising under the sharpest mixture first.
  [[nodiscard]] std::vector<std::int32_t> by_least(std::int32_t stage, std::int32_t first) {
    std::vector<std::pair<double, std::int32_t>> ranked;
    for (std::int32_t count = 0; count <= std::min(choices_.most(), choices_.layers() - first); ++count) {
      const std::int32_t chunk = choices_.chunk(stage, first, count);
      if (chunk < 0) continue;
      ranked.emplace_back(paths_.back().at(stage, chunk) + least_.back().rest(stage + 1, first + count), count);
    }
    std::ranges::sort(ranked);
    std::vector<std::int32_t> counts;
    for (const auto& [sum, count] : ranked) counts.push_back(count);
    return counts;
  }

  ChunkCatalogue catalogue_;
  simulate::PassClock clock_;
  const PlacementEffort& effort_;
  bool is_head_apart_;
  StageChoices choices_;
  std::size_t ranks_;
  std::map<std::vector<std::int32_t>, std::int64_t> steps_;
  std::vector<std::int32_t> best_;
  std::int64_t best_ns_ = 0, bound_ns_ = 0;
  Weights mixture_, sharpest_;
  std::vector<StageSum> paths_;
  std::vector<LeastSum> least_;  ///< of paths_
  std::int64_t work_ = 0, branches_ = 0;
};

/// No stage of a placement that is as fast as an even one holds more: its micro-batches alone would take longer.
Result<std::int32_t> most_layers(const graph_build::JobSpec& job, simulate::ChunkTimes& times,
                                 simulate::PassClock& clock) {
  const graph_build::ParallelSpec& given = job.parallel;
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  const auto stages = static_cast<std::int32_t>(given.stages());
  graph_build::JobSpec even = job;
  place(job.model, {.layers = graph_build::even_layers(layers, stages)}, even.parallel);
  const Result<simulate::StageTimes> chunks = times.times_of(even);
  if (!chunks) return chunks.error();
  const Result<std::int64_t> step = clock.step_ns(chunks.value());
  if (!step) return step.error();
  const Result<simulate::LayerTimes> single = times.layers_of(even);
  if (!single) return single.error();
  std::int64_t least = 0;
  const simulate::LayerTimes& of = single.value();
  for (const simulate::ChunkTime* time : {&of.dense, &of.moe, &of.windowed_dense, &of.windowed_moe}) {
    const std::int64_t ns = time->forward.compute_ns + time->backward.compute_ns;
    if (ns > 0 && (least == 0 || ns < least)) least = ns;
  }
  const std::int32_t even_most = (layers + stages - 1) / stages;
  if (least == 0) return layers;
  const std::int64_t most = step.value() / (least * given.micro_batches()) + 1;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(most, std::min(even_most + 1, layers), layers));
}

}  // namespace

Result<PlacementSearchResult> search_placements(const graph_build::JobSpec& job, simulate::ChunkTimes& times,
                                                const PlacementEffort& effort) {
  if (!is_searchable(job))
    return bad_input("parallel.placement: auto places at most " + std::to_string(kMostPlacedLayers) + " layers on " +
                     std::to_string(kMostPlacedStages) + " stages; write noop_slots or ranks");
  Result<simulate::PassClock> clock = simulate::PassClock::of(job.parallel);
  if (!clock) return clock.error();
  const Result<std::int32_t> most = most_layers(job, times, clock.value());
  if (!most) return most.error();
  std::vector<std::unique_ptr<HeadSearch>> searches;
  for (const bool is_head_apart : {false, true})
    if (!is_head_apart || (job.model.mtp_layers > 0 && job.parallel.pipeline > 1))
      searches.push_back(std::make_unique<HeadSearch>(job, times, clock.value(), effort, is_head_apart, most.value()));
  Status status =
      threads::parallel_try_each(searches.size(), [&](std::size_t i) { return searches[i]->look_around(); });
  if (!status) return status.error();
  std::int64_t known_ns = std::numeric_limits<std::int64_t>::max();
  for (const auto& search : searches)
    if (!search->steps().empty()) known_ns = std::min(known_ns, search->best_ns());
  status =
      threads::parallel_try_each(searches.size(), [&](std::size_t i) { return searches[i]->look_closer(known_ns); });
  if (!status) return status.error();
  PlacementSearchResult result;
  std::optional<std::int64_t> bound;
  for (const auto& searched : searches) {
    const HeadSearch& search = *searched;
    if (search.steps().empty()) continue;
    for (const auto& [layers, step] : search.steps())
      result.best.push_back(
          {.placement = {.layers = layers, .is_head_apart = search.is_head_apart()}, .step_ns = step});
    bound = std::min(bound.value_or(search.bound_ns()), search.bound_ns());
  }
  result.played = static_cast<std::int64_t>(result.best.size());
  std::ranges::sort(result.best, {}, [](const PlacedStep& placed) {
    return std::tuple(placed.step_ns, placed.placement.is_head_apart, placed.placement.layers);
  });
  if (result.best.size() > effort.kept) result.best.resize(effort.kept);
  result.bound_ns = std::min(bound.value_or(0), result.best.front().step_ns);
  return result;
}

}  // namespace tidemark::search
