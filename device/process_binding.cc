#include "device/process_binding.h"

#include <fmt/format.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "device/host_pages.h"
#include "device/system_files.h"

namespace tidemark {
namespace {

constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
/// As many bits as numbers; the kernel takes and gives longer masks than it has CPUs.
constexpr std::size_t kMaskWords = (std::size_t{kLargestNumber} + 1) / kBits;
/// Masks of nodes have the kernel's MAX_NUMNODES: beyond a page of bits it refuses them (get_nodes(), mm/mempolicy.c).
constexpr std::size_t kNodeWords = 1024 / kBits;

using Mask = std::vector<unsigned long>;

/// What does not fit into so many words is left out.
Mask mask_of(const CpuList& list, std::size_t words = kMaskWords) {
  Mask mask(words, 0);
  for (const int number : list) {
    const auto bit = static_cast<std::size_t>(number);
    if (bit < words * kBits) mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

CpuList list_of(const Mask& mask) {
  CpuList list;
  for (std::size_t i = 0; i < mask.size() * kBits; ++i)
    if ((mask[i / kBits] >> (i % kBits) & 1UL) != 0) list.push_back(static_cast<int>(i));
  return list;
}

/// 0: the calling thread.
CpuList cpus_of_thread(pid_t thread) {
  Mask mask(kMaskWords, 0);
  const int answer =
      sched_getaffinity(thread, mask.size() * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data()));
  return answer == 0 ? list_of(mask) : CpuList();
}

/// 0, or the errno.
int set_cpus_of_thread(pid_t thread, const CpuList& cpus) {
  const Mask mask = mask_of(cpus);
  const int answer =
      sched_setaffinity(thread, mask.size() * sizeof(unsigned long), reinterpret_cast<const cpu_set_t*>(mask.data()));
  return answer == 0 ? 0 : errno;
}

bool narrow_thread(pid_t thread, const CpuList& cpus) {
  const CpuList before = cpus_of_thread(thread);
  const CpuList after = in_both(before, cpus);
  if (after.empty()) return false;
  return after == before || set_cpus_of_thread(thread, after) == 0;
}

/// Of this process, as of now.
std::vector<pid_t> list_threads() {
  std::vector<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    pid_t id = 0;
    if (reads_as_number(at->path().filename().string(), id)) threads.push_back(id);
  }
  return threads;
}

bool is_runtime_thread(pid_t thread) {
  const auto name = small_file_text(fmt::format("/proc/self/task/{}/comm", thread));
  return name && name->starts_with(kThreadNames);
}

/// A thread that has ended meanwhile counts as neither. True: its CPUs had to change.
bool bind_thread(pid_t thread, const RankBinding& rank, BoundProcess& bound) {
  const CpuList& wanted = is_runtime_thread(thread) ? rank.copy_cpus : rank.main_cpus;
  const CpuList before = cpus_of_thread(thread);
  if (before.empty()) return false;
  ++(narrow_thread(thread, wanted) ? bound.threads_bound : bound.threads_left);
  const CpuList after = in_both(before, wanted);
  return !after.empty() && after != before;
}

/// A thread that starts while others are bound has the CPUs its parent had until then, and is in no list while clone()
/// copies it, which may be as its parent moves to another CPU: listed again, with pauses for such parents, until some
/// lists in a row have no thread left to bind. Threads of a parent that is bound have the right CPUs from the start.
void bind_all_threads(const RankBinding& rank, BoundProcess& bound) {
  constexpr int kMostLists = 64, kQuietLists = 6;  // with pauses of 1, 2, 4, 8 and 16 ms between them
  std::set<pid_t> seen;
  for (int list = 0, quiet = 0; list < kMostLists && quiet < kQuietLists; ++list) {
    bool changed = false;
    for (const pid_t thread : list_threads()) {
      if (seen.insert(thread).second) changed = bind_thread(thread, rank, bound) || changed;
    }
    quiet = changed ? 0 : quiet + 1;
    if (quiet > 0 && quiet < kQuietLists) std::this_thread::sleep_for(std::chrono::milliseconds(1 << (quiet - 1)));
  }
}

/// Only where no policy was set.
bool prefer_unplaced_pages(int node) {
  if (node < 0 || numa_available() < 0) return false;
  int mode = 0;
  if (get_mempolicy(&mode, nullptr, 0, nullptr, 0) != 0 || mode != MPOL_DEFAULT) return false;
  const Mask mask = mask_of({node}, kNodeWords);
  return set_mempolicy(MPOL_PREFERRED, mask.data(), mask.size() * kBits) == 0;
}

bool same(const RankBinding& a, const RankBinding& b) {
  return a.device_node == b.device_node && a.main_cpus == b.main_cpus && a.copy_cpus == b.copy_cpus &&
         a.memory_node == b.memory_node;
}

std::atomic<const BoundProcess*> the_record{nullptr};

/// Whether the process was bound for a device there.
const BoundProcess* bound_for(int numa_node) {
  const BoundProcess* const bound = bound_process();
  if (bound == nullptr) return nullptr;
  const int node = bound->rank.device_node;
  return numa_node < 0 || node < 0 || node == numa_node ? bound : nullptr;
}

/// From sysfs, since containers are often refused the calls of NUMA, though not those of affinity. Empty: no such node.
CpuList cpus_of_node(int node) {
  const std::string path = fmt::format("/sys/devices/system/node/node{}/cpulist", node);
  const auto text = small_file_text(path);
  if (!text) return {};
  const Result<CpuList> cpus = read_cpu_list(*text, path);
  return cpus ? cpus.value() : CpuList();
}

}  // namespace

const BoundProcess* bound_process() {
  return the_record.load(std::memory_order_acquire);
}

Result<BoundProcess> bind_process(const RankBinding& rank, bool cpus_are_own) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const BoundProcess* const record = bound_process(); record != nullptr) {
    if (same(record->rank, rank)) return *record;
    return infeasible(fmt::format("the process is bound to CPUs {} already; a process is bound once",
                                  text_of_list(record->rank.main_cpus)));
  }
  if (rank.main_cpus.empty()) return infeasible("the plan has no CPU for this rank: none it may use is online");
  BoundProcess bound{.rank = rank, .cpus_before = own_cpus(), .cpus_were_own = cpus_are_own};
  if (!narrow_own_cpus(rank.main_cpus)) {
    return infeasible(fmt::format("this thread may run on CPUs {}, and the plan has CPUs {}",
                                  text_of_list(bound.cpus_before), text_of_list(rank.main_cpus)));
  }
  bind_all_threads(rank, bound);
  bound.memory_placed = prefer_unplaced_pages(rank.memory_node);
  // Never freed: threads that start while the process ends still look at it.
  the_record.store(new BoundProcess(bound), std::memory_order_release);
  return bound;
}

