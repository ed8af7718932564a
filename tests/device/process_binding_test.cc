// On the machine that runs the tests, whatever it is: masks and pages as the kernel reports them. A process is bound
// once, so each test binds a child.

#include "device/process_binding.h"

#include <gtest/gtest.h>
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "device/host_device.h"
#include "device/host_pages.h"
#include "device/page_nodes.h"
#include "device/process_places.h"
#include "tests/support/fork.h"

namespace tidemark {
namespace {

using namespace literals;

/// CPUs by the name of the process's threads.
std::map<std::string, std::set<CpuList>> masks_by_name() {
  std::map<std::string, std::set<CpuList>> masks;
  const Result<ProcessPlaces> places = read_process_places(getpid());
  if (!places) return masks;
  for (const ProcessThread& thread : places.value().threads) masks[thread.name].insert(thread.cpus);
  return masks;
}

/// A thread that waits until the test ends.
class Waiting {
 public:
  explicit Waiting(const CpuList& cpus = {})
      : thread_([this, cpus] {
          if (!cpus.empty()) narrow_own_cpus(cpus);
          started_ = true;
          while (!ends_) std::this_thread::yield();
          seen_ = own_cpus();
        }) {
    while (!started_) std::this_thread::yield();
  }
  /// Its mask, as it ends.
  CpuList end() {
    ends_ = true;
    thread_.join();
    return seen_;
  }

