// What `doctor` says about CPUs and memory near devices, on simulated hosts and on this machine.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "device/process_binding.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"
#include "tests/support/simulated_host.h"

namespace tidemark::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// Lines of the answer that are no `ok`.
std::vector<std::string> wrong_lines(const std::string& out) {
  std::vector<std::string> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with("ok ")) lines.push_back(line);
  return lines;
}

bool has_line(const std::string& out, const std::string& line) {
  return ("\n" + out).find("\n" + line + "\n") != std::string::npos;
}

TEST(CliDoctor, ShowsASimulatedHostAndCallsItSo) {
  const Workplace place;
  const SimulatedHost host(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  const Ran ran = place.run({"doctor", "--topology", host.root()});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_TRUE(has_line(ran.out, "ok    topology        2 nodes, 16 cores, 32 CPUs; simulated: " + host.root()))
      << ran.out;
  EXPECT_TRUE(has_line(ran.out, "ok    node 1          CPUs 8-15,24-31; 64.00 GiB; distances 22, 10")) << ran.out;
  EXPECT_TRUE(has_line(ran.out, "ok    accelerator     0000:af:00.0 (NVIDIA), node 1")) << ran.out;
  EXPECT_TRUE(
      has_line(ran.out, "ok    process         CPUs 0-31 of nodes 0-1; memory of nodes 0-1; unplaced pages local"))
      << ran.out;
  EXPECT_TRUE(has_line(
      ran.out, "ok    rank 2          0000:af:00.0, node 1: CPUs 8-10,24-26, copies on 11,27, memory of node 1"))
      << ran.out;
}

/// Of which some are described and counted alone: no fault of an installation.
TEST(CliDoctor, ReadsEveryShippedModelAlsoThoseThatAreNotPlanned) {
  const Workplace place;
  const std::string model = source_path("models/granite-4.0-h-small.yaml").string();
  EXPECT_EQ(place.run({"plan", model}).status, 2) << "a model that is planned proves nothing here";
  const SimulatedHost host(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  const Ran ran = place.run({"doctor", "--topology", host.root(), "--format", "json"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  const Json whole = parsed(ran.out);
  int rows = 0;
  for (const Json& finding : whole["findings"]) {
    if (finding["what"] != "models") continue;
    ++rows;
    EXPECT_TRUE(finding["ok"].get<bool>()) << finding;
    EXPECT_NE(finding["value"].get<std::string>().find("granite-4.0-h-small"), std::string::npos) << finding;
  }
  EXPECT_EQ(rows, 1);
}

TEST(CliDoctor, AWrongBindingIsALineWithWhatWouldBeRightAndStatusOne) {
  const Workplace place;
  const SimulatedHost host(two_sockets(), two_a_socket(),
                           {.cpus = "8-15", .memory_nodes = "0-1", .policy = "interleave:0-1"});
  const Words words = {"doctor", "--topology", host.root(), "--local-devices", "0000:3b:00.0,0000:5e:00.0"};
  const Ran ran = place.run(words);
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_EQ(
      wrong_lines(ran.out),
      (Words{"BAD   binding         the process may run on CPUs 8-15 of node 1 alone, and devices 0000:3b:00.0, "
             "0000:5e:00.0 hang on node 0; right: CPUs of node 0: taskset -c 0-7,16-23, or that cpuset for the "
             "container",
             "BAD   binding         unplaced pages are interleaved over nodes 0-1; right: pages of node 0 first: no "
             "numactl --interleave"}));
  Words more = words;
  more.insert(more.end(), {"--format", "json"});
  const Ran asked = place.run(more);
  EXPECT_EQ(asked.status, 1);
  const Json json = parsed(asked.out);
  EXPECT_FALSE(json["healthy"].get<bool>());
  EXPECT_TRUE(json["binding"]["simulated"].get<bool>());
  EXPECT_EQ(json["binding"]["problems"].size(), 2U);
  EXPECT_EQ(json["binding"]["process"]["cpus"], "8-15");
  EXPECT_EQ(json["binding"]["ranks"][0]["home"], 1);
  EXPECT_EQ(json["binding"]["ranks"][0]["device_node"], 0);
}

TEST(CliDoctor, ShowsWhereTheThreadsOfAProcessRun) {
  const Workplace place;
  const SimulatedHost host(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  host.write_process("77", {.cpus = "0-3", .memory_nodes = "0-1"});
  host.write_thread("77", 77, "python", "0-3");
  host.write_thread("77", 78, "tidemark-copy", "12");
  const Ran ran = place.run({"doctor", "--topology", host.root(), "--process", "77", "--local-devices", "node0"});
  EXPECT_EQ(ran.status, 1) << ran.err;
  EXPECT_TRUE(has_line(ran.out, "ok    threads         1 on CPUs 0-3: python")) << ran.out;
  EXPECT_TRUE(has_line(ran.out, "ok    pages           8.00 KiB on node 0, 4.00 KiB on node 1")) << ran.out;
  ASSERT_EQ(wrong_lines(ran.out).size(), 1U);
  EXPECT_NE(ran.out.find("thread 78 (tidemark-copy) may run on CPUs 12 alone"), std::string::npos) << ran.out;
}

TEST(CliDoctor, RefusesAHostThatCannotBeRead) {
  const Workplace place;
  const SimulatedHost host(two_sockets(), two_a_socket(), {.cpus = "0-31", .memory_nodes = "0-1"});
  const auto refused = [&](const Words& words, const std::string& says) {
    const Ran ran = place.run(words);
    EXPECT_EQ(ran.status, 2) << ran.out;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  };
  refused({"doctor", "--topology", host.root(), "--local-devices", "node7"}, "node0, node1 would be right");
  refused({"doctor", "--topology", host.root(), "--process", "5"}, "no such process");
  refused({"doctor", "--process", "0"}, "--process");
  refused({"doctor", "--topology", "/no/such/folder"}, "/no/such/folder/sys/devices/system/cpu/online: no such file");
  refused({"doctor", "--topology", host.root(), "--local-devices", "0000:3b:00.0,0000:af:00.0,0000:3b:00.0"},
          "device '0000:3b:00.0': given to ranks 0 and 2");
  host.write("sys/bus/pci/devices/0000:af:00.0/numa_node", "4\n");
  refused({"doctor", "--topology", host.root()}, "0000:af:00.0/numa_node:1: there is no node 4 online; one of 0-1");
  host.write("sys/bus/pci/devices/0000:af:00.0/numa_node", "1\n");
  host.write("sys/devices/system/node/node1/cpulist", "7-15,24-31\n");
  refused({"doctor", "--topology", host.root()}, "node1/cpulist:1: CPU 7 is of node 0 as well");
  host.write("sys/devices/system/node/node1/cpulist", "8-15,24-31\n");
  host.write("sys/devices/system/cpu/online", "0-7,16-23\n");
  refused({"doctor", "--topology", host.root()}, "node1/cpulist:1: no CPU of node 1 is online, and the rank of device");
  EXPECT_EQ(place.run({"doctor", "--topology", host.root(), "--local-devices", "0000:3b:00.0"}).status, 0);
  host.write("sys/devices/system/node/node1/cpulist", "8-\n");
  refused({"doctor", "--topology", host.root()}, "node1/cpulist:1: '8-' is no number or range");
}

/// The program inherits the mask, as below taskset.
TEST(CliDoctor, ShowsTheMaskThisMachineGaveIt) {
  const Workplace place;
  const Ran ran = place.run({"doctor", "--format", "json"});
  EXPECT_EQ(ran.status, 0) << ran.out;
  const Json binding = parsed(ran.out)["binding"];
  EXPECT_FALSE(binding["simulated"].get<bool>());
  EXPECT_EQ(binding["process"]["cpus"], text_of_list(own_cpus()));
  const CpuList before = own_cpus();
  ASSERT_TRUE(narrow_own_cpus({before.front()}));
  const Json narrowed = parsed(place.run({"doctor", "--format", "json"}).out)["binding"];
  EXPECT_EQ(narrowed["process"]["cpus"], text_of_list({before.front()}));
}

}  // namespace
}  // namespace tidemark::testing
