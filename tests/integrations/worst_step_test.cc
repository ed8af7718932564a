// The worst step there is, modelled, beside the same step played.
#include "integrations/run/worst_step.h"

#include <gtest/gtest.h>

#include "tests/support/json_text.h"
#include "tests/support/planned_step.h"

namespace tidemark::run {
namespace {

/// Without windows all that exceeds its slot runs in chunks. Sections of rows sent alone may fit and run whole.
TEST(WorstStep, IsWhatADeviceWithoutWindowsTakes) {
  int tried = 0;
  for (std::uint32_t seed = 1; seed < 60 && tried < 6; ++seed) {
    testing::PlannedStep step = testing::StepGenerator(seed).next_routed(1.1, 90);
    const Machine& machine = step.request.machine;
    const graph_build::LoadShape shape = graph_build::load_shape(step.request.job, machine).value();
    if (shape.most_load() < 1.5) continue;
    charge_copies(step.outcome, machine);
    const Result<std::optional<WorstStep>> worst = worst_step(step.outcome, machine, shape);
    ASSERT_TRUE(worst.ok()) << seed << ": " << worst.error().message;
    if (!worst.value()) continue;
    EXPECT_EQ(worst.value()->load_f, shape.most_load());
    EXPECT_GT(worst.value()->chunked_ns, worst.value()->whole_ns);
    SimRunRequest request = testing::run_of(step);
    request.aliasing = false;
    request.load = [&](std::int32_t, SiteId) { return shape.worst(); };
    const Result<SimRun> played = run_on_sim(request);
    ASSERT_TRUE(played.ok()) << seed << ": " << played.error().message;
    std::size_t sections = 0, in_chunks = 0;
    for (std::size_t r = 0; r < step.outcome.ranks.size(); ++r) {
      sections += step.outcome.ranks[r].program.section_ends.size();
      in_chunks += played.value().ranks[r].report.sections.size();
    }
    if (in_chunks < sections) continue;
    ++tried;
    EXPECT_NEAR(static_cast<double>(worst.value()->chunked_ns) / static_cast<double>(played.value().step_ns), 1, 0.005)
        << "seed " << seed;
  }
  EXPECT_GE(tried, 3);
}

TEST(WorstStep, IsNoneWhereNothingIsPromised) {
  testing::PlannedStep step = testing::StepGenerator(29).next_routed(1.1, 90);
  const graph_build::LoadShape shape = graph_build::load_shape(step.request.job, step.request.machine).value();
  step.outcome.ranks.back().figures.worst_load_f = 0;
  const Result<std::optional<WorstStep>> none = worst_step(step.outcome, step.request.machine, shape);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().has_value());
}

/// A file can have been edited: an end that is none has no room.
TEST(WorstStep, IsNoneWhereASectionCannotRunInChunks) {
  testing::PlannedStep step = testing::StepGenerator(29).next_routed(1.1, 90);
  const graph_build::LoadShape shape = graph_build::load_shape(step.request.job, step.request.machine).value();
  Program& program = step.outcome.ranks.front().program;
  ASSERT_FALSE(program.section_ends.empty());
  program.section_ends.front() = id_of<TaskId>(0);
  const Result<std::optional<WorstStep>> none = worst_step(step.outcome, step.request.machine, shape);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().has_value());
}

TEST(WorstStep, IsSaidWithItsPrice) {
  const WorstStep worst{.load_f = 32, .chunked_ns = 150'000'000, .whole_ns = 100'000'000};
  const std::string text = worst_step_text(worst);
  for (const char* part : {"up to 32 completes", "150.0 ms in chunks", "100.0 ms did", "+50.0 %; modelled"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const auto json = testing::parsed(with_worst_step(R"({"a": 1})", worst));
  EXPECT_EQ(json["a"], 1);
  EXPECT_EQ(json["worst_step"]["load_f"], 32);
  EXPECT_EQ(json["worst_step"]["chunked_ms"], 150);
  EXPECT_EQ(json["worst_step"]["whole_ms"], 100);
}

}  // namespace
}  // namespace tidemark::run