 private:
  std::atomic<bool> started_{false}, ends_{false};
  CpuList seen_;
  std::thread thread_;
};

RankBinding binding(CpuList main, CpuList copy, int memory_node = -1) {
  RankBinding rank;
  rank.main_cpus = std::move(main);
  rank.copy_cpus = std::move(copy);
  rank.memory_node = memory_node;
  return rank;
}

class ProcessBinding : public ::testing::Test {
 protected:
  void SetUp() override {
    cpus_ = own_cpus();
    if (cpus_.size() < 2) GTEST_SKIP() << "this process may use one CPU alone";
    main_ = {cpus_[0]};
    copy_ = {cpus_[1]};
  }
  CpuList cpus_, main_, copy_;
};

TEST_F(ProcessBinding, PutsThreadsOnTheMainCpusAndCopyThreadsOnTheirs) {
  EXPECT_EQ(in_a_fork([this] {
              Waiting before;
              const Result<BoundProcess> bound = bind_process(binding(main_, copy_));
              if (!bound || bound.value().threads_left != 0 || bound.value().threads_bound != 2) return false;
              Waiting after;
              if (own_cpus() != main_ || after.end() != main_ || before.end() != main_) return false;
              Result<std::unique_ptr<Device>> opened =
                  open_host_device({.capacity_bytes = 64_MiB, .copy_threads = 2, .copies_any_memory = true});
              if (!opened) return false;
              Device& device = *opened.value();
              StreamHandle copies{}, kernels{};
              Address pinned = 0;
              if (device.create_stream(StreamRole::d2h, copies) != DeviceCode::ok) return false;
              if (device.create_stream(StreamRole::compute, kernels) != DeviceCode::ok) return false;
              if (device.allocate_pinned(8_MiB, pinned) != DeviceCode::ok) return false;
              std::vector<char> source(8_MiB, 'x');
              if (device.copy(copies, pinned, reinterpret_cast<Address>(source.data()), 8_MiB,
                              CopyKind::device_to_host) != DeviceCode::ok)
                return false;
              if (device.synchronize_device() != DeviceCode::ok) return false;
              const auto masks = masks_by_name();
              const std::set<CpuList> apart = {copy_};
              return masks.contains("tidemark-copy") && masks.at("tidemark-copy") == apart &&
                     masks.contains("tidemark-stream") && masks.at("tidemark-stream") == apart;
            }),
            0);
}

/// Threads of the runtime that run already move as well.
TEST_F(ProcessBinding, MovesCopyThreadsThatStartedBefore) {
  EXPECT_EQ(in_a_fork([this] {
              Result<std::unique_ptr<Device>> opened = open_host_device({.capacity_bytes = 4_MiB});
              StreamHandle copies{};
              if (!opened || opened.value()->create_stream(StreamRole::h2d, copies) != DeviceCode::ok) return false;
              // A thread names itself as it starts.
              for (int i = 0; i < 1000 && !masks_by_name().contains("tidemark-stream"); ++i) usleep(1000);
              if (!bind_process(binding(main_, copy_))) return false;
              return masks_by_name()["tidemark-stream"] == std::set<CpuList>{copy_};
            }),
            0);
}

TEST_F(ProcessBinding, IsNeverWiderThanWhatTheProcessWasGiven) {
  EXPECT_EQ(in_a_fork([this] {
              if (!narrow_own_cpus(main_)) return false;
              const Result<BoundProcess> refused = bind_process(binding(copy_, copy_));
              if (refused || refused.error().code != Error::Code::infeasible || own_cpus() != main_) return false;
              if (bound_process() != nullptr) return false;
              // A plan that reaches further: its CPUs that the process was not given are left out, copies stay where
              // they may run.
              if (!bind_process(binding(cpus_, copy_)) || own_cpus() != main_) return false;
              std::thread copies([this] {
                begin_copy_thread("tidemark-copy", -1);
                if (own_cpus() != main_) _exit(1);
              });
              copies.join();
              return true;
            }),
            0);
}

/// A thread that starts a thread that starts a thread, a millisecond after the other, behind many older ones: the first
/// list of them has long changed when the last one in it is bound.
TEST_F(ProcessBinding, HasThreadsThatStartMeanwhile) {
  EXPECT_EQ(in_a_fork([this] {
              std::atomic<bool> ends{false};
              std::vector<std::thread> older;
              for (int i = 0; i < 300; ++i) older.emplace_back([&] { ends.wait(false); });
              std::atomic<int> started{0}, ended{0};
              std::function<void()> start_next = [&] {
                ++started;
                std::thread([&] {
                  usleep(1000);
                  if (!ends) start_next();
                  ends.wait(false);
                  ++ended;
                }).detach();
              };
              start_next();
              const Result<BoundProcess> bound = bind_process(binding(main_, copy_));
              bool all_bound = bound && bound.value().threads_left == 0 && bound.value().threads_bound > 301;
              for (const auto& [name, masks] : masks_by_name())
                all_bound = all_bound && masks == std::set<CpuList>{main_};
              ends = true;
              ends.notify_all();
              while (ended < started) usleep(1000);
              for (std::thread& thread : older) thread.join();
              return all_bound;
            }),
            0);
}

TEST_F(ProcessBinding, LeavesAThreadThatSomebodyBoundElsewhere) {
  EXPECT_EQ(in_a_fork([this] {
              Waiting bound_by_hand(copy_);
              const Result<BoundProcess> bound = bind_process(binding(main_, main_));
              return bound && bound.value().threads_left == 1 && bound_by_hand.end() == copy_;
            }),
            0);
}

TEST_F(ProcessBinding, IsDoneOnce) {
  EXPECT_EQ(in_a_fork([this] {
              if (!bind_process(binding(main_, copy_)) || !bind_process(binding(main_, copy_))) return false;
              const Result<BoundProcess> other = bind_process(binding(copy_, main_));
              return !other && other.error().message.find("bound to CPUs") != std::string::npos && own_cpus() == main_;
            }),
            0);
}

/// Beyond this process's own children, so that the children above stay the first to bind.
TEST_F(ProcessBinding, AForkedChildHasItsParents) {
  EXPECT_EQ(in_a_fork([this] {
              if (!bind_process(binding(main_, copy_))) return false;
              return in_a_fork([this] { return bound_process() != nullptr && own_cpus() == main_; }) == 0;
            }),
            0);
}

TEST(ProcessMemory, UnplacedPagesGoToTheNodeUnlessAPolicyWasSet) {
  int mode = -1;
  if (get_mempolicy(&mode, nullptr, 0, nullptr, 0) != 0) GTEST_SKIP() << "this kernel has no memory policies";
  if (mode != MPOL_DEFAULT) GTEST_SKIP() << "a policy is set for the tests";
  const int node = read_host_topology().value().nodes.front().number;
  EXPECT_EQ(in_a_fork([node] {
              const Result<BoundProcess> bound = bind_process(binding(own_cpus(), own_cpus(), node));
              int now = -1;
              unsigned long nodes = 0;
              if (get_mempolicy(&now, &nodes, sizeof nodes * 8, nullptr, 0) != 0) return false;
              const MemoryPolicy policy = read_own_places().value().policy;  // the same as a file
              return bound && bound.value().memory_placed && now == MPOL_PREFERRED && nodes == 1UL << node &&
                     policy.kind == MemoryPolicy::Kind::preferred && policy.nodes == CpuList{node};
            }),
            0);
  EXPECT_EQ(in_a_fork([node] {
              const unsigned long nodes = 1UL << node;
              if (set_mempolicy(MPOL_BIND, &nodes, sizeof nodes * 8) != 0) return false;
              const Result<BoundProcess> bound = bind_process(binding(own_cpus(), own_cpus(), node));
              int now = -1;
              return bound && !bound.value().memory_placed && get_mempolicy(&now, nullptr, 0, nullptr, 0) == 0 &&
                     now == MPOL_BIND;
            }),
            0);
}

TEST(ProcessMemory, ADeviceThatDoesNotKnowItsNodeHasThatOfTheBinding) {
  EXPECT_EQ(in_a_fork([] {
              RankBinding rank = binding(own_cpus(), own_cpus());
              rank.device_node = 0;
              if (numa_node_or_bound(-1) != -1 || !bind_process(rank)) return false;
              Result<std::unique_ptr<Device>> opened = open_host_device({.capacity_bytes = 4_MiB});
              return opened && opened.value()->traits().numa_node == 0 && numa_node_or_bound(3) == 3;
            }),
            0);
}

TEST(PageNodes, PinnedPagesLieOnTheNodeAskedFor) {
  const HostTopology host = read_host_topology().value();
  for (const HostNode& node : host.nodes) {
    if (node.memory_bytes < kGiB) continue;
    const Result<HostPages> pages = HostPages::allocate({.bytes = 6_MiB, .numa_node = node.number});
    ASSERT_TRUE(pages.ok()) << pages.error().message;
    const PageNodes found = find_page_nodes(pages.value().data(), pages.value().bytes(), 4096);
    if (found.known() == 0) GTEST_SKIP() << "this kernel does not say where pages are";
    EXPECT_EQ(found.known(), 6_MiB / sysconf(_SC_PAGESIZE));
    EXPECT_EQ(found.misplaced(node.number), "");
    EXPECT_TRUE(pages.value().facts().numa_bound) << pages.value().facts().explanation;
    EXPECT_NE(found.misplaced(node.number + 1), "") << "seen from another node they are all in the wrong place";
  }
}

TEST(PageNodes, PagesThatWereNeverTouchedAreOnNone) {
  void* const data = mmap(nullptr, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  const PageNodes found = find_page_nodes(data, 64 * 4096, 10);
  EXPECT_EQ(found.known(), 0);
  EXPECT_EQ(found.unknown, 10);
  EXPECT_EQ(found.misplaced(0), "") << "nothing is known to be wrong";
  munmap(data, 64 * 4096);
}

TEST(PageNodes, AreToldInWords) {
  EXPECT_EQ((PageNodes{.pages = {{0, 500}, {1, 12}}, .unknown = 3}).misplaced(0),
            "12 of 512 pages looked at lie on node 1");
  EXPECT_EQ((PageNodes{.pages = {{0, 1}, {1, 2}, {2, 3}}, .unknown = 0}).misplaced(1),
            "1 of 6 pages looked at lie on node 0, 3 on node 2");
}

TEST(OwnCpus, AreNarrowedToWhatIsShared) {
  std::thread([] {
    const CpuList before = own_cpus();
    ASSERT_FALSE(before.empty());
    EXPECT_FALSE(narrow_own_cpus({kLargestNumber}));
    EXPECT_FALSE(narrow_own_cpus({}));
    EXPECT_EQ(own_cpus(), before);
    EXPECT_TRUE(narrow_own_cpus(in_either({before.back()}, {kLargestNumber})));
    EXPECT_EQ(own_cpus(), CpuList{before.back()});
    EXPECT_TRUE(narrow_to_node(-1));
    EXPECT_FALSE(narrow_to_node(1023)) << "there is no such node";
    EXPECT_TRUE(runs_within(-1));
    EXPECT_FALSE(runs_within(1023));
    bool somewhere = false;
    const HostTopology host = read_host_topology().value();
    for (const HostNode& node : host.nodes) somewhere = somewhere || runs_within(node.number);
    EXPECT_TRUE(somewhere) << "one CPU is of one node";
  }).join();
}

}  // namespace
}  // namespace tidemark
