// Layouts of small random jobs: the enumeration against loops over everything, bounds against simulated steps, and the
// pruned search against one that plans every layout.

#include "planner/search/layout_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "planner/graph_build/static_memory.h"
#include "planner/simulate/pass_times.h"
#include "policies/policies.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::search {
namespace {

constexpr std::int64_t kDevices = 8;

LayoutRanges small_ranges() {
  return {.tensor = {1, 2},
          .context = {1},
          .pipeline = {1, 2, 4},
          .virtual_pipeline = {1, 2},
          .expert = {1, 2},
          .micro_batch = {1, 2}};
}

graph_build::JobSpec job_on_devices(testing::JobGenerator& random) {
  graph_build::JobSpec job = random.next();
  job.parallel.global_batch = 16;
  return job;
}

std::set<std::string> texts_of(const LayoutSpace& space) {
  std::set<std::string> texts;
  for (const SearchLayout& layout : space.layouts) texts.insert(layout_text(layout));
  return texts;
}

/// `TP2 PP4 VPP1 EP1 MBS2` of layouts that were enumerated; chunks of one rank are one chunk.
std::set<std::string> degrees_of(const std::set<std::string>& texts) {
  std::set<std::string> list;
  for (const std::string& text : texts)
    if (!text.ends_with("as given") && text.find("PP1 VPP2") == std::string::npos)
      list.insert(text.substr(0, text.find(" DP")));
  return list;
}

/// Every combination there is, each asked of the rules of a job.
std::set<std::string> legal_by_loops(const graph_build::JobSpec& job, const LayoutRanges& ranges) {
  std::set<std::string> texts;
  for (const auto t : ranges.tensor)
    for (const auto p : ranges.pipeline)
      for (const auto v : ranges.virtual_pipeline)
        for (const auto e : ranges.expert)
          for (const auto size : ranges.micro_batch)
            for (int flags = 0; flags < 8; ++flags)
              for (const Spread spread : {Spread::tail, Spread::back, Spread::front}) {
                if (kDevices % (t * p) != 0) continue;
                SearchLayout layout{.parallel = job.parallel, .spread = spread};
                graph_build::ParallelSpec& parallel = layout.parallel;
                parallel.slots.clear();
                parallel.tensor = t;
                parallel.context = 1;
                parallel.pipeline = p;
                parallel.virtual_pipeline = v;
                parallel.expert = e;
                if (e == 1 && t == 1) parallel.expert_exchange_parts = 1;  // one device has all experts whole
                parallel.data = static_cast<std::int32_t>(kDevices / (t * p));
                parallel.micro_batch = size;
                parallel.sequence_parallel = t > 1;
                parallel.tensor_extends_expert = (flags & 1) != 0;
                parallel.hierarchical_expert_communication = (flags & 2) != 0;
                parallel.overlap_forward_backward = (flags & 4) != 0;
                const graph_build::JobSpec placed = with_layout(job, layout);
                if (!placed.parallel.slots.empty() && graph_build::find_problems(placed).empty())
                  texts.insert(layout_text(layout));
              }
  return texts;
}

TEST(LayoutSpace, HoldsOnlyLegalLayoutsOnceEach) {
  testing::JobGenerator random(11);
  for (int i = 0; i < 20; ++i) {
    const graph_build::JobSpec job = job_on_devices(random);
    const LayoutSpace space = enumerate_layouts(job, testing::ascend_910b(), kDevices, small_ranges());
    EXPECT_EQ(texts_of(space).size(), space.layouts.size());
    std::int64_t refused = 0;
    for (const auto& [key, count] : space.refused) refused += count;
    EXPECT_EQ(space.tried, refused + static_cast<std::int64_t>(space.layouts.size()));
    for (const SearchLayout& layout : space.layouts) {
      EXPECT_LT(layout.group, space.groups);
      const graph_build::JobSpec placed = with_layout(job, layout);
      EXPECT_TRUE(graph_build::find_problems(placed).empty()) << layout_text(layout);
      EXPECT_EQ(placed.parallel.devices(), kDevices);
    }
  }
}

TEST(LayoutSpace, MissesNoLegalDegrees) {
  testing::JobGenerator random(12);
  for (int i = 0; i < 20; ++i) {
    const graph_build::JobSpec job = job_on_devices(random);
    const LayoutSpace space = enumerate_layouts(job, testing::ascend_910b(), kDevices, small_ranges());
    std::set<std::string> found = degrees_of(texts_of(space));
    // A spread or a flag that changes nothing is left out, so what is compared are the degrees. The job's own layout
    // stands for itself.
    if (space.has_given)
      for (const std::string& text : degrees_of({layout_text({.parallel = job.parallel, .spread = Spread::tail})}))
        if (text.find("CP") == std::string::npos && job.parallel.tensor <= 2) found.insert(text);
    EXPECT_EQ(found, degrees_of(legal_by_loops(job, small_ranges()))) << "job " << i;
  }
}

/// Each layout with the main head moved, asked of the rules of a job.
TEST(LayoutSpace, TheMainHeadSitsWhereverItMay) {
  testing::JobGenerator random(14);
  int apart = 0;
  for (int i = 0; i < 60; ++i) {
    const graph_build::JobSpec job = job_on_devices(random);
    const LayoutSpace space = enumerate_layouts(job, testing::ascend_910b(), kDevices, small_ranges());
    if (space.has_given) continue;  // it stands for the one that is like it
    const std::set<std::string> found = texts_of(space);
    for (const SearchLayout& layout : space.layouts) {
      apart += layout.parallel.is_head_apart() ? 1 : 0;
      for (std::int32_t stage = -1; stage + 1 < layout.parallel.stages(); ++stage) {
        SearchLayout moved = layout;
        moved.parallel.head_stage = stage;
        const bool is_legal = graph_build::find_problems(with_layout(job, moved)).empty();
        EXPECT_TRUE(!is_legal || found.contains(layout_text(moved))) << layout_text(moved) << " stage " << stage;
      }
    }
  }
  EXPECT_GT(apart, 20);
}

TEST(PassTimes, BoundsAreBelowTheSimulatedStep) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  testing::JobGenerator random(13);
  const Machine machine = testing::ascend_910b();
  int layouts = 0;
  for (int i = 0; i < 12; ++i) {
    const graph_build::JobSpec job = job_on_devices(random);
    const LayoutSpace space = enumerate_layouts(job, machine, kDevices, small_ranges());
    simulate::PassTimeTable table(machine, 1.2, 1.0);
    for (std::size_t id = 0; id < space.layouts.size(); id += 7) {
      const graph_build::JobSpec placed = with_layout(job, space.layouts[id]);
      const plan::PlanRequest request{
          .job = placed, .machine = machine, .policy = policies::find_policy("keep-all"), .load = 1.2, .ranks = {0}};
      const auto planned = plan::plan_step(request);
      ASSERT_TRUE(planned.ok()) << planned.error().message;
      const auto stages = table.times_of(placed);
      const auto layers = table.layers_of(placed);
      ASSERT_TRUE(stages.ok() && layers.ok());
      const auto by_passes = simulate::guess_by_passes(stages.value(), placed.parallel);
      ASSERT_TRUE(by_passes.ok());
      const simulate::StepGuess by_layers = simulate::guess_by_layers(layers.value(), placed);
      const std::string where = "job " + std::to_string(i) + ", " + layout_text(space.layouts[id]);
      EXPECT_LE(by_passes.value().bound_ns, planned.value().step.keep_all_step_ns) << where;
      EXPECT_LE(by_layers.bound_ns, by_passes.value().bound_ns) << where;
      EXPECT_GT(2 * by_passes.value().bound_ns, planned.value().step.keep_all_step_ns / 4) << where;
      ++layouts;
    }
  }
  EXPECT_GT(layouts, 50);
}