CpuList own_cpus() {
  return cpus_of_thread(0);
}

bool narrow_own_cpus(const CpuList& cpus) {
  return narrow_thread(0, cpus);
}

bool narrow_to_node(int node) {
  return node < 0 || narrow_own_cpus(cpus_of_node(node));
}

bool runs_within(int node) {
  if (node < 0) return true;
  const CpuList own = own_cpus();
  return in_both(own, cpus_of_node(node)) == own;
}

void begin_copy_thread(const char* name, int numa_node) {
  static_cast<void>(pthread_setname_np(pthread_self(), name));
  const BoundProcess* const bound = bound_for(numa_node);
  // The mask inherited from the main thread is narrower than what the process was given; the plan lies within the
  // latter.
  if (bound != nullptr && set_cpus_of_thread(0, in_both(bound->rank.copy_cpus, bound->cpus_before)) == 0) return;
  static_cast<void>(narrow_to_node(numa_node));
}

int numa_node_or_bound(int found) {
  const BoundProcess* const bound = bound_process();
  return found >= 0 || bound == nullptr ? found : bound->rank.device_node;
}

PreferNode::PreferNode(int node) {
  if (node < 0 || numa_node_count() == 1) return;
  nodes_.assign(kNodeWords, 0);
  if (get_mempolicy(&mode_, nodes_.data(), nodes_.size() * kBits, nullptr, 0) != 0) return;
  const Mask mask = mask_of({node}, kNodeWords);
  changed_ = set_mempolicy(MPOL_PREFERRED, mask.data(), mask.size() * kBits) == 0;
}

PreferNode::~PreferNode() {
  if (changed_) static_cast<void>(set_mempolicy(mode_, nodes_.data(), nodes_.size() * kBits));
}

}  // namespace tidemark
