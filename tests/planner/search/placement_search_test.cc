// Placements against every placement there is on small pipelines, and against random ones on the reference job.

#include "planner/search/placement_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "planner/graph_build/layer_placement.h"
#include "planner/search/placement_costs.h"
#include "planner/simulate/pass_clock.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"

namespace tidemark::search {
namespace {

/// The step of one placement by itself, without the search's own tables.
std::int64_t step_of(const graph_build::JobSpec& job, const Placement& placement, simulate::PassTimeTable& times) {
  graph_build::JobSpec placed = job;
  place(job.model, placement, placed.parallel);
  EXPECT_TRUE(graph_build::find_problems(placed).empty());
  const auto chunks = times.times_of(placed);
  EXPECT_TRUE(chunks);
  auto clock = simulate::PassClock::of(placed.parallel);
  return clock.value().step_ns(chunks.value()).value();
}

/// Calls `visit` with every way to write `left` as a sum of `stages` counts.
void for_each_count(std::vector<std::int32_t>& counts, std::int32_t left, std::size_t stages,
                    const std::function<void(const std::vector<std::int32_t>&)>& visit) {
  if (counts.size() + 1 == stages) {
    counts.push_back(left);
    visit(counts);
    counts.pop_back();
    return;
  }
  for (std::int32_t count = 0; count <= left; ++count) {
    counts.push_back(count);
    for_each_count(counts, left - count, stages, visit);
    counts.pop_back();
  }
}

std::int64_t best_of_all(const graph_build::JobSpec& job, simulate::PassTimeTable& times) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> counts;
  const auto stages = static_cast<std::size_t>(job.parallel.stages());
  for_each_count(counts, static_cast<std::int32_t>(job.model.layers.size()), stages, [&](const auto& layers) {
    best = std::min(best, step_of(job, {.layers = layers}, times));
    if (job.model.mtp_layers > 0 && job.parallel.pipeline > 1 && layers.back() == 0)
      best = std::min(best, step_of(job, {.layers = layers, .is_head_apart = true}, times));
  });
  return best;
}

/// Small enough for every placement: at most 8 stages.
graph_build::JobSpec small_job(testing::JobGenerator& random, int round) {
  graph_build::JobSpec job = random.next();
  graph_build::ParallelSpec& p = job.parallel;
  p.pipeline = 2 + round % 3;
  p.virtual_pipeline = p.pipeline == 4 ? 1 + round % 2 : 1 + round / 2 % 2;
  p.data = 1;
  p.expert = 1;
  p.tensor_extends_expert = false;
  p.expert_exchange_parts = 1;
  p.head_stage = -1;
  p.global_batch = p.micro_batch * p.pipeline * 3;
  const std::size_t layers = p.stages() > 6 ? 7 : 5 + static_cast<std::size_t>(round % 5);
  job.model.layers.resize(layers, job.model.layers.back());
  job.model.mtp_layers = round % 2;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(p.stages()), 0);
  counts.front() = static_cast<std::int32_t>(layers);
  graph_build::fill_stages(job.model, counts, p);
  return job;
}

/// By stages one after the other; infinite where one may not hold what it would.
double plain_sum(const StageSum& sum, StageChoices& choices, const std::vector<std::int32_t>& layers) {
  double cost = 0;
  std::int32_t first = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool is_legal = layers[stage] <= choices.most();
    const std::int32_t chunk = is_legal ? choices.chunk(static_cast<std::int32_t>(stage), first, layers[stage]) : -1;
    if (chunk < 0) return std::numeric_limits<double>::infinity();
    cost += sum.at(static_cast<std::int32_t>(stage), chunk);
    first += layers[stage];
  }
  return cost;
}

