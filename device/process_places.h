#pragma once
// What a process may use of its host (CPUs, memory nodes), where its unplaced pages go, and where its threads may run.
//
// Read from files of proc(5) alone, below a folder that is a parameter: "" is this machine, any other a simulated one
// (device/host_topology.h), with
//
//   proc/self/status              Cpus_allowed_list, Mems_allowed_list, PPid
//   proc/self/numa_maps           its first line has the memory policy; may be missing
//   proc/PID/status, numa_maps    the same of another process
//   proc/PID/task/TID/status      of its threads
//
// Threads: any.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "device/cpu_list.h"

namespace tidemark {

/// Where the pages of a thread go that no call placed (set_mempolicy(2)).
struct MemoryPolicy {
  enum class Kind : std::uint8_t {
    local,        ///< the node of the CPU that touches them first: the default
    preferred,    ///< one of `nodes` while there is room
    bound,        ///< `nodes` alone
    interleaved,  ///< page after page over `nodes`
    unknown,      ///< the kernel does not say
  };
  Kind kind = Kind::unknown;
  CpuList nodes;  ///< empty for local and unknown
};

struct ProcessThread {
  int id = 0;
  std::string name;  ///< as the thread called itself, printable
  CpuList cpus;      ///< that it may run on
};

/// What a process may use, and where it is.
struct ProcessPlaces {
  CpuList cpus;          ///< that the thread asked about may run on
  CpuList memory_nodes;  ///< its cpuset's
  MemoryPolicy policy;
  /// The parent may use more: the mask was made for this process alone, not for all that the parent started.
  bool cpus_are_own = false;
  std::vector<ProcessThread> threads;  ///< by id; empty: not asked for
  std::map<int, Bytes> memory_bytes;   ///< of its pages, by the node they lie on; empty: not asked for, or not said
};

/// Of the calling thread; in a simulated machine, of its proc/self. Errors as above.
[[nodiscard]] Result<ProcessPlaces> read_own_places(const std::string& root = "");
/// Of a process and all its threads; one that ends meanwhile is left out. Errors (bad_input): there is none, or it may
/// not be looked at.
[[nodiscard]] Result<ProcessPlaces> read_process_places(int process, const std::string& root = "");

// The readers of single texts; `place` names the file in errors.

/// Cpus_allowed_list and Mems_allowed_list of a status file; no Mems_allowed_list (a kernel without cpusets): empty.
[[nodiscard]] Result<ProcessPlaces> read_status(std::string_view text, std::string_view place);
/// Bytes by node of one line of numa_maps: "7f00 default anon=3 N0=2 N1=1 kernelpagesize_kB=4". Others' lines: none.
[[nodiscard]] std::map<int, Bytes> read_mapped_pages(std::string_view line);
/// The policy in the first line of numa_maps: "7f00 interleave:0-1 file=..". What is unknown is unknown, no error.
[[nodiscard]] MemoryPolicy read_policy(std::string_view text);

}  // namespace tidemark
