// Each rule broken once on a chain of layers, and the clean schedule it was broken from.

#include <gtest/gtest.h>

#include <optional>

#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

using testing::ScheduleBuilder;
using Rule = Violation::Rule;
using Touch = Schedule::Touch;
constexpr AccessKind kRead = AccessKind::read;
constexpr AccessKind kWrite = AccessKind::write;

std::string text(const std::optional<Violation>& found) {
  return found ? found->detail : "clean";
}

void expect_rule(const std::optional<Violation>& found, Rule rule, std::string_view says) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, rule) << found->detail;
  EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
}

TEST(VerifySchedule, KeepAllIsClean) {
  for (const bool communication : {false, true}) {
    const Graph graph =
        testing::chain_graph({.layers = 3, .micro_batches = 3, .warm_up = 2, .communication = communication});
    EXPECT_EQ(text(verify_schedule(graph, testing::keep_all_schedule(graph))), "clean");
  }
}

TEST(VerifySchedule, KeepAllOfRandomGraphsIsCleanAndNeedsItsWaits) {
  int needed = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const Graph graph = testing::random_graph({.seed = seed, .ops = 40, .storages = 12});
    Schedule schedule = testing::keep_all_schedule(graph);
    ASSERT_EQ(text(verify_schedule(graph, schedule)), "clean") << seed;
    // Without any wait only FIFO order is left: enough for few graphs.
    for (Task& task : schedule.tasks) task.first_wait = 0;
    schedule.waits.clear();
    const auto found = verify_schedule(graph, schedule);
    if (found) {
      EXPECT_EQ(found->rule, Rule::data_order) << found->detail;
      ++needed;
    }
  }
  EXPECT_GT(needed, 80);
}

class BrokenSchedule : public ::testing::Test {
 protected:
  Graph graph_ = testing::chain_graph({.layers = 2, .communication = true});
  Schedule schedule_ = testing::keep_all_schedule(graph_);
  [[nodiscard]] auto found() const { return verify_schedule(graph_, schedule_); }
};