class SmallSearch {
 public:
  SmallSearch(std::uint32_t seed, const char* policy) : SmallSearch(seed, *policies::find_policy(policy)) {}
  /// One layout of `every`.
  SmallSearch(std::uint32_t seed, const plan::Policy& policy, std::size_t every = 3) : policy_(policy) {
    testing::JobGenerator random(seed);
    plan_ = {.job = job_on_devices(random), .machine = testing::ascend_910b(), .policy = &policy_, .load = 1.1};
    LayoutRanges ranges = small_ranges();
    ranges.micro_batch = {1};
    space_ = enumerate_layouts(plan_.job, plan_.machine, kDevices, ranges);
    std::vector<SearchLayout> some;
    for (std::size_t id = 0; id < space_.layouts.size(); id += every) some.push_back(space_.layouts[id]);
    space_.layouts = std::move(some);
  }

  LayoutSearchResult run(bool prune, int threads, const std::map<std::string, LayoutFigures>& known = {},
                         std::size_t most_planned = 100'000) {
    plan_.threads = threads;
    lines_.clear();
    const auto result = search_layouts({.plan = plan_,
                                        .space = space_,
                                        .top = kTop,
                                        .most_planned = most_planned,
                                        .prune = prune,
                                        .known = known,
                                        .finished = [&](const SearchLayout& layout, const LayoutFigures& f) {
                                          lines_.emplace_back(layout_text(layout), f);
                                        }});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.value();
  }

