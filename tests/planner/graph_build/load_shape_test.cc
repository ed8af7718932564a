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

}  // namespace
}  // namespace tidemark::graph_build
