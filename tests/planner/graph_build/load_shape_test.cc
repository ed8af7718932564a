// What devices of an expert group can receive and send.

#include "planner/graph_build/load_shape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

/// 32 devices on four nodes of eight, 256 experts, top-8.
LoadShape pangu_shape(bool hierarchical) {
  JobSpec job = testing::pangu_job();
  job.parallel.hierarchical_expert_communication = hierarchical;
  const Result<LoadShape> shape = load_shape(job, testing::ascend_910b());
  EXPECT_TRUE(shape.ok());
  return shape.ok() ? shape.value() : LoadShape{};
}

TEST(LoadShape, OneDeviceReceivesAndANodeSendsAllThereIs) {
  const LoadShape shape = pangu_shape(true);
  EXPECT_EQ(shape.nodes, 4);
  EXPECT_EQ(shape.node_devices, 8);
  EXPECT_EQ(shape.worst(), SiteLoad(32, 4));
  EXPECT_EQ(shape.with(32), SiteLoad(32, 4)) << "all tokens of four nodes";
}

TEST(LoadShape, ADeviceSendsItsOwnRowsWithoutHierarchy) {
  const LoadShape shape = pangu_shape(false);
  EXPECT_EQ(shape.worst(), SiteLoad(32, 1));
  EXPECT_EQ(shape.with(32), SiteLoad(32, 1));
  EXPECT_EQ(shape.with(1.3), SiteLoad(1.3, 1));
}

/// Top-8 of 16 experts on four nodes: half of a token's rows at most go to one node.
TEST(LoadShape, ANodeHasNoMoreRowsOfATokenThanExperts) {
  JobSpec job = testing::pangu_job();
  job.model.moe.experts = 32;
  job.model.moe.top_k = 16;
  const Result<LoadShape> shape = load_shape(job, testing::ascend_910b());
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape.value().worst(), SiteLoad(2, 2)) << "of 32 devices with one expert, of four nodes with eight";
}

/// 9 devices on nodes of two: one is alone on its node, and sends all that comes to it.
TEST(LoadShape, FewDevicesOfTheLastNodeSendWhatItGets) {
  JobSpec job = testing::pangu_job();
  job.parallel.tensor = 1;
  job.parallel.tensor_extends_expert = false;
  job.parallel.expert = 9;
  job.parallel.data = 9;
  job.model.moe.experts = 18;
  job.model.moe.top_k = 1;
  Machine machine = testing::ascend_910b();
  machine.chip.sheet.devices_per_node = 2;
  const Result<LoadShape> shape = load_shape(job, machine);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape.value().nodes, 5);
  EXPECT_EQ(shape.value().node_devices, 2);
  EXPECT_EQ(shape.value().worst(), SiteLoad(9, 9));
}

TEST(LoadShape, ANodeVariesLessThanADevice) {
  const LoadShape shape = pangu_shape(true);
  EXPECT_EQ(shape.with(0.5), SiteLoad(0.5, 1));
  EXPECT_DOUBLE_EQ(shape.with(1.4).sent, 1 + 0.4 / std::sqrt(8));
  EXPECT_EQ(shape.with(1000).sent, 4);
}

/// 16384 rows a device, 2048 an expert. 1.1 times 2048 is 2252.8: an expert takes 2253.
TEST(LoadShape, ACapacityBoundsADevice) {
  JobSpec job = testing::pangu_job();
  job.model.moe.capacity_factor = 1.1;
  const LoadShape by_expert = load_shape(job, testing::ascend_910b()).value();
  EXPECT_EQ(by_expert.capacity, 8 * 2253);
  job.model.moe.capacity_level = MoeSpec::CapacityLevel::device;
  const LoadShape by_device = load_shape(job, testing::ascend_910b()).value();
  EXPECT_EQ(by_device.capacity, 18023);
  EXPECT_EQ(by_device.most_rows, 32 * 16384) << "of routing";
  EXPECT_EQ(by_device.most_routed_load(), 32);
  EXPECT_NEAR(by_device.most_load(), 18023.0 / 16384, 1e-7);
  EXPECT_EQ(by_device.worst(), SiteLoad(by_device.most_load(), by_device.most_load()))
      << "a node has no more than its devices";
  EXPECT_EQ(by_device.held(17000), 17000);
  EXPECT_EQ(by_device.held(20000), 18023);
  EXPECT_EQ(by_device.load_of(8192), 0.5);
  EXPECT_EQ(by_device.load_of(30000), by_device.most_load());
  EXPECT_EQ(by_device.fixed_load(1), std::nullopt);
  EXPECT_EQ(by_device.fixed_load(1.2), by_device.most_load()) << "no device holds more";
}

TEST(LoadShape, PaddedRowsAreTheCapacityWhateverRoutingDoes) {
  for (const bool hierarchical : {false, true}) {
    JobSpec job = testing::pangu_job();
    job.parallel.hierarchical_expert_communication = hierarchical;
    job.model.moe.capacity_factor = 1.25;
    job.model.moe.pad_to_capacity = true;
    const LoadShape shape = load_shape(job, testing::ascend_910b()).value();
    EXPECT_EQ(shape.capacity, 20480);
    EXPECT_EQ(shape.held(0), 20480);
    EXPECT_EQ(shape.fixed_load(1), 1.25);
    EXPECT_EQ(shape.worst(), SiteLoad(1.25, 1.25));
    EXPECT_EQ(shape.with(1), SiteLoad(1.25, 1.25));
  }
}

/// More than every token sends all it can to one device: nothing is dropped, but padding is held.
TEST(LoadShape, ACapacityAboveWhatRoutingDoesDropsNothing) {
  JobSpec job = testing::pangu_job();
  job.model.moe.capacity_factor = 64;
  EXPECT_EQ(load_shape(job, testing::ascend_910b()).value().most_load(), 32);
  job.model.moe.pad_to_capacity = true;
  EXPECT_EQ(load_shape(job, testing::ascend_910b()).value().most_load(), 64);
}

}  // namespace
}  // namespace tidemark::graph_build