  static constexpr std::size_t kTop = 3;

  /// So that some layouts do not fit.
  void set_budget(Bytes bytes) { plan_.budget_bytes = bytes; }
  /// So that even the fastest has to give up half of what it would keep.
  void halve_room() {
    const RankedLayout fastest = run(true, 0).best.front();
    set_budget((fastest.figures.peak_bytes + persistent_bytes(fastest.id)) / 2);
  }
  void set_host_budget(Bytes bytes) { plan_.host_budget_bytes = bytes; }
  [[nodiscard]] const LayoutSpace& space() const { return space_; }

  /// Reserves and static memory of the worst rank.
  [[nodiscard]] Bytes persistent_bytes(std::size_t id) const {
    const graph_build::JobSpec job = with_layout(plan_.job, space_.layouts[id]);
    Bytes most = 0;
    for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank)
      most = std::max(most, graph_build::static_memory(job, rank).total());
    return most + graph_build::reserve_memory(plan_.machine, job.parallel).total();
  }

  /// Modelled step of a layout planned by itself, without a search; nothing: it does not fit.
  [[nodiscard]] std::optional<std::int64_t> step_of(std::size_t id) const {
    plan::PlanRequest request = plan_;
    request.job = with_layout(plan_.job, space_.layouts[id]);
    const auto planned = plan::plan_step(request);
    EXPECT_TRUE(planned.ok()) << layout_text(space_.layouts[id]) << ": " << planned.error().message;
    if (!planned || !planned.value().fits()) return std::nullopt;
    return planned.value().step.step_ns;
  }

  /// Modelled step of a layout with everything kept and memory ignored.
  [[nodiscard]] std::int64_t keep_all_ns(const std::string& text) const {
    const auto layout =
        std::ranges::find_if(space_.layouts, [&](const SearchLayout& other) { return layout_text(other) == text; });
    plan::PlanRequest request = plan_;
    request.job = with_layout(plan_.job, *layout);
    request.policy = policies::find_policy("keep-all");
    const auto planned = plan::plan_step(request);
    EXPECT_TRUE(planned.ok()) << text << ": " << planned.error().message;
    return planned ? planned.value().step.step_ns : 0;
  }

  /// Steps of all layouts that fit, with their ids, fastest first.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::size_t>> all_that_fit() const {
    std::vector<std::pair<std::int64_t, std::size_t>> fitting;
    for (std::size_t id = 0; id < space_.layouts.size(); ++id)
      if (const auto step_ns = step_of(id)) fitting.emplace_back(*step_ns, id);
    std::ranges::sort(fitting);
    return fitting;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, LayoutFigures>>& lines() const { return lines_; }

 private:
  plan::Policy policy_;
  plan::PlanRequest plan_;
  LayoutSpace space_;
  std::vector<std::pair<std::string, LayoutFigures>> lines_;
};