TEST_F(BrokenSchedule, ShapeIsDistrusted) {
  const Schedule good = schedule_;
  const auto expect_shape = [&](auto change) {
    schedule_ = good;
    change(schedule_);
    const auto result = found();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->rule, Rule::schedule_shape) << result->detail;
  };
  expect_shape([](Schedule& s) { s.waits[0] = id_of<TaskId>(s.tasks.size() - 1); });
  expect_shape([](Schedule& s) { s.waits[0] = kNone<TaskId>; });
  expect_shape([](Schedule& s) { s.touches[3].residency = id_of<ResidencyId>(s.residencies.size()); });
  expect_shape([](Schedule& s) { s.touches[3].kind = static_cast<AccessKind>(7); });
  expect_shape([](Schedule& s) { s.tasks[4].lane = static_cast<Lane>(9); });
  expect_shape([](Schedule& s) { s.tasks[4].kind = static_cast<TaskKind>(9); });
  expect_shape([](Schedule& s) { s.tasks[4].first_touch = 100'000; });
  expect_shape([](Schedule& s) { s.tasks[4].first_wait = -1; });
  expect_shape([](Schedule& s) { s.compute_tasks += 1; });
  expect_shape([](Schedule& s) { s.residencies[5].bytes = -1; });
  expect_shape([](Schedule& s) { s.residencies[5].bytes -= 1; });
  expect_shape([](Schedule& s) { s.residencies[5].last_task = id_of<TaskId>(s.tasks.size()); });
  expect_shape([](Schedule& s) { s.residencies[5].storage = static_cast<StorageId>(-7); });
  expect_shape([](Schedule& s) { s.rank = 3; });
}

TEST_F(BrokenSchedule, StayMustMatchItsTouches) {
  Residency& stay = schedule_.residencies[3];
  stay.last_task = next(stay.last_task);
  expect_rule(found(), Rule::schedule_shape, "attention.in");
  stay.last_task = stay.first_task;
  expect_rule(found(), Rule::not_resident, "outside its stay");
}

TEST_F(BrokenSchedule, OpLeftOut) {
  ScheduleBuilder b;
  for (std::size_t s = 0; s < 3; ++s) b.stay_all_step(id_of<StorageId>(s), graph_.storages[s].bytes);
  const ResidencyId in = b.stay(id_of<StorageId>(3), graph_.storages[3].bytes);
  b.op(graph_, id_of<OpId>(0), {}, {{id_of<ResidencyId>(0), kRead}, {in, kWrite}});
  schedule_ = std::move(b).finish();
  expect_rule(found(), Rule::missing_op, "op 1 (attention.up) is never run");
}

TEST_F(BrokenSchedule, OpTwiceOrOutOfOrder) {
  std::swap(schedule_.tasks[1].op, schedule_.tasks[4].op);
  expect_rule(found(), Rule::missing_op, "is not op");
  schedule_ = testing::keep_all_schedule(graph_);
  schedule_.tasks[5] = schedule_.tasks[1];
  EXPECT_TRUE(found().has_value());
}

TEST_F(BrokenSchedule, StaticStorageMustStayAllStep) {
  schedule_.residencies[2].first_task = id_of<TaskId>(1);
  expect_rule(found(), Rule::not_resident, "model.moments");
}

TEST_F(BrokenSchedule, ReadWithoutWaiting) {
  // `value` runs on the communication lane and reads what `up` wrote on the compute lane.
  const std::size_t value = 2;
  ASSERT_EQ(schedule_.tasks[value].lane, Lane::intra_comm);
  ASSERT_EQ(schedule_.waits_of(id_of<TaskId>(value)).size(), 1U);
  schedule_.waits.erase(schedule_.waits.begin() + schedule_.tasks[value].first_wait);
  for (std::size_t t = value + 1; t < schedule_.tasks.size(); ++t) --schedule_.tasks[t].first_wait;
  expect_rule(found(), Rule::data_order, "attention.value");
}

TEST_F(BrokenSchedule, TouchOfTheWrongStorage) {
  // The second op, `up` of layer 0, is made to write the `key` of its layer in place of `tmp`.
  const std::size_t at = static_cast<std::size_t>(schedule_.tasks[1].first_touch);
  const auto writes = std::find_if(schedule_.touches.begin() + static_cast<std::ptrdiff_t>(at), schedule_.touches.end(),
                                   [](const Touch& t) { return t.kind == kWrite; });
  writes->residency = id_of<ResidencyId>(4);
  schedule_.residencies[4].first_task = id_of<TaskId>(1);
  expect_rule(found(), Rule::not_resident, "attention.tmp");
}

// One layer, one micro-batch; `in` is dropped, swapped or rebuilt by the test between forward and backward.
class Gap : public ::testing::Test {
 protected:
  Graph graph_ = testing::chain_graph({.layers = 1, .micro_batches = 1});
  // Storages: 0-2 static, 3.. the layer (in, key, value, tmp, grad_kv, grad), 9 head in, 10 head grad.
  // Ops: 0 embed, 1 up, 2 value, 3 key, 4 out, 5 loss, 6 d_out, 7 d_in, 8 optimizer.
  ScheduleBuilder b_;
  std::vector<ResidencyId> of_;
  const StorageId in_ = id_of<StorageId>(3), key_ = id_of<StorageId>(4), value_ = id_of<StorageId>(5),
                  tmp_ = id_of<StorageId>(6);

  void SetUp() override {
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
      of_.push_back(s < 3 ? b_.stay_all_step(id_of<StorageId>(s), graph_.storages[s].bytes)
                          : again(id_of<StorageId>(s)));
    }
  }
  ResidencyId again(StorageId storage, MemorySpace space = MemorySpace::device) {
    return b_.stay(storage, graph_.storages[row(storage)].bytes, space);
  }
  TaskId run(std::size_t op, const std::vector<TaskId>& waits = {}) {
    std::vector<Touch> touches;
    for (const Access& access : graph_.accesses_of(id_of<OpId>(op)))
      touches.push_back({of_[row(access.storage)], access.kind});
    return b_.op(graph_, id_of<OpId>(op), waits, touches);
  }
  void run_from(std::size_t first, std::size_t last) {
    for (std::size_t op = first; op <= last; ++op) run(op);
  }
  TaskId rebuild(std::size_t step, const std::vector<Touch>& touches) {
    const Site& site = graph_.site_of(key_);
    const Recipe& recipe = graph_.recipes_of(site.block)[0];
    return b_.recompute(graph_, recipe.steps[step].op, graph_.storages[row(key_)].site, {}, touches);
  }
  [[nodiscard]] auto found() { return verify_schedule(graph_, std::move(b_).finish()); }

  // `key` and `value` dropped after the forward pass and rebuilt before d_out.
  void drop_and_rebuild() {
    run_from(0, 5);
    of_[row(tmp_)] = again(tmp_);
    of_[row(key_)] = again(key_);
    of_[row(value_)] = again(value_);
    rebuild(0, {{of_[row(in_)], kRead}, {of_[row(tmp_)], kWrite}});
    rebuild(1, {{of_[row(tmp_)], kRead}, {of_[row(key_)], kWrite}});
    rebuild(2, {{of_[row(tmp_)], kRead}, {of_[row(value_)], kWrite}});
    run_from(6, 8);
  }
};

