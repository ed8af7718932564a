#include "device/memory_groups.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string_view>

namespace tidemark {
namespace {

constexpr Bytes kNone = std::numeric_limits<Bytes>::max();

/// Version 1 says "no limit" by the largest number of whole pages that it can count.
constexpr Bytes kUnlimited = Bytes{1} << 60;

/// A mount of a controller's tree of groups.
struct Mount {
  std::string root;  ///< the group that appears at `point`
  std::string point;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Blanks and backslashes stand in mountinfo as three octal digits: "\040".
std::string unescape(const std::string& text) {
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// "36 35 98:0 /root /point options [optional ...] - type source options", as proc(5) has it.
std::vector<Mount> find_mounts(const std::string& mountinfo, bool version_2) {
  std::vector<Mount> mounts;
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (std::distance(fields.begin(), dash) < 6 || std::distance(dash, fields.end()) < 4) continue;
    const bool wanted = version_2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has(split(dash[3], ','), "memory");
    if (wanted) mounts.push_back({.root = unescape(fields[3]), .point = unescape(fields[4])});
  }
  return mounts;
}

/// The group's path below the mount; "" where the group itself is mounted, or lies outside (a namespace's "/../x").
std::string path_below(const Mount& mount, const std::string& group) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  const bool inside = group.starts_with(root) && (group.size() == root.size() || group[root.size()] == '/');
  if (!inside || group.find("/..") != std::string::npos) return "";
  const std::string below = group.substr(root.size());
  return below == "/" ? "" : below;
}

void add_groups(const Mount& mount, const std::string& group, bool version_2, std::vector<MemoryGroup>& groups) {
  for (std::string below = path_below(mount, group);; below.erase(below.rfind('/'))) {
    groups.push_back({.folder = mount.point + below, .is_version_2 = version_2});
    if (below.empty()) return;
  }
}

Bytes number_of_file(const std::string& path) {
  std::ifstream file(path);
  Bytes value = -1;
  return file >> value ? value : -1;  // "max", or no file
}

Bytes limit_of_file(const std::string& path) {
  const Bytes limit = number_of_file(path);
  return limit < 0 || limit >= kUnlimited ? kNone : limit;
}

/// Pages of files that the kernel drops when the room is needed; version 1 has sums over the groups below as "total_".
Bytes file_cache_bytes(const std::string& folder, const std::string& prefix) {
  std::ifstream file(folder + "/memory.stat");
  Bytes sum = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == prefix + "active_file" || name == prefix + "inactive_file") sum += value;
  }
  return sum;
}

/// kNone: no limit, or one that does not count.
Bytes left_in(const std::string& folder, Bytes limit, Bytes used, const std::string& prefix) {
  if (limit == kNone || used < 0) return kNone;
  return std::max<Bytes>(0, limit - std::max<Bytes>(0, used - file_cache_bytes(folder, prefix)));
}

Bytes left_in(const MemoryGroup& group, const std::string& root) {
  const std::string folder = root + group.folder;
  if (group.is_version_2) {
    const Bytes limit = std::min(limit_of_file(folder + "/memory.max"), limit_of_file(folder + "/memory.high"));
    return left_in(folder, limit, number_of_file(folder + "/memory.current"), "");
  }
  const Bytes limit = limit_of_file(folder + "/memory.limit_in_bytes");
  return left_in(folder, limit, number_of_file(folder + "/memory.usage_in_bytes"), "total_");
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<MemoryGroup> find_memory_groups(const std::string& cgroup, const std::string& mountinfo) {
  std::vector<MemoryGroup> groups;
  for (const std::string& line : split(cgroup, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);  // "4:memory:/path", "0::/path"
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has(split(controllers, ','), "memory")) continue;
    for (const Mount& mount : find_mounts(mountinfo, controllers.empty())) {
      add_groups(mount, line.substr(second + 1), controllers.empty(), groups);
    }
  }
  return groups;
}

TightestGroup tightest_memory_group(const std::string& root) {
  TightestGroup tightest;
  const auto groups =
      find_memory_groups(text_of_file(root + "/proc/self/cgroup"), text_of_file(root + "/proc/self/mountinfo"));
  for (const MemoryGroup& group : groups) {
    const Bytes left = left_in(group, root);
    if (left == kNone || (tightest.left_bytes >= 0 && left >= tightest.left_bytes)) continue;
    tightest = {.left_bytes = left, .folder = group.folder};
  }
  return tightest;
}

Bytes memory_left_by_groups(const std::string& root) {
  return tightest_memory_group(root).left_bytes;
}

}  // namespace tidemark