void expect_same(const LayoutSearchResult& a, const LayoutSearchResult& b) {
  ASSERT_EQ(a.best.size(), b.best.size());
  for (std::size_t i = 0; i < a.best.size(); ++i) {
    EXPECT_EQ(a.best[i].id, b.best[i].id) << i;
    EXPECT_EQ(a.best[i].figures, b.best[i].figures) << i;
  }
}

TEST(LayoutSearch, PruningKeepsTheFastest) {
  std::size_t pruned = 0, misfits = 0;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    SmallSearch search(seed, "keep-all");
    LayoutSearchResult all = search.run(false, 0);
    ASSERT_FALSE(all.best.empty());
    // With everything kept, the fastest no longer fits.
    search.set_budget(all.best.front().figures.peak_bytes - 1);
    all = search.run(false, 0);
    const LayoutSearchResult fast = search.run(true, 0);
    expect_same(all, fast);
    EXPECT_TRUE(fast.proven());
    pruned += all.planned - fast.planned;
    misfits += all.misfit + all.over_static;
  }
  EXPECT_GT(pruned, 0U);
  EXPECT_GT(misfits, 0U);
}

/// Each layout has one fate.
void expect_counted_once(const LayoutSearchResult& result, const LayoutSpace& space) {
  EXPECT_EQ(result.over_static + result.bounded_away + result.planned + result.below, space.layouts.size());
  EXPECT_LE(result.misfit, result.planned);
}

using Fitting = std::vector<std::pair<std::int64_t, std::size_t>>;

/// `all_that_fit`, as far as a search shows it. Where the search says that it is proven it has missed nothing.
void expect_honest(const LayoutSearchResult& result, const Fitting& fitting) {
  if (!result.proven()) return;
  ASSERT_EQ(result.best.size(), std::min(SmallSearch::kTop, fitting.size()));
  for (std::size_t i = 0; i < result.best.size(); ++i) EXPECT_EQ(result.best[i].figures.step_ns, fitting[i].first) << i;
}

/// What is planned may be among those shown, or ahead of the job's own: with everything kept its step, which a plan
/// only adds to, is no longer than theirs.
TEST(LayoutSearch, PlansOnlyWhatMayBeShown) {
  std::size_t planned = 0, spared = 0, dearer = 0;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    SmallSearch search(seed, "greedy");
    search.halve_room();
    const LayoutSearchResult all = search.run(false, 0), result = search.run(true, 0);
    expect_same(all, result);
    if (result.best.size() < SmallSearch::kTop) continue;
    std::int64_t last_ns = result.best.back().figures.step_ns;
    if (result.given) last_ns = std::max(last_ns, result.given->figures.step_ns);
    for (const auto& [text, figures] : search.lines()) {
      const std::int64_t kept_ns = search.keep_all_ns(text);
      EXPECT_LE(kept_ns, last_ns) << text;
      if (!figures.fits) continue;
      EXPECT_LE(kept_ns, figures.step_ns) << text;
      dearer += kept_ns < figures.step_ns ? 1U : 0U;
    }
    planned += result.planned;
    spared += all.planned - result.planned;
  }
  EXPECT_GT(planned, 9U);
  EXPECT_GT(spared, 0U);
  EXPECT_GT(dearer, 0U);
}

/// Offloads state as `optimal` does and decides the rest in little time.
plan::Policy quick_offloading() {
  plan::Policy policy = *policies::find_policy("greedy");
  policy.offloads_state = true;
  return policy;
}

