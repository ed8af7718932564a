#include "device/binding_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "device/topology_check.h"
#include "tests/support/simulated_host.h"

namespace tidemark {
namespace {

/// Two nodes of eight cores with two hardware threads each.
HostTopology two_node_host() {
  HostTopology host;
  host.root = "simulated";
  const std::vector<testing::SimulatedNode> nodes = testing::two_sockets();
  for (int n = 0; n < 2; ++n) {
    HostNode node{
        .number = n, .cpus = {}, .memory_bytes = 64 * kGiB, .distances = {n == 0 ? 10 : 21, n == 0 ? 21 : 10}};
    for (const CpuList& core : nodes[static_cast<std::size_t>(n)].cores) {
      node.cpus = in_either(node.cpus, core);
      host.cores.push_back({.cpus = core, .node = n});
    }
    host.nodes.push_back(node);
  }
  for (const testing::SimulatedAccelerator& a : testing::two_a_socket())
    host.accelerators.push_back({.pci_address = a.pci_address, .vendor = kNvidiaVendor, .node = a.node});
  return host;
}

ProcessPlaces places_of(const char* cpus, const char* memory_nodes = "0-1") {
  ProcessPlaces places;
  places.cpus = read_cpu_list(cpus, "").value();
  places.memory_nodes = read_cpu_list(memory_nodes, "").value();
  return places;
}

TEST(BindingPlan, EachRankHasItsShareNearItsDevice) {
  const HostTopology host = two_node_host();
  const BindingPlan plan = plan_binding(host, places_of("0-31"), all_accelerators(host));
  ASSERT_EQ(plan.ranks.size(), 4U);
  EXPECT_EQ(text_of_list(plan.ranks[0].main_cpus), "0-2,16-18");
  EXPECT_EQ(text_of_list(plan.ranks[0].copy_cpus), "3,19");
  EXPECT_EQ(text_of_list(plan.ranks[3].main_cpus), "12-14,28-30");
  EXPECT_EQ(text_of_list(plan.ranks[3].copy_cpus), "15,31");
  EXPECT_EQ(plan.ranks[3].memory_node, 1);
  EXPECT_EQ(plan.ranks[3].home, 1);
  EXPECT_FALSE(plan.ranks[3].shares_cores);
}

TEST(BindingPlan, ADeviceWhoseNodeIsOutOfReachGetsTheNearestCpusAndItsOwnMemory) {
  const HostTopology host = two_node_host();
  const BindingPlan plan = plan_binding(host, places_of("8-15"), {{.name = "node0", .node = 0}});
  EXPECT_EQ(plan.ranks[0].home, 1);
  EXPECT_EQ(text_of_list(plan.ranks[0].main_cpus), "8-13");
  EXPECT_EQ(plan.ranks[0].memory_node, 0);
  EXPECT_EQ(plan_binding(host, places_of("8-15", "1"), {{.name = "node0", .node = 0}}).ranks[0].memory_node, 1);
}

TEST(BindingPlan, OfOneCpuMainAndCopiesShareIt) {
  const HostTopology host = two_node_host();
  const BindingPlan one = plan_binding(host, places_of("5"), {{.name = "node0", .node = 0}});
  EXPECT_EQ(one.ranks[0].main_cpus, CpuList{5});
  EXPECT_EQ(one.ranks[0].copy_cpus, CpuList{5});
  const BindingPlan two = plan_binding(host, places_of("5,21"), {{.name = "node0", .node = 0}});
  EXPECT_EQ(two.ranks[0].main_cpus, CpuList{5});
  EXPECT_EQ(two.ranks[0].copy_cpus, CpuList{21}) << "its other hardware thread";
}

TEST(BindingPlan, WithoutAnyCpuThereIsNone) {
  const BindingPlan plan = plan_binding(two_node_host(), places_of("40-50"), {{.name = "node0", .node = 0}});
  EXPECT_TRUE(plan.ranks[0].main_cpus.empty());
  EXPECT_EQ(plan.ranks[0].home, -1);
  EXPECT_TRUE(plan_binding(two_node_host(), places_of("0"), {}).ranks.empty());
}

/// On Grace with Hopper a GPU's own memory is a node without CPUs: never the place of host memory.
TEST(BindingPlan, ANodeOfMemoryAloneIsTakenOnlyWhereThereIsNoOther) {
  HostTopology host = two_node_host();
  host.nodes[1].cpus.clear();
  std::erase_if(host.cores, [](const HostCore& core) { return core.node == 1; });
  EXPECT_EQ(plan_binding(host, places_of("0-7"), {{.name = "node1", .node = 1}}).ranks[0].memory_node, 0);
  host.nodes[0].memory_bytes = 0;
  EXPECT_EQ(plan_binding(host, places_of("0-7"), {{.name = "node1", .node = 1}}).ranks[0].memory_node, 1);
}

TEST(RankDevices, AreReadAndNamed) {
  const HostTopology host = two_node_host();
  const Result<std::vector<RankDevice>> read = read_rank_devices("0000:AF:00.0,node0,unknown,none", host);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().size(), 4U);
  EXPECT_EQ(read.value()[0].node, 1);
  EXPECT_EQ(read.value()[1].node, 0);
  EXPECT_EQ(read.value()[2].node, -1);
  EXPECT_EQ(read.value()[3].node, -1);
  for (const char* const wrong : {"", "0000:af:00.0,", "node2", "node", "node-1", "node0x", "gpu0", "0000:01:00.0"}) {
    const Result<std::vector<RankDevice>> refused = read_rank_devices(wrong, host);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_NE(refused.error().message.find("node0, node1 would be right"), std::string::npos)
        << refused.error().message;
  }
}

TEST(RankDevices, EachRankHasItsOwnAndCpusNearIt) {
  HostTopology host = two_node_host();
  const auto check = [&host](const char* devices) {
    const Status status = check_rank_devices(host, read_rank_devices(devices, host).value());
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(check("0000:3b:00.0,0000:5e:00.0,node0,node0,unknown,unknown,none,none"), "");
  EXPECT_EQ(check("0000:3b:00.0,none,0000:3B:00.0"),
            "device '0000:3b:00.0': given to ranks 0 and 2; a device of its own for each would be right");
  EXPECT_EQ(check("3b:00.0,0000:3b:00.0"),
            "device '0000:3b:00.0': given to ranks 0 and 1; a device of its own for each would be right");
  host.nodes[1].cpus.clear();
  EXPECT_EQ(check("0000:3b:00.0,unknown"), "");
  for (const char* const away : {"0000:3b:00.0,0000:af:00.0", "node1"}) {
    const std::string says = check(away);
    EXPECT_TRUE(says.starts_with("simulated/sys/devices/system/node/node1/cpulist:1: no CPU of node 1 is online, and "))
        << says;
    EXPECT_TRUE(says.ends_with(" would be right")) << says;
  }
}

TEST(RankDevices, AnUnknownOneIsWhereAllAcceleratorsAre) {
  HostTopology host = two_node_host();
  host.accelerators.resize(2);
  EXPECT_EQ(read_rank_devices("unknown", host).value()[0].node, 0);
  EXPECT_EQ(read_rank_devices("none", host).value()[0].node, -1) << "it is on none of them";
}

/// A machine's own kernel is believed; of a simulated host it is refused where it is read.
TEST(RankDevices, ANodeThatIsNotOnlineIsAsGoodAsUnknown) {
  HostTopology host = two_node_host();
  host.accelerators[0].node = 5;
  EXPECT_EQ(all_accelerators(host)[0].node, -1);
  EXPECT_EQ(read_rank_devices("0000:3b:00.0", host).value()[0].node, -1);
}

TEST(RankDevices, OnAHostOfOneNodeAreAllOnIt) {
  HostTopology host = two_node_host();
  host.nodes.pop_back();
  for (HostAccelerator& accelerator : host.accelerators) accelerator.node = -1;
  for (const RankDevice& device : all_accelerators(host)) EXPECT_EQ(device.node, 0);
  EXPECT_EQ(read_rank_devices("unknown", host).value()[0].node, 0);
}

// ---- any host, any process, any ranks -------------------------------------------------------------------------------

struct Case {
  HostTopology host;
  ProcessPlaces places;
  std::vector<RankDevice> ranks;
};

Case random_case(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Case made;
  const int nodes = 1 + below(4);
  int cpu = 0;
  for (int n = 0; n < nodes; ++n) {
    HostNode node{.number = n, .cpus = {}, .memory_bytes = below(4) == 0 ? 0 : kGiB, .distances = {}};
    const int threads = 1 + below(2);
    for (int cores = below(9); cores > 0; --cores) {
      HostCore core{.cpus = {}, .node = n};
      for (int t = 0; t < threads; ++t) core.cpus.push_back(cpu++);
      node.cpus = in_either(node.cpus, core.cpus);
      made.host.cores.push_back(core);
    }
    for (int k = 0; k < nodes; ++k) node.distances.push_back(k == n ? 10 : 11 + below(30));
    made.host.nodes.push_back(node);
  }
  const bool restricted = below(2) == 0;
  for (int i = 0; i < cpu; ++i)
    if (!restricted || below(3) == 0) made.places.cpus.push_back(i);
  for (int n = 0; n < nodes; ++n)
    if (below(4) != 0) made.places.memory_nodes.push_back(n);
  for (int r = below(10); r >= 0; --r) made.ranks.push_back({.name = "x", .node = below(nodes + 1) - 1});
  return made;
}

int distance_of(const HostTopology& host, int from, int to) {
  return host.nodes[static_cast<std::size_t>(from)].distances[static_cast<std::size_t>(to)];
}

/// By node: cores of which something may be used, as far as it may.
std::map<int, std::vector<CpuList>> usable(const Case& c) {
  std::map<int, std::vector<CpuList>> cores;
  for (const HostCore& core : c.host.cores) {
    const CpuList cpus = in_both(core.cpus, c.places.cpus);
    if (!cpus.empty()) cores[core.node].push_back(cpus);
  }
  return cores;
}

TEST(BindingPlan, HoldsItsRulesOnAnyHost) {
  std::mt19937 random(20);
  int shared = 0, far = 0, unknown = 0, none = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case c = random_case(random);
    const auto cores = usable(c);
    const BindingPlan plan = plan_binding(c.host, c.places, c.ranks);
    const BindingPlan again = plan_binding(c.host, c.places, c.ranks);
    ASSERT_EQ(plan.ranks.size(), c.ranks.size());
    std::map<int, std::vector<const RankBinding*>> at;
    for (std::size_t i = 0; i < c.ranks.size(); ++i) {
      const RankBinding& rank = plan.ranks[i];
      EXPECT_EQ(rank.main_cpus, again.ranks[i].main_cpus);
      if (cores.empty()) {
        ++none;
        EXPECT_TRUE(rank.main_cpus.empty() && rank.copy_cpus.empty());
        continue;
      }
      const CpuList all = in_either(rank.main_cpus, rank.copy_cpus);
      ASSERT_FALSE(rank.main_cpus.empty() || rank.copy_cpus.empty());
      EXPECT_EQ(in_both(all, c.places.cpus), all) << "within what may be used";
      EXPECT_EQ(in_both(all, c.host.find_node(rank.home)->cpus), all) << "of its home";
      EXPECT_EQ(in_both(rank.main_cpus, rank.copy_cpus).empty(), all.size() > 1) << "apart where there are two";
      if (c.ranks[i].node >= 0) {
        for (const auto& [node, list] : cores)
          EXPECT_LE(distance_of(c.host, c.ranks[i].node, rank.home), distance_of(c.host, c.ranks[i].node, node));
        far += rank.home != c.ranks[i].node ? 1 : 0;
      } else {
        ++unknown;
        EXPECT_EQ(rank.memory_node, -1);
      }
      at[rank.home].push_back(&rank);
    }
    for (const auto& [home, members] : at) {
      const std::vector<CpuList>& mine = cores.at(home);
      const bool enough = members.size() <= mine.size();
      CpuList taken;
      std::map<int, int> users;  // by core
      std::size_t least = mine.size(), most = 0;
      for (const RankBinding* const rank : members) {
        EXPECT_EQ(rank->shares_cores, !enough);
        EXPECT_EQ(rank->ranks_at_home, static_cast<int>(members.size()));
        shared += rank->shares_cores ? 1 : 0;
        const CpuList all = in_either(rank->main_cpus, rank->copy_cpus);
        std::size_t whole = 0;
        for (std::size_t k = 0; k < mine.size(); ++k) {
          if (in_both(mine[k], all).empty()) continue;
          ++users[static_cast<int>(k)];
          ++whole;
        }
        least = std::min(least, whole);
        most = std::max(most, whole);
        if (enough) {
          EXPECT_TRUE(in_both(taken, all).empty()) << "ranks share no CPU";
        }
        taken = in_either(taken, all);
      }
      EXPECT_LE(most - least, 1U) << "equal shares";
      for (const auto& [core, count] : users)
        EXPECT_LE(count, static_cast<int>((members.size() + mine.size() - 1) / mine.size()))
            << "a core is shared evenly";
      if (enough) {
        EXPECT_EQ(users.size(), mine.size()) << "no core is left over";
      }
    }
  }
  EXPECT_GT(shared, 100);
  EXPECT_GT(far, 100);
  EXPECT_GT(unknown, 100);
  EXPECT_GT(none, 10);
}

TEST(BindingPlan, MemoryIsTheNearestThatMayBeUsed) {
  std::mt19937 random(21);
  for (int round = 0; round < 2000; ++round) {
    const Case c = random_case(random);
    const BindingPlan plan = plan_binding(c.host, c.places, c.ranks);
    for (std::size_t i = 0; i < c.ranks.size(); ++i) {
      if (c.ranks[i].node < 0) continue;
      int best = -1, best_rank = INT32_MAX;  // nodes with CPUs first, then near ones, then low numbers
      for (const HostNode& node : c.host.nodes) {
        const bool may = c.places.memory_nodes.empty() || holds(c.places.memory_nodes, node.number);
        const int order = (node.cpus.empty() ? 1000 : 0) + distance_of(c.host, c.ranks[i].node, node.number);
        if (may && node.memory_bytes > 0 && order < best_rank) {
          best = node.number;
          best_rank = order;
        }
      }
      EXPECT_EQ(plan.ranks[i].memory_node, best);
    }
  }
}

/// Where the node is not known, ranks go where cores are free.
TEST(BindingPlan, RanksOfUnknownDevicesSpreadOverTheHost) {
  const HostTopology host = two_node_host();
  const RankDevice unknown{.name = "unknown", .node = -1};
  const BindingPlan plan =
      plan_binding(host, places_of("0-31"), {unknown, {.name = "node0", .node = 0}, unknown, unknown});
  EXPECT_EQ(plan.ranks[1].home, 0);
  EXPECT_EQ(plan.ranks[0].home, 1);
  EXPECT_EQ(plan.ranks[2].home, 0) << "a rank each, the lower number first";
  EXPECT_EQ(plan.ranks[3].home, 1);
}

}  // namespace
}  // namespace tidemark