TEST_F(Gap, RebuiltByARecipeIsClean) {
  drop_and_rebuild();
  EXPECT_EQ(text(found()), "clean");
}

TEST_F(Gap, ComesBackEmpty) {
  run_from(0, 5);
  of_[row(key_)] = again(key_);
  run_from(6, 8);
  expect_rule(found(), Rule::lost_data, "attention.key (chunk 0, layer 0, micro-batch 0)");
}

TEST_F(Gap, HalfARecipeIsNotEnough) {
  run_from(0, 5);
  of_[row(tmp_)] = again(tmp_);
  of_[row(value_)] = again(value_);
  rebuild(0, {{of_[row(in_)], kRead}, {of_[row(tmp_)], kWrite}});
  run_from(6, 8);
  expect_rule(found(), Rule::lost_data, "attention.value");
}

TEST_F(Gap, RecipeWithoutItsSource) {
  run_from(0, 5);
  of_[row(in_)] = again(in_);
  of_[row(tmp_)] = again(tmp_);
  rebuild(0, {{of_[row(in_)], kRead}, {of_[row(tmp_)], kWrite}});
  run_from(6, 8);
  expect_rule(found(), Rule::recipe_unsafe, "without its source storage attention.in");
}

TEST_F(Gap, StepOfNoRecipe) {
  run_from(0, 5);
  of_[row(key_)] = again(key_);
  rebuild(1, {{of_[row(in_)], kRead}, {of_[row(key_)], kWrite}});
  run_from(6, 8);
  expect_rule(found(), Rule::recipe_unsafe, "a step of no recipe");
}

TEST_F(Gap, OneSourceReadTwiceInPlaceOfTwo) {
  graph_.recipes[0].steps[2].reads.push_back(graph_.local_of(in_));
  run_from(0, 5);
  of_[row(tmp_)] = again(tmp_);
  of_[row(value_)] = again(value_);
  rebuild(0, {{of_[row(in_)], kRead}, {of_[row(tmp_)], kWrite}});
  rebuild(2, {{of_[row(tmp_)], kRead}, {of_[row(tmp_)], kRead}, {of_[row(value_)], kWrite}});
  run_from(6, 8);
  expect_rule(found(), Rule::recipe_unsafe, "a step of no recipe");
}

TEST_F(Gap, ImpureRecipe) {
  graph_.recipes[0].pure = false;
  drop_and_rebuild();
  expect_rule(found(), Rule::recipe_unsafe, "not pure");
}

TEST_F(Gap, BeforeAnOpThatIsNotTold) {
  graph_.op_templates[row(graph_.ops[6].op_template)].told = false;
  drop_and_rebuild();
  expect_rule(found(), Rule::recipe_unsafe, "stands right before op 6, which the graph says is not told");
}

TEST_F(Gap, SwappedOutAndInIsClean) {
  run_from(0, 4);
  const ResidencyId host = again(in_, MemorySpace::host);
  const TaskId out = b_.copy_out(in_, {id_of<TaskId>(0)}, of_[row(in_)], host);
  of_[row(in_)] = again(in_);
  const TaskId back = b_.copy_in(in_, {out}, host, of_[row(in_)]);
  run_from(5, 6);
  run(7, {back});
  run(8);
  EXPECT_EQ(text(found()), "clean");
}