/// Budgets below the static memory of some layouts or of all of them, with much host memory and with little: what the
/// search finds is what planning every layout by itself finds.
TEST(LayoutSearch, FindsWhatFitsWithStateOffloadedOnly) {
  std::size_t offloaded = 0, over_static = 0, misfits = 0, unproven = 0;
  for (std::uint32_t seed = 1; seed <= 2; ++seed) {
    SmallSearch search(seed, quick_offloading(), 9);
    std::vector<Bytes> persistent;
    for (std::size_t id = 0; id < search.space().layouts.size(); ++id)
      persistent.push_back(search.persistent_bytes(id));
    std::vector<Bytes> sorted = persistent;
    std::ranges::sort(sorted);
    for (const auto& [budget, host] :
         {std::pair(sorted.front(), 64 * kGiB), std::pair(sorted[sorted.size() / 2], 64 * kGiB),
          std::pair(sorted.back(), 64 * kMiB)}) {
      search.set_budget(budget);
      search.set_host_budget(host);
      const Fitting fitting = search.all_that_fit();
      for (const auto& [step_ns, id] : fitting) offloaded += persistent[id] > budget ? 1U : 0U;
      std::map<std::string, LayoutFigures> known;
      for (const std::size_t most : {1000U, 16U, 4U, 1U}) {
        const LayoutSearchResult result = search.run(true, 0, known, most);
        known.insert(search.lines().begin(), search.lines().end());
        expect_counted_once(result, search.space());
        expect_honest(result, fitting);
        EXPECT_LE(result.over_static + result.misfit + fitting.size(), search.space().layouts.size());
        for (const RankedLayout& ranked : result.best) EXPECT_LE(ranked.bound_ns, ranked.figures.step_ns);
        over_static += result.over_static;
        misfits += result.misfit;
        unproven += result.proven() ? 0U : 1U;
        EXPECT_TRUE(most < 1000 || result.proven());
      }
    }
  }
  EXPECT_GT(offloaded, 3U);
  EXPECT_GT(over_static, 0U);
  EXPECT_GT(misfits, 0U);
  EXPECT_GT(unproven, 0U);
}

/// The job's own layout is planned though nothing fits, and is counted as planned alone.
TEST(LayoutSearch, CountsTheJobsOwnLayoutOnce) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  for (const plan::Policy& policy : {quick_offloading(), *policies::find_policy("keep-all")}) {
    int given = 0;
    for (std::uint32_t seed = 1; given == 0 && seed <= 60; ++seed) {
      SmallSearch search(seed, policy);
      search.set_budget(1);
      const LayoutSearchResult result = search.run(true, 0);
      expect_counted_once(result, search.space());
      EXPECT_EQ(result.planned, search.space().has_given ? 1U : 0U);
      EXPECT_EQ(result.bounded_away, 0U);
      EXPECT_TRUE(result.best.empty());
      given += search.space().has_given ? 1 : 0;
    }
    EXPECT_GT(given, 0) << policy.name;
  }
}

TEST(LayoutSearch, ThreadsAndWhatWasKnownChangeNothing) {
  SmallSearch search(10, "greedy");
  search.halve_room();
  const LayoutSearchResult one = search.run(true, 1);
  const auto lines = search.lines();
  ASSERT_GT(lines.size(), 3U);
  const LayoutSearchResult four = search.run(true, 4);
  EXPECT_EQ(search.lines(), lines);
  expect_same(one, four);
  std::map<std::string, LayoutFigures> half;
  for (std::size_t i = 0; i < lines.size() / 2; ++i) half.insert(lines[i]);
  const LayoutSearchResult resumed = search.run(true, 2, half);
  EXPECT_EQ(search.lines(), lines);
  expect_same(one, resumed);
  EXPECT_EQ(one.planned, resumed.planned);
}

TEST(LayoutSearch, TheLargestPartBinds) {
  EXPECT_EQ(binding_of({.memory_ns = 4, .communication_ns = 1, .imbalance_ns = 2, .bubble_ns = 3}), "memory");
  EXPECT_EQ(binding_of({.memory_ns = 1, .communication_ns = 5, .imbalance_ns = 2, .bubble_ns = 3}), "communication");
  EXPECT_EQ(binding_of({.imbalance_ns = 2, .bubble_ns = 1}), "imbalance");
  EXPECT_EQ(binding_of({.bubble_ns = 1}), "bubble");
}

}  // namespace
}  // namespace tidemark::search
