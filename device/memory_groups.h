#pragma once
// What the memory controller (cgroups) still grants this process.
//
// Groups are nested, as Slurm, systemd and containers make them, and a page counts in the process's own group and in
// all above it: what is left is the least of what any of them has left. In version 2 a group's limit is the lower one
// of memory.max (beyond it the kernel kills) and memory.high (beyond it the process is slowed to a crawl), in version 1
// it is memory.limit_in_bytes. Files in the page cache count as used by a group although the kernel drops them for
// whoever needs the room, so they are taken off.
//
// Reads files of /proc and of the controller's mounts, tens of microseconds. Threads: any.

#include <string>
#include <vector>

#include "core/bytes.h"

namespace tidemark {

/// A group that this process's memory counts in.
struct MemoryGroup {
  std::string folder;  ///< with the group's files
  bool is_version_2 = true;
};

/// From the texts of /proc/self/cgroup and /proc/self/mountinfo: the process's groups, each one followed by those above
/// it as far as they are mounted. Lines without sense are passed over.
[[nodiscard]] std::vector<MemoryGroup> find_memory_groups(const std::string& cgroup, const std::string& mountinfo);

/// The group that leaves least.
struct TightestGroup {
  Bytes left_bytes = -1;  ///< >= 0; -1: no group has a limit
  std::string folder;     ///< with the group's files
};
/// `root` stands for "/" in tests; it is no part of the folder.
[[nodiscard]] TightestGroup tightest_memory_group(const std::string& root = "");

/// The least of what the groups have left, >= 0; -1: no limit.
[[nodiscard]] Bytes memory_left_by_groups(const std::string& root = "");

}  // namespace tidemark