TEST_F(Gap, CopyOutMustWaitForTheWriter) {
  run_from(0, 4);
  const ResidencyId host = again(in_, MemorySpace::host);
  b_.copy_out(in_, {}, of_[row(in_)], host);
  run_from(5, 8);
  expect_rule(found(), Rule::data_order, "copy out of storage attention.in");
}

TEST_F(Gap, CopyInMustWaitForTheCopyOut) {
  run_from(0, 4);
  const ResidencyId host = again(in_, MemorySpace::host);
  b_.copy_out(in_, {id_of<TaskId>(0)}, of_[row(in_)], host);
  of_[row(in_)] = again(in_);
  b_.copy_in(in_, {}, host, of_[row(in_)]);
  run_from(5, 8);
  expect_rule(found(), Rule::data_order, "copy in of storage attention.in");
}

TEST_F(Gap, UseMustWaitForTheCopyIn) {
  run_from(0, 4);
  const ResidencyId host = again(in_, MemorySpace::host);
  const TaskId out = b_.copy_out(in_, {id_of<TaskId>(0)}, of_[row(in_)], host);
  of_[row(in_)] = again(in_);
  b_.copy_in(in_, {out}, host, of_[row(in_)]);
  run_from(5, 8);
  expect_rule(found(), Rule::data_order, "attention.d_in");
}

TEST_F(Gap, CopyInWithoutCopyOut) {
  run_from(0, 4);
  const ResidencyId host = again(in_, MemorySpace::host);
  of_[row(in_)] = again(in_);
  b_.copy_in(in_, {}, host, of_[row(in_)]);
  run_from(5, 8);
  expect_rule(found(), Rule::lost_data, "attention.in");
}

TEST_F(Gap, CopyBetweenTheWrongStorages) {
  run_from(0, 4);
  const ResidencyId host = again(key_, MemorySpace::host);
  b_.copy_out(in_, {id_of<TaskId>(0)}, of_[row(in_)], host);
  run_from(5, 8);
  expect_rule(found(), Rule::schedule_shape, "on its copy lane");
}

TEST_F(Gap, OpOnAHostResidency) {
  of_[row(in_)] = again(in_, MemorySpace::host);
  run_from(0, 8);
  expect_rule(found(), Rule::not_resident, "in host memory");
}

// In place: version 2 is made where version 1 was, and what was swapped out before is stale.
TEST(VerifySchedule, StaleCopyIsNotTheDataNeeded) {
  testing::GraphBuilder g;
  const SiteId site = g.site(g.block("b", {{.name = "x", .fixed_bytes = 8}}));
  const StorageId x = g.at(site, 0);
  const OpTemplateId op = g.timed_op("op", 1);
  g.run(op, site, {}, {x});
  g.run(op, site, {x}, {x});
  g.run(op, site, {x}, {});
  const Graph graph = std::move(g).finish();

  ScheduleBuilder b;
  const ResidencyId first = b.stay(x, 8);
  const ResidencyId host = b.stay(x, 8, MemorySpace::host);
  const ResidencyId second = b.stay(x, 8);
  const TaskId made = b.op(graph, id_of<OpId>(0), {}, {{first, kWrite}});
  const TaskId out = b.copy_out(x, {made}, first, host);
  const TaskId changed = b.op(graph, id_of<OpId>(1), {out}, {{first, kRead}, {first, kWrite}});
  const TaskId back = b.copy_in(x, {changed}, host, second);
  b.op(graph, id_of<OpId>(2), {back}, {{second, kRead}});
  expect_rule(verify_schedule(graph, std::move(b).finish()), Rule::data_order, "needs version 2 of storage x");
}