TEST(MovedSums, EqualPlainSumsOfEveryMovedLayer) {
  const Machine machine = testing::ascend_910b();
  testing::JobGenerator random(12);
  std::mt19937 draw(5);
  int finite = 0, infinite = 0;
  for (int round = 0; round < 24; ++round) {
    const graph_build::JobSpec job = small_job(random, round);
    const bool is_head_apart = job.model.mtp_layers > 0 && job.parallel.pipeline > 1 && draw() % 2 == 0;
    simulate::PassTimeTable times(machine, 1.0, 1.0);
    ChunkCatalogue catalogue(job, times);
    const auto stages = static_cast<std::size_t>(job.parallel.stages());
    const auto layers = static_cast<std::int32_t>(job.model.layers.size());
    StageChoices choices(catalogue, is_head_apart, (layers + 1) / 2 + 1);
    ASSERT_TRUE(choices.fill());
    std::vector<std::array<double, 2 * simulate::kPassSpans>> weights(stages);
    for (auto& of_stage : weights)
      for (std::size_t span = 0; span < of_stage.size(); ++span) {
        // Of a stage that waits for nothing, what runs before its input is there has no end.
        const bool is_early = span % simulate::kPassSpans == static_cast<std::size_t>(simulate::PassSpan::early);
        of_stage[span] = is_early ? 0 : static_cast<double>(draw() % 8);
      }
    const StageSum sum(catalogue, weights);
    std::vector<std::int32_t> counts(stages, 0);
    for (std::int32_t layer = 0; layer < layers; ++layer) ++counts[draw() % stages];
    if (std::isinf(plain_sum(sum, choices, counts))) continue;
    const MovedSums moved(sum, choices, counts);
    for (std::size_t from = 0; from < stages; ++from)
      for (std::size_t to = 0; to < stages; ++to) {
        if (from == to || counts[from] == 0) continue;
        std::vector<std::int32_t> other = counts;
        --other[from];
        ++other[to];
        const double expected = plain_sum(sum, choices, other);
        if (std::isinf(expected)) {
          EXPECT_TRUE(std::isinf(moved.of(from, to)));
          ++infinite;
        } else {
          EXPECT_NEAR(moved.of(from, to), expected, 1e-9 * std::abs(expected))
              << ::testing::PrintToString(counts) << ", " << from << " to " << to;
          ++finite;
        }
      }
  }
  EXPECT_GT(finite, 20);
  EXPECT_GT(infinite, 2);
}

TEST(PlacementSearch, IsTheBestOfAllOnSmallPipelines) {
  testing::JobGenerator random(11);
  int proven = 0;
  for (int round = 0; round < 24; ++round) {
    const graph_build::JobSpec job = small_job(random, round);
    if (!graph_build::find_problems(job).empty()) continue;
    const Machine machine = testing::ascend_910b();
    simulate::PassTimeTable times(machine, 1.0, 1.0);
    const auto found = search_placements(job, times);
    ASSERT_TRUE(found) << found.error().message;
    const PlacedStep& best = found.value().best.front();
    EXPECT_EQ(best.step_ns, step_of(job, best.placement, times));
    const std::int64_t least = best_of_all(job, times);
    EXPECT_EQ(best.step_ns, least) << round << ": " << placement_text(best.placement);
    EXPECT_LE(found.value().bound_ns, least);
    proven += found.value().proven() ? 1 : 0;
  }
  EXPECT_GE(proven, 20);
}

/// Steps of many placements of one job: chunks are looked up, not built again.
class PlacementClock {
 public:
  PlacementClock(const graph_build::JobSpec& job, simulate::PassTimeTable& times)
      : job_(job), table_(times), clock_(simulate::PassClock::of(job.parallel).value()) {}

  std::int64_t step_ns(const Placement& placement) {
    const auto ranks = static_cast<std::size_t>(job_.parallel.pipeline);
    simulate::StageTimes times(ranks);
    std::int32_t first = 0;
    for (std::size_t stage = 0; stage < placement.layers.size(); ++stage) {
      const std::int32_t layers = placement.layers[stage];
      const bool is_last = stage + 1 == placement.layers.size();
      const bool ends = layers > 0 && first + layers == static_cast<std::int32_t>(job_.model.layers.size());
      times[stage % ranks].push_back(chunk({.first_layer = first,
                                            .layers = layers,
                                            .is_first = stage == 0,
                                            .is_last = is_last,
                                            .has_head = placement.is_head_apart ? ends : is_last}));
      first += layers;
    }
    return clock_.step_ns(times).value();
  }

 private:
  const simulate::ChunkTime& chunk(const simulate::ChunkContent& content) {
    const std::array<std::int32_t, 3> key = {
        (content.is_first ? 1 : 0) + (content.is_last ? 2 : 0) + (content.has_head ? 4 : 0), content.first_layer,
        content.layers};
    if (const auto known = chunks_.find(key); known != chunks_.end()) return known->second;
    return chunks_[key] = table_.chunk_of(job_, content).value();
  }

  const graph_build::JobSpec& job_;
  simulate::PassTimeTable& table_;
  simulate::PassClock clock_;
  std::map<std::array<std::int32_t, 3>, simulate::ChunkTime> chunks_;
};

