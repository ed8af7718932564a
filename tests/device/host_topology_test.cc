#include "device/host_topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "device/host_pages.h"
#include "device/process_binding.h"
#include "device/process_places.h"
#include "tests/support/simulated_host.h"

namespace tidemark {
namespace {

using testing::SimulatedHost;
using testing::two_a_socket;
using testing::two_sockets;

const testing::SimulatedProcess kFree = {.cpus = "0-31", .memory_nodes = "0-1"};

TEST(HostTopology, OfASimulatedHostWithTwoSockets) {
  const SimulatedHost files(two_sockets(), two_a_socket(), kFree);
  const Result<HostTopology> read = read_host_topology(files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  const HostTopology& host = read.value();
  EXPECT_TRUE(host.simulated());
  ASSERT_EQ(host.nodes.size(), 2U);
  EXPECT_EQ(text_of_list(host.nodes[1].cpus), "8-15,24-31");
  EXPECT_EQ(host.nodes[1].memory_bytes, 64 * kGiB);
  EXPECT_EQ(host.nodes[1].distances, (std::vector<int>{22, 10}));
  ASSERT_EQ(host.cores.size(), 16U);
  EXPECT_EQ(host.cores[9].cpus, (CpuList{9, 25}));
  EXPECT_EQ(host.cores[9].node, 1);
  ASSERT_EQ(host.accelerators.size(), 4U);
  EXPECT_EQ(host.accelerators[2].pci_address, "0000:af:00.0");
  EXPECT_EQ(host.accelerators[2].node, 1);
  ASSERT_NE(host.find_accelerator("00000000:AF:00.0"), nullptr) << "as a driver prints it";
  EXPECT_EQ(host.find_accelerator("0000:01:00.0"), nullptr);
  EXPECT_EQ(host.find_node(2), nullptr);
}

/// What is there whatever the machine is.
TEST(HostTopology, OfThisMachineAgreesWithWhatElseTheKernelSays) {
  const Result<HostTopology> read = read_host_topology();
  ASSERT_TRUE(read.ok()) << read.error().message;
  const HostTopology& host = read.value();
  EXPECT_FALSE(host.simulated());
  EXPECT_EQ(static_cast<int>(host.nodes.size()), numa_node_count());
  CpuList cpus;
  for (const HostCore& core : host.cores) {
    EXPECT_TRUE(in_both(cpus, core.cpus).empty()) << "a CPU is of one core";
    cpus = in_either(cpus, core.cpus);
  }
  EXPECT_EQ(static_cast<long>(cpus.size()), sysconf(_SC_NPROCESSORS_ONLN));
  Bytes memory = 0;
  for (const HostNode& node : host.nodes) memory += node.memory_bytes;
  EXPECT_GT(memory, 0);
  const Result<ProcessPlaces> places = read_own_places();
  ASSERT_TRUE(places.ok()) << places.error().message;
  EXPECT_EQ(places.value().cpus, own_cpus()) << "the file and the system call";
}

TEST(HostTopology, AKernelWithoutNodesHasOneThatIsEverything) {
  const SimulatedHost files(two_sockets(), two_a_socket(), kFree);
  files.remove("sys/devices/system/node");
  const Result<HostTopology> read = read_host_topology(files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().nodes.size(), 1U);
  EXPECT_EQ(text_of_list(read.value().nodes[0].cpus), "0-31");
  EXPECT_EQ(read.value().cores[15].node, 0);
}

TEST(HostTopology, ThreadsThatAreOfflineAreNoCpus) {
  const SimulatedHost files(two_sockets(), {}, kFree);
  files.write("sys/devices/system/cpu/online", "0-15\n");
  const Result<HostTopology> read = read_host_topology(files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().cores[3].cpus, CpuList{3});
  EXPECT_EQ(text_of_list(read.value().nodes[1].cpus), "8-15");
}

/// Names of sysfs before 5.3, and a machine that says nothing of cores.
TEST(HostTopology, CoresComeFromWhatTheKernelHas) {
  const SimulatedHost files({{.cores = {{0}, {1}}}}, {}, {.cpus = "0-1", .memory_nodes = "0"});
  files.remove("sys/devices/system/cpu/cpu0");
  files.remove("sys/devices/system/cpu/cpu1");
  EXPECT_EQ(read_host_topology(files.root()).value().cores.size(), 2U);
  for (const char* const cpu : {"0", "1"})
    files.write(std::string("sys/devices/system/cpu/cpu") + cpu + "/topology/thread_siblings_list", "0-1\n");
  const Result<HostTopology> older = read_host_topology(files.root());
  ASSERT_EQ(older.value().cores.size(), 1U);
  EXPECT_EQ(older.value().cores[0].cpus, (CpuList{0, 1}));
}

TEST(HostTopology, OnlyWhatComputesIsAnAccelerator) {
  const SimulatedHost files(two_sockets(),
                            {{.pci_address = "0000:01:00.0", .node = 0, .vendor = "0x19e5", .kind = "0x120000"},
                             {.pci_address = "0000:02:00.0", .node = 0, .vendor = "0x1a03", .kind = "0x030000"},
                             {.pci_address = "0000:03:00.0", .node = 0, .vendor = "0x15b3", .kind = "0x020700"},
                             {.pci_address = "0000:c1:00.0", .node = 1, .vendor = "0x19e5", .kind = "0x120000"}},
                            kFree);
  const HostTopology host = read_host_topology(files.root()).value();
  ASSERT_EQ(host.accelerators.size(), 2U) << "neither the board's display nor a network card";
  EXPECT_EQ(node_of_all(host, kHuaweiVendor), -1) << "on two nodes";
  EXPECT_EQ(node_of_all(host, kNvidiaVendor), -1) << "none";
  files.write("sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
  EXPECT_EQ(node_of_all(read_host_topology(files.root()).value(), kHuaweiVendor), 1);
}

TEST(HostTopology, AFileThatIsWrongIsNamedWithWhatWouldBeRight) {
  const struct {
    const char *path, *text;
  } kWrong[] = {{"sys/devices/system/cpu/online", ""},
                {"sys/devices/system/cpu/online", "zero\n"},
                {"sys/devices/system/node/online", "0-\n"},
                {"sys/devices/system/node/online", "\n"},
                {"sys/devices/system/node/node1/cpulist", "8-15,x\n"},
                {"sys/devices/system/node/node1/meminfo", "Node 1 MemFree: 3 kB\n"},
                {"sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: -3 kB\n"},
                {"sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 3 pages\n"},
                {"sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 99999999999999999 kB\n"},
                {"sys/devices/system/node/node1/distance", "10\n"},
                {"sys/devices/system/node/node1/distance", "10 21 30\n"},
                {"sys/devices/system/node/node1/distance", "10 -1\n"},
                {"sys/devices/system/cpu/cpu3/topology/core_cpus_list", "4,20\n"},
                {"sys/devices/system/cpu/cpu3/topology/core_cpus_list", "three\n"},
                {"sys/bus/pci/devices/0000:3b:00.0/class", "display\n"},
                {"sys/bus/pci/devices/0000:3b:00.0/vendor", "10de\n"},
                {"sys/bus/pci/devices/0000:3b:00.0/numa_node", "-2\n"},
                {"sys/bus/pci/devices/0000:3b:00.0/numa_node", "\n"}};
  const SimulatedHost files(two_sockets(), two_a_socket(), kFree);
  for (const auto& [path, text] : kWrong) {
    const std::string right = files.read(path);
    files.write(path, text);
    const Result<HostTopology> read = read_host_topology(files.root());
    ASSERT_FALSE(read.ok()) << path << ": " << text;
    EXPECT_EQ(read.error().code, Error::Code::bad_input);
    EXPECT_TRUE(read.error().message.starts_with(files.root() + "/" + path + ":1: ")) << read.error().message;
    EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
    EXPECT_NE(read.error().message.find("would be right"), std::string::npos) << read.error().message;
    files.write(path, right);
    EXPECT_TRUE(read_host_topology(files.root()).ok());
  }
  EXPECT_FALSE(read_host_topology("/no/such/folder").ok());
  for (const char* const gone : {"sys/devices/system/node/node1/cpulist", "sys/devices/system/node/node1/meminfo"}) {
    const std::string right = files.read(gone);
    files.remove(gone);
    EXPECT_NE(read_host_topology(files.root()).error().message.find("no such file"), std::string::npos) << gone;
    files.write(gone, right);
  }
}

/// Each file reads well, and together they are no host.
TEST(HostTopology, ASimulatedHostThatCannotExistIsRefused) {
  const struct {
    const char *path, *text, *says;
  } kWrong[] = {{"sys/devices/system/node/node1/cpulist", "4-15,24-31\n",
                 "sys/devices/system/node/node1/cpulist:1: CPUs 4-7 are of node 0 as well; each CPU in the list of one "
                 "node would be right"},
                {"sys/devices/system/node/node1/cpulist", "0,8-15,24-31\n",
                 "sys/devices/system/node/node1/cpulist:1: CPU 0 is of node 0 as well; "},
                {"sys/devices/system/node/node1/cpulist", "8-15\n",
                 "sys/devices/system/cpu/online:1: CPUs 24-31 are of no node; in the cpulist of one node each"},
                {"sys/devices/system/node/node1/cpulist", "\n",
                 "sys/devices/system/cpu/online:1: CPUs 8-15,24-31 are of no node; "},
                {"sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3,8\n",
                 "sys/devices/system/cpu/cpu3/topology: its hardware threads 3,8 are of several nodes; "},
                {"sys/bus/pci/devices/0000:3b:00.0/numa_node", "2\n",
                 "sys/bus/pci/devices/0000:3b:00.0/numa_node:1: there is no node 2 online; one of 0-1, or -1 where"}};
  const SimulatedHost files(two_sockets(), two_a_socket(), kFree);
  for (const auto& [path, text, says] : kWrong) {
    const std::string right = files.read(path);
    files.write(path, text);
    const Result<HostTopology> read = read_host_topology(files.root());
    ASSERT_FALSE(read.ok()) << path << ": " << text;
    EXPECT_EQ(read.error().code, Error::Code::bad_input);
    EXPECT_TRUE(read.error().message.starts_with(files.root() + "/" + says)) << read.error().message;
    EXPECT_TRUE(read.error().message.ends_with(" would be right")) << read.error().message;
    files.write(path, right);
    EXPECT_TRUE(read_host_topology(files.root()).ok());
  }
  files.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1\n");
  EXPECT_TRUE(read_host_topology(files.root()).ok()) << "a node that is not known contradicts nothing";
}

/// CXL memory and the memory of GPUs behind a coherent link are such nodes, and CPUs may be offline.
TEST(HostTopology, NodesWithoutCpusAreNodes) {
  std::vector<testing::SimulatedNode> nodes = two_sockets();
  nodes.push_back({.cores = {}, .memory_bytes = 96 * kGiB});
  const SimulatedHost files(nodes, two_a_socket(), kFree);
  const Result<HostTopology> read = read_host_topology(files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().nodes.size(), 3U);
  EXPECT_TRUE(read.value().nodes[2].cpus.empty());
  files.write("sys/devices/system/cpu/online", "0-7,16-23\n");
  const Result<HostTopology> offline = read_host_topology(files.root());
  ASSERT_TRUE(offline.ok()) << offline.error().message;
  EXPECT_TRUE(offline.value().nodes[1].cpus.empty());
}

TEST(ProcessPlaces, AreThoseOfTheStatusFile) {
  const SimulatedHost files(two_sockets(), {}, {.cpus = "0-3,16-19", .memory_nodes = "0", .policy = "interleave:0-1"});
  const Result<ProcessPlaces> read = read_own_places(files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(text_of_list(read.value().cpus), "0-3,16-19");
  EXPECT_EQ(read.value().memory_nodes, CpuList{0});
  EXPECT_EQ(read.value().policy.kind, MemoryPolicy::Kind::interleaved);
  EXPECT_FALSE(read.value().cpus_are_own) << "nothing is known of a parent";
  EXPECT_TRUE(read.value().threads.empty());
}

TEST(ProcessPlaces, AMaskThatTheParentDoesNotHaveIsTheProcessesOwn) {
  for (const auto& [parents, own] : {std::pair("0-31", true), std::pair("0-3", false), std::pair("4-31", false)}) {
    const SimulatedHost files(two_sockets(), {}, {.cpus = "0-3", .memory_nodes = "0-1", .parents_cpus = parents});
    EXPECT_EQ(read_own_places(files.root()).value().cpus_are_own, own) << parents;
  }
}

TEST(ProcessPlaces, OfAnotherProcessHaveItsThreadsAndPages) {
  const SimulatedHost files(two_sockets(), {}, kFree);
  files.write_process("77", {.cpus = "0-15", .memory_nodes = "0-1", .policy = "bind:1"});
  files.write_thread("77", 77, "python", "0-15");
  files.write_thread("77", 80, "tidemark-copy", "3,19");
  const Result<ProcessPlaces> read = read_process_places(77, files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().threads.size(), 2U);
  EXPECT_EQ(read.value().threads[1].name, "tidemark-copy");
  EXPECT_EQ(read.value().threads[1].cpus, (CpuList{3, 19}));
  EXPECT_EQ(read.value().policy.kind, MemoryPolicy::Kind::bound);
  EXPECT_EQ(read.value().memory_bytes, (std::map<int, Bytes>{{0, 8 * kKiB}, {1, 4 * kKiB}}));
  EXPECT_FALSE(read_process_places(78, files.root()).ok());
  files.write_thread("77", 81, "odd", "x");
  EXPECT_NE(read_process_places(77, files.root()).error().message.find("/task/81/status:2: "), std::string::npos);
}

/// The kernel opens the file of a thread that ends before it is read, and then has nothing to read (ESRCH).
TEST(ProcessPlaces, AThreadThatEndsMeanwhileIsLeftOut) {
  const SimulatedHost files(two_sockets(), {}, kFree);
  files.write_process("77", {.cpus = "0-15", .memory_nodes = "0-1"});
  files.write_thread("77", 77, "python", "0-15");
  files.write("proc/77/task/78/status", "");
  files.write("proc/77/task/79/comm", "no status any more");
  files.write_thread("77", 80, "tidemark-copy", "3");
  const Result<ProcessPlaces> read = read_process_places(77, files.root());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().threads.size(), 2U);
  EXPECT_EQ(read.value().threads[0].id, 77);
  EXPECT_EQ(read.value().threads[1].id, 80);
  files.write("proc/77/status", "");
  EXPECT_NE(read_process_places(77, files.root()).error().message.find("no such process"), std::string::npos);
}

TEST(ProcessPlaces, PoliciesAreReadInTheKernelsWords) {
  using Kind = MemoryPolicy::Kind;
  const struct {
    const char* text;
    Kind kind;
    CpuList nodes;
  } kLines[] = {{"7f00 default anon=1", Kind::local, {}},
                {"7f00 local", Kind::local, {}},
                {"7f00 prefer:1 file=/x", Kind::preferred, {1}},
                {"7f00 prefer (many):0-1 stack", Kind::preferred, {0, 1}},
                {"7f00 bind=static:0,2 heap", Kind::bound, {0, 2}},
                {"7f00 bind=static|balancing:1", Kind::bound, {1}},
                {"7f00 interleave:0-1\nrest", Kind::interleaved, {0, 1}},
                {"7f00 weighted interleave:0-3", Kind::interleaved, {0, 1, 2, 3}},
                {"7f00 bind file=/a:0", Kind::unknown, {}},
                {"7f00 binding:0", Kind::unknown, {}},
                {"7f00 interleave:x", Kind::unknown, {}},
                {"7f00", Kind::unknown, {}},
                {"", Kind::unknown, {}}};
  for (const auto& [text, kind, nodes] : kLines) {
    const MemoryPolicy policy = read_policy(text);
    EXPECT_EQ(policy.kind, kind) << text;
    EXPECT_EQ(policy.nodes, nodes) << text;
  }
}

}  // namespace
}  // namespace tidemark