// A recipe whose source has been overwritten in place since would rebuild something else.
TEST(VerifySchedule, RecipeFromAnOverwrittenSource) {
  testing::GraphBuilder g;
  const OpTemplateId make = g.timed_op("make", 1);
  const OpTemplateId derive = g.timed_op("derive", 1);
  const OpTemplateId use = g.timed_op("use", 1);
  const Recipe recipe{
      .name = "derive", .outputs = {1}, .sources = {0}, .steps = {{.op = derive, .reads = {0}, .writes = {1}}}};
  const SiteId site =
      g.site(g.block("b", {{.name = "x", .fixed_bytes = 8}, {.name = "y", .fixed_bytes = 8}}, {recipe}));
  const StorageId x = g.at(site, 0);
  const StorageId y = g.at(site, 1);
  g.run(make, site, {}, {x});
  g.run(derive, site, {x}, {y});
  g.run(make, site, {x}, {x});
  g.run(use, site, {y}, {});
  const Graph graph = std::move(g).finish();

  ScheduleBuilder b;
  const ResidencyId source = b.stay(x, 8);
  const ResidencyId first = b.stay(y, 8);
  const ResidencyId second = b.stay(y, 8);
  b.op(graph, id_of<OpId>(0), {}, {{source, kWrite}});
  b.op(graph, id_of<OpId>(1), {}, {{source, kRead}, {first, kWrite}});
  b.op(graph, id_of<OpId>(2), {}, {{source, kRead}, {source, kWrite}});
  b.recompute(graph, derive, site, {}, {{source, kRead}, {second, kWrite}});
  b.op(graph, id_of<OpId>(3), {}, {{second, kRead}});
  expect_rule(verify_schedule(graph, std::move(b).finish()), Rule::recipe_unsafe, "needs version 1 of storage x");
}

/// Optimizer state at rest in host memory: in ahead of the op that updates it, out behind it.
class RestingState : public ::testing::Test {
 protected:
  RestingState() {
    testing::GraphBuilder g;
    const BlockId block = g.block("state", {{.name = "moments",
                                             .role = StorageRole::optimizer_state,
                                             .fixed_bytes = 64,
                                             .initial = true,
                                             .lasting = true}});
    const SiteId site = g.site(block);
    g.run(g.timed_op("update", 1), site, {kState}, {kState});
    graph_ = std::move(g).finish();
  }

  /// `out`: where the copy out goes, if there is one.
  [[nodiscard]] Schedule schedule(std::optional<ResidencyId> out = kRest) const {
    ScheduleBuilder b;
    b.stay_all_step(kState, 64, MemorySpace::host);
    const ResidencyId device = b.stay(kState, 64), other = b.stay(kState, 64, MemorySpace::host);
    const TaskId in = b.copy_in(kState, {}, kRest, device);
    const TaskId update = b.op(graph_, id_of<OpId>(0), {in}, {{device, kRead}, {device, kWrite}});
    if (out) b.copy_out(kState, {update}, device, *out);
    static_cast<void>(other);
    return std::move(b).finish();
  }

  static constexpr StorageId kState = static_cast<StorageId>(0);
  static constexpr ResidencyId kRest = static_cast<ResidencyId>(0), kOther = static_cast<ResidencyId>(2);
  Graph graph_;
};

TEST_F(RestingState, IsCleanWhereItComesBackToItsPlace) {
  EXPECT_EQ(text(verify_schedule(graph_, schedule())), "clean");
}

TEST_F(RestingState, MustComeBackInItsLastVersion) {
  expect_rule(verify_schedule(graph_, schedule(std::nullopt)), Rule::lost_data, "in version 1");
  expect_rule(verify_schedule(graph_, schedule(kOther)), Rule::lost_data, "in version 1");
  Schedule elsewhere = schedule(kOther);
  elsewhere.residencies[row(kRest)].full_behind = false;
  elsewhere.residencies[row(kOther)].full_behind = true;
  elsewhere.residencies[row(kRest)].last_task = id_of<TaskId>(0);
  expect_rule(verify_schedule(graph_, elsewhere), Rule::schedule_shape, "when the step is over");
}

TEST_F(RestingState, SaysWhatIsFullBeforeAndBehind) {
  for (const bool before : {true, false}) {
    Schedule changed = schedule();
    (before ? changed.residencies[row(kRest)].full_before : changed.residencies[row(kRest)].full_behind) = false;
    EXPECT_TRUE(verify_schedule(graph_, changed).has_value()) << before;
    changed = schedule();
    (before ? changed.residencies[1].full_before : changed.residencies[1].full_behind) = true;
    EXPECT_TRUE(verify_schedule(graph_, changed).has_value()) << before;
  }
}

TEST_F(RestingState, OnlyWhatPersistsMayRestInHostMemory) {
  graph_.storage_templates[0].lasting = false;
  expect_rule(verify_schedule(graph_, schedule()), Rule::not_resident, "in device memory from the first task on");
}

}  // namespace
}  // namespace tidemark