graph_build::JobSpec pangu_of(std::size_t dense, std::size_t moe, std::int32_t ranks, std::int32_t chunks,
                              std::int64_t micro_batches) {
  graph_build::JobSpec job = testing::pangu_job();
  job.model.layers = testing::layer_kinds(dense, moe);
  graph_build::ParallelSpec& p = job.parallel;
  p.pipeline = ranks;
  p.virtual_pipeline = chunks;
  p.head_stage = -1;
  p.global_batch = p.micro_batch * p.data * micro_batches;
  testing::fill_slots(job);
  return job;
}

TEST(PlacementSearch, IsTheBestOfAllOfSixteenLayersOnFourRanksOfTwoChunks) {
  const graph_build::JobSpec job = pangu_of(1, 15, 4, 2, 8);
  const Machine machine = testing::ascend_910b();
  simulate::PassTimeTable times(machine, 1.0, 1.0);
  const auto found = search_placements(job, times);
  ASSERT_TRUE(found) << found.error().message;
  PlacementClock clock(job, times);
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), visited = 0;
  std::vector<std::int32_t> counts;
  // Chunks of more than six layers are far above a rank's share of four.
  for_each_count(counts, 16, 8, [&](const std::vector<std::int32_t>& layers) {
    if (*std::ranges::max_element(layers) > 6) return;
    ++visited;
    least = std::min(least, clock.step_ns({.layers = layers}));
    if (layers.back() == 0) least = std::min(least, clock.step_ns({.layers = layers, .is_head_apart = true}));
  });
  EXPECT_GT(visited, 100'000);
  EXPECT_EQ(found.value().best.front().step_ns, least) << placement_text(found.value().best.front().placement);
  EXPECT_TRUE(found.value().proven());
}

/// Compute of the busiest rank, or of the busiest chunk, above the mean.
double unevenness(const simulate::StageTimes& times) {
  double sum = 0, rank_most = 0, chunk_most = 0, chunks = 0;
  for (const auto& rank : times) {
    double of_rank = 0;
    for (const simulate::ChunkTime& chunk : rank) {
      const auto ns = static_cast<double>(chunk.forward.compute_ns + chunk.backward.compute_ns);
      chunk_most = std::max(chunk_most, ns);
      of_rank += ns;
      ++chunks;
    }
    rank_most = std::max(rank_most, of_rank);
    sum += of_rank;
  }
  return std::max(rank_most * static_cast<double>(times.size()), chunk_most * chunks) / sum - 1;
}

TEST(PlacementSearch, BeatsRandomPlacementsOfTheReferenceJob) {
  const graph_build::JobSpec job = testing::pangu_job();
  const Machine machine = testing::ascend_910b();
  simulate::PassTimeTable times(machine, 1.21, 1.0);  // of the fullest device of a group, as the job's steps are timed
  const auto found = search_placements(job, times);
  ASSERT_TRUE(found) << found.error().message;
  const PlacedStep& best = found.value().best.front();
  RecordProperty("placement", placement_text(best.placement));
  RecordProperty("step_ms", static_cast<int>(best.step_ns / 1'000'000));
  RecordProperty("bound_ms", static_cast<int>(found.value().bound_ns / 1'000'000));
  // What the shipped file says its slots are.
  EXPECT_EQ(best.placement.layers, graph_build::stage_layers(job.parallel));
  EXPECT_EQ(best.placement.is_head_apart, job.parallel.is_head_apart());
  graph_build::JobSpec placed = job;
  place(job.model, best.placement, placed.parallel);
  // With everything kept; as planned, ranks that recompute make the mean a little higher and 5 % is met.
  EXPECT_LE(unevenness(times.times_of(placed).value()), 0.051) << placement_text(best.placement);
  PlacementClock clock(job, times);
  std::mt19937 random(3);
  const auto stages = static_cast<std::size_t>(job.parallel.stages());
  for (int i = 0; i < 2000; ++i) {
    Placement placement{.layers = std::vector<std::int32_t>(stages, 0), .is_head_apart = random() % 2 == 0};
    const std::size_t open = placement.is_head_apart ? stages - 1 : stages;
    for (std::size_t layer = 0; layer < job.model.layers.size(); ++layer) {
      const std::size_t stage = random() % open;
      ++placement.layers[placement.layers[stage] < 3 ? stage : layer % open];
    }
    EXPECT_GE(clock.step_ns(placement), best.step_ns) << placement_text(placement);
  }
}

}  // namespace
}  // namespace tidemark::search
