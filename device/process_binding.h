#pragma once
// Carries a binding out: threads on their CPUs, unplaced pages near the device. And remembers what the process was
// bound to, since threads that start later inherit the main thread's CPUs and belong on others.
//
// Nothing is ever widened. What a process may use is what it was given (taskset, numactl, cpusets, a launcher); a plan
// is made within it, threads are narrowed to what their own mask and the plan have in common, and one that has nothing
// in common with the plan is left alone and counted. A memory policy that was set before stays.
//
// There is one record for the process, as CPU masks are the process's, and it lasts as long as the process. A forked
// child has its parent's masks and so its parent's record. Threads: any; two that bind at once are put in order.

#include <vector>

#include "core/result.h"
#include "device/binding_plan.h"

namespace tidemark {

/// Every thread of the runtime that copies or pins has a name that begins so, for `ps -L` and `tidemark doctor`.
inline constexpr const char* kThreadNames = "tidemark-";

struct BoundProcess {
  RankBinding rank;
  CpuList cpus_before;         ///< of the thread that asked, before
  bool cpus_were_own = false;  ///< ProcessPlaces::cpus_are_own, before
  int threads_bound = 0;       ///< that run within the plan now
  int threads_left = 0;        ///< whose own masks have nothing in common with it: left as they were
  /// Unplaced pages of the thread that asked, and of all it starts from now on, go to rank.memory_node first. False: no
  /// node was planned, a policy was set already, or the kernel refuses.
  bool memory_placed = false;
};

/// Every thread the process has now goes on main_cpus, the runtime's own on copy_cpus; threads that start meanwhile are
/// among them. Asked for again with the same binding, it answers what it did then.
/// Errors (infeasible): bound otherwise already, no CPU planned, the kernel refuses.
[[nodiscard]] Result<BoundProcess> bind_process(const RankBinding& rank, bool cpus_are_own = false);

/// nullptr: not bound. Lives as long as the process.
[[nodiscard]] const BoundProcess* bound_process();

/// What the calling thread may run on; empty: the kernel does not say.
[[nodiscard]] CpuList own_cpus();
/// Narrows the calling thread to what its mask has in common with `cpus`. False: nothing, or the kernel refuses; it is
/// as it was.
bool narrow_own_cpus(const CpuList& cpus);
/// The same to the CPUs of a node. True where it is -1: any CPU will do.
bool narrow_to_node(int node);
/// Whether the calling thread runs on CPUs of this node alone; -1: it does.
[[nodiscard]] bool runs_within(int node);

/// For a thread of the runtime that copies or pins memory of a device on `numa_node` (-1: not known), as it starts: its
/// name, and its place: the copy CPUs of a process that is bound for such a device, else the device's node. `name`
/// begins with kThreadNames and has at most 15 characters, as many as the kernel keeps.
void begin_copy_thread(const char* name, int numa_node);

/// The node of a device of which the back end found out `found`: where that is -1, what the process was bound for.
[[nodiscard]] int numa_node_or_bound(int found);

/// While it lives, pages that the calling thread touches first, and those drivers get for it, go to `node` where there
/// is room; then what was before holds again. -1, or one node only: nothing changes.
class PreferNode {
 public:
  explicit PreferNode(int node);
  ~PreferNode();
  PreferNode(const PreferNode&) = delete;
  PreferNode& operator=(const PreferNode&) = delete;

 private:
  bool changed_ = false;
  int mode_ = 0;
  std::vector<unsigned long> nodes_;
};

}  // namespace tidemark
