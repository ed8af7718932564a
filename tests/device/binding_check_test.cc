#include "device/binding_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/simulated_host.h"

namespace tidemark {
namespace {

using testing::SimulatedHost;
using testing::SimulatedProcess;
using testing::two_a_socket;
using testing::two_sockets;

std::vector<BindingProblem> problems_of(const SimulatedHost& files, const char* devices, DevicesMeant meant,
                                        int process = 0) {
  const HostTopology host = read_host_topology(files.root()).value();
  const Result<ProcessPlaces> read =
      process == 0 ? read_own_places(files.root()) : read_process_places(process, files.root());
  const ProcessPlaces& places = read.value();
  const std::vector<RankDevice> ranks =
      devices == nullptr ? all_accelerators(host) : read_rank_devices(devices, host).value();
  return check_binding(host, places, ranks, plan_binding(host, places, ranks), meant);
}

/// The only problem of a process whose devices these are.
std::string problem_of(const SimulatedProcess& process, const char* devices) {
  const SimulatedHost files(two_sockets(), two_a_socket(), process);
  const auto problems = problems_of(files, devices, DevicesMeant::all);
  EXPECT_EQ(problems.size(), 1U);
  return problems.empty() ? "" : problems[0].what + " | " + problems[0].right;
}

TEST(BindingCheck, AFreeProcessHasNoProblem) {
  const SimulatedHost files(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  EXPECT_TRUE(problems_of(files, nullptr, DevicesMeant::all).empty());
  EXPECT_TRUE(problems_of(files, nullptr, DevicesMeant::any).empty());
  EXPECT_TRUE(problems_of(files, "0000:3b:00.0", DevicesMeant::all).empty());
}

TEST(BindingCheck, CpusOfAnotherNodeThanTheDevices) {
  EXPECT_EQ(problem_of({.cpus = "8-15,24-31", .memory_nodes = "0-1"}, "0000:3b:00.0"),
            "the process may run on CPUs 8-15,24-31 of node 1 alone, and device 0000:3b:00.0 hangs on node 0 | CPUs of "
            "node 0: taskset -c 0-7,16-23, or that cpuset for the container");
  EXPECT_EQ(problem_of({.cpus = "0-7", .memory_nodes = "0-1"}, "0000:af:00.0,0000:d8:00.0"),
            "the process may run on CPUs 0-7 of node 0 alone, and devices 0000:af:00.0, 0000:d8:00.0 hang on node 1 | "
            "CPUs of node 1: taskset -c 8-15,24-31, or that cpuset for the container");
}

/// Which of the host's devices a process uses is not known without being told.
TEST(BindingCheck, OneDeviceNearIsEnoughWhereAnyMayBeMeant) {
  const SimulatedHost files(two_sockets(), two_a_socket(), {.cpus = "8-15", .memory_nodes = "1", .policy = "bind:1"});
  EXPECT_TRUE(problems_of(files, nullptr, DevicesMeant::any).empty());
  EXPECT_EQ(problems_of(files, nullptr, DevicesMeant::all).size(), 3U) << "CPUs, cpuset and policy";
  EXPECT_EQ(problems_of(files, "0000:3b:00.0", DevicesMeant::any).size(), 3U);
}

TEST(BindingCheck, MemoryOfAnotherNode) {
  EXPECT_EQ(
      problem_of({.cpus = "0-31", .memory_nodes = "1"}, "0000:3b:00.0"),
      "the cpuset allows memory of node 1 alone, and device 0000:3b:00.0 hangs on node 0 | cpuset.mems with node 0");
  EXPECT_EQ(
      problem_of({.cpus = "0-31", .memory_nodes = "0-1", .policy = "bind:1"}, "0000:3b:00.0"),
      "unplaced pages are bound to node 1, and device 0000:3b:00.0 hangs on node 0 | numactl --preferred=0 or none");
  EXPECT_EQ(problem_of({.cpus = "0-31", .memory_nodes = "0-1", .policy = "interleave:0-1"}, "0000:3b:00.0"),
            "unplaced pages are interleaved over nodes 0-1 | pages of node 0 first: no numactl --interleave");
}

TEST(BindingCheck, ANodeThatIsNotKnown) {
  auto accelerators = two_a_socket();
  accelerators[1].node = -1;
  accelerators[2].node = -1;
  const SimulatedHost files(two_sockets(), accelerators, {.cpus = "0-31", .memory_nodes = "0-1"});
  const auto problems = problems_of(files, nullptr, DevicesMeant::any);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].what, "the node of devices 0000:5e:00.0, 0000:af:00.0 is not known");
}

TEST(BindingCheck, FewerCoresThanDevices) {
  const std::vector<testing::SimulatedNode> one = {{.cores = {{0, 2}, {1, 3}}}};
  std::vector<testing::SimulatedAccelerator> eight;
  for (int i = 0; i < 8; ++i) eight.push_back({.pci_address = fmt::format("0000:{:02x}:00.0", 16 + i), .node = -1});
  const SimulatedHost files(one, eight, {.cpus = "0-3", .memory_nodes = "0"});
  const auto problems = problems_of(files, nullptr, DevicesMeant::all);
  ASSERT_EQ(problems.size(), 1U) << "one node: none is wrong";
  EXPECT_EQ(problems[0].what, "2 cores for 8 devices");
  EXPECT_EQ(problems[0].right, "8 cores at least, and 16 to keep copies apart from training");
}

TEST(BindingCheck, ANodeWithoutMemory) {
  auto nodes = two_sockets();
  nodes[1].memory_bytes = 0;
  const SimulatedHost files(nodes, two_a_socket(), {.cpus = "0-31", .memory_nodes = "0"});
  const auto problems = problems_of(files, "0000:af:00.0", DevicesMeant::all);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].what, "node 1 of device 0000:af:00.0 has no memory; pinned pages go to node 0");
}

TEST(BindingCheck, AThreadThatIsBoundAwayFromTheDevices) {
  const SimulatedHost files(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  files.write_process("77", {.cpus = "0-7", .memory_nodes = "0-1"});
  files.write_thread("77", 77, "python", "0-7");
  files.write_thread("77", 80, "tidemark-copy", "7");
  EXPECT_TRUE(problems_of(files, "0000:3b:00.0", DevicesMeant::all, 77).empty());
  files.write_thread("77", 81, "tidemark-pinned", "9");
  files.write_thread("77", 82, "loader", "10-11");
  const auto problems = problems_of(files, "0000:3b:00.0", DevicesMeant::all, 77);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].what,
            "thread 81 (tidemark-pinned) and 1 other may run on CPUs 9 alone, and the devices hang on node 0");
  EXPECT_EQ(problems[0].right, "CPUs within 0-7,16-23");
}

TEST(BindingCheck, WithoutDevicesNothingIsWrong) {
  const SimulatedHost files(two_sockets(), {}, {.cpus = "8-15", .memory_nodes = "1", .policy = "interleave:0-1"});
  EXPECT_TRUE(problems_of(files, nullptr, DevicesMeant::any).empty());
}

TEST(BindingCheck, ARankWithoutADeviceHasNoWrongPlace) {
  const SimulatedHost files(two_sockets(), two_a_socket(), {.cpus = "8-15", .memory_nodes = "1", .policy = "bind:1"});
  EXPECT_TRUE(problems_of(files, "none,none", DevicesMeant::all).empty());
}

TEST(BindingCheck, NoCpuThatIsOnline) {
  EXPECT_NE(problem_of({.cpus = "40-41", .memory_nodes = "0-1"}, "unknown,node0").find("none is online"),
            std::string::npos);
}

}  // namespace
}  // namespace tidemark
