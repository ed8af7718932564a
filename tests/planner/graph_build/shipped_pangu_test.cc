// The C++ description of the reference job that the tests compute with is the one users get from the shipped files.

#include <gtest/gtest.h>

#include "integrations/formats/import_yaml.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

std::string shipped(const std::string& path) {
  return testing::text_of(testing::source_path(path));
}

TEST(ShippedPangu, JobEqualsTheTests) {
  const auto job = formats::read_job(shipped("models/pangu-ultra-moe-718b.yaml"), "pangu");
  ASSERT_TRUE(job.ok()) << job.error().message;
  JobSpec expected = testing::pangu_job();
  expected.expert_load = job.value().expert_load;  // the tests state their loads
  EXPECT_EQ(job.value().model, expected.model);
  EXPECT_EQ(job.value().parallel, expected.parallel);
  EXPECT_EQ(job.value(), expected);
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
