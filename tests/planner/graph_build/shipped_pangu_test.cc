// The C++ description of the reference job that the tests compute with is the one users get from the shipped files.

#include <gtest/gtest.h>

#include "integrations/formats/import_yaml.h"
#include "planner/search/auto_placement.h"
#include "policies/policies.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

std::string shipped(const std::string& path) {
  return testing::text_of(testing::source_path(path));
}

using Chunks = std::vector<std::vector<Slot>>;

Chunks without_noops(const Chunks& chunks) {
  Chunks filled = chunks;
  for (auto& slots : filled) std::erase_if(slots, [](const Slot& slot) { return slot.kind == Slot::Kind::noop; });
  return filled;
}

TEST(ShippedPangu, JobEqualsTheTests) {
  const auto job = formats::read_job(shipped("models/pangu-ultra-moe-718b.yaml"), "pangu");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_TRUE(job.value().parallel.auto_placement);
  plan::PlanRequest request{
      .job = job.value(), .machine = testing::ascend_910b(), .policy = policies::find_policy("optimal")};
  const auto placed = search::place_automatically(request);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  JobSpec expected = testing::pangu_job();
  expected.expert_load = job.value().expert_load;  // the tests state their loads
  for (std::size_t rank = 0; rank < expected.parallel.slots.size(); ++rank)
    EXPECT_EQ(request.job.parallel.slots[rank], without_noops(expected.parallel.slots[rank])) << "rank " << rank;
  request.job.parallel.slots = expected.parallel.slots;
  EXPECT_EQ(request.job.model, expected.model);
  EXPECT_EQ(request.job.parallel, expected.parallel);
  EXPECT_EQ(request.job, expected);
}

TEST(ShippedPangu, SlotsOfTheTestsAreThoseOfTheReferenceTable) {
  const JobSpec job = testing::pangu_job();
  const auto layer = [](std::int32_t n) { return Slot{.kind = Slot::Kind::layer, .layer = n}; };
  const Slot noop = {.kind = Slot::Kind::noop, .layer = -1}, mtp = {.kind = Slot::Kind::mtp, .layer = 0};
  for (std::int32_t rank = 0; rank < 14; ++rank) {
    EXPECT_EQ(job.parallel.slots[static_cast<std::size_t>(rank)],
              (Chunks{{layer(2 * rank), layer(2 * rank + 1)}, {layer(32 + 2 * rank), layer(33 + 2 * rank)}}))
        << "rank " << rank;
  }
  EXPECT_EQ(job.parallel.slots[14], (Chunks{{layer(28), layer(29)}, {layer(60), noop}}));
  EXPECT_EQ(job.parallel.slots[15], (Chunks{{layer(30), layer(31)}, {mtp, noop}}));
}

TEST(ShippedPangu, DeviceEqualsTheTests) {
  const auto machine =
      formats::read_machine(shipped("devices/ascend-910b-64g.yaml"), "ascend", testing::shipped_chips());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  Machine expected = testing::ascend_910b();
  expected.chip.measured = machine.value().chip.measured;  // what is known of other jobs prices nothing
  expected.chip.bands = machine.value().chip.bands;
  EXPECT_EQ(machine.value(), expected);
}

}  // namespace
}  // namespace tidemark::graph_build
