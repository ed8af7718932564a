// Loads of a step, of devices and of their nodes.
#include "integrations/run/load_trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace tidemark::run {
namespace {

/// One layer, one micro-batch.
StepLoads loads_of(const std::vector<std::int64_t>& rows, std::int64_t nodes, std::int64_t node_devices) {
  return StepLoads::of_rows(rows, {.layers = {3},
                                   .micro_batches = 1,
                                   .devices = std::ssize(rows),
                                   .nodes = nodes,
                                   .node_devices = node_devices,
                                   .experts = 16,
                                   .mean_rows = 100,
                                   .most_rows = 400});
}

TEST(StepLoads, DevicesOfANodeSendWhatItsDevicesReceive) {
  const StepLoads loads = loads_of({300, 20, 40, 40}, 2, 2);
  EXPECT_EQ(loads.site(3, 0, 0), SiteLoad(3, 1.6));
  EXPECT_EQ(loads.site(3, 0, 1), SiteLoad(0.2, 1.6));
  EXPECT_EQ(loads.site(3, 0, 2), SiteLoad(0.4, 0.4));
  EXPECT_EQ(loads.site(3, 0, 3), SiteLoad(0.4, 0.4));
}

/// Three devices, two of them in a node.
TEST(StepLoads, TheLastNodeMayHaveFewerDevices) {
  const StepLoads loads = loads_of({60, 90, 150}, 2, 2);
  EXPECT_EQ(loads.site(3, 0, 1), SiteLoad(0.9, 0.75));
  EXPECT_EQ(loads.site(3, 0, 2), SiteLoad(1.5, 1.5));
}

TEST(StepLoads, TheMeanIsSentWithoutHierarchyAndWhereThereAreNoRows) {
  EXPECT_EQ(loads_of({300, 20, 40, 40}, 1, 4).site(3, 0, 0), SiteLoad(3, 1));
  EXPECT_EQ(loads_of({0, 0, 0, 0}, 2, 2).site(3, 0, 0), SiteLoad(0, 1));
}

graph_build::LoadShape with_capacity(bool pads) {
  return {.layers = {3},
          .micro_batches = 1,
          .devices = 4,
          .nodes = 2,
          .node_devices = 2,
          .experts = 8,
          .mean_rows = 100,
          .most_rows = 400,
          .capacity = 125,
          .pads = pads,
          .most_sent = 1.25};
}

/// Of rows that are routed, devices hold what their capacity takes; a node sends as much.
TEST(StepLoads, RowsAboveTheCapacityAreDropped) {
  const StepLoads loads = StepLoads::of_rows({300, 20, 40, 40}, with_capacity(false));
  EXPECT_EQ(loads.site(3, 0, 0), SiteLoad(1.25, 0.725));
  EXPECT_EQ(loads.site(3, 0, 1), SiteLoad(0.2, 0.725));
  EXPECT_EQ(loads.site(3, 0, 2), SiteLoad(0.4, 0.4));
  EXPECT_EQ(loads.most(), 1.25);
  EXPECT_EQ(loads.fullest(3, 0), 1.25);
}

TEST(StepLoads, PaddedRowsAreTheCapacityEverywhere) {
  const StepLoads loads = StepLoads::of_rows({300, 20, 40, 40}, with_capacity(true));
  for (std::int64_t device = 0; device < 4; ++device) EXPECT_EQ(loads.site(3, 0, device), SiteLoad(1.25, 1.25));
  EXPECT_EQ(loads.all(), std::vector<double>(4, 1.25));
}

/// The same rows by expert, two on a device, and what is wrong with a file of experts.
TEST(StepLoads, RowsOfExpertsAddUp) {
  graph_build::LoadShape shape = with_capacity(false);
  shape.capacity = 0;
  const auto read = [&](const std::string& lines) -> Result<StepLoads> {
    std::istringstream in("step,layer,micro_batch,expert,rows\n" + lines);
    formats::ExpertCountReader reader(in, "e.csv");
    const Result<std::optional<formats::CountedStep>> step = reader.next();
    if (!step) return step.error();
    return StepLoads::of(*step.value(), shape, reader);
  };
  const std::string head = "0,3,0,0,30\n0,3,0,1,70\n0,3,0,2,0\n0,3,0,3,150\n0,3,0,4,1\n0,3,0,5,49\n";
  const Result<StepLoads> loads = read(head + "0,3,0,7,60\n0,3,0,6,40\n");
  ASSERT_TRUE(loads.ok()) << loads.error().message;
  EXPECT_EQ(loads.value().all(), (std::vector<double>{1, 1.5, 0.5, 1}));
  EXPECT_EQ(read(head + "0,3,0,7,60\n0,3,0,7,40\n").error().message,
            "e.csv:9: layer 3, micro-batch 0 names expert 7 twice");
  EXPECT_EQ(read(head + "0,3,0,8,60\n").error().message, "e.csv:8: expert 8: the job has experts 0 to 7");
  EXPECT_EQ(read(head + "0,3,0,7,100\n").error().message,
            "e.csv:8: step 0 goes on here without layer 3, micro-batch 0, expert 6; a step names every expert of every "
            "(layer, micro-batch)");
  EXPECT_EQ(read(head).error().message.substr(0, 8), "e.csv:7:") << "a device is missing";
}

}  // namespace
}  // namespace tidemark::run
