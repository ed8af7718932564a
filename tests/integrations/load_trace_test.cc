// Loads of a step, of devices and of their nodes.
#include "integrations/run/load_trace.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tidemark::run
