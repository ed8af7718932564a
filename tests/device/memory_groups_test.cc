// Limits of nested groups, over texts and over trees of files as Slurm, systemd and containers make them.
#include "device/memory_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "device/host_pages.h"

namespace tidemark {
namespace {

using namespace literals;

constexpr const char* kVersion2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kVersion1 =
    "29 23 0:25 / /sys/fs/cgroup ro,nosuid shared:4 - tmpfs tmpfs ro,mode=755\n"
    "35 29 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
    "36 29 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct\n";

std::vector<std::string> folders(const std::string& cgroup, const std::string& mountinfo) {
  std::vector<std::string> found;
  for (const MemoryGroup& group : find_memory_groups(cgroup, mountinfo)) found.push_back(group.folder);
  return found;
}

using Folders = std::vector<std::string>;

TEST(MemoryGroups, AreTheProcesssOwnAndAllAboveIt) {
  EXPECT_EQ(folders("0::/system.slice/slurm/job_7\n", kVersion2),
            (Folders{"/sys/fs/cgroup/system.slice/slurm/job_7", "/sys/fs/cgroup/system.slice/slurm",
                     "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(folders("0::/\n", kVersion2), Folders{"/sys/fs/cgroup"});
}

TEST(MemoryGroups, OfVersion1AreThoseOfTheMemoryController) {
  EXPECT_EQ(folders("8:cpu,cpuacct:/other\n4:memory:/slurm/uid_1\n1:name=systemd:/x\n", kVersion1),
            (Folders{"/sys/fs/cgroup/memory/slurm/uid_1", "/sys/fs/cgroup/memory/slurm", "/sys/fs/cgroup/memory"}));
}

/// A container without a namespace of groups: its group is mounted, and its name is what the host calls it.
TEST(MemoryGroups, BelowAMountedGroupAreNamedFromThere) {
  const std::string mountinfo = "9 8 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(folders("0::/docker/ab/inner\n", mountinfo), (Folders{"/sys/fs/cgroup/inner", "/sys/fs/cgroup"}));
  EXPECT_EQ(folders("0::/docker/ab\n", mountinfo), Folders{"/sys/fs/cgroup"});
  EXPECT_EQ(folders("0::/docker/abc\n", mountinfo), Folders{"/sys/fs/cgroup"}) << "another group";
  EXPECT_EQ(folders("0::/../elsewhere\n", kVersion2), Folders{"/sys/fs/cgroup"}) << "outside the namespace";
}

TEST(MemoryGroups, MountPointsMayHaveBlanks) {
  EXPECT_EQ(folders("0::/a\n", "9 8 0:26 / /my\\040groups rw - cgroup2 none rw\n"),
            (Folders{"/my groups/a", "/my groups"}));
}

TEST(MemoryGroups, TextsWithoutSenseHaveNone) {
  for (const char* text : {"", "\n", "0:", ":::", "0::/a", "x\n- - -\n", "1 2 3 4 5 6 - cgroup2\n"}) {
    EXPECT_EQ(folders(text, text), Folders{}) << text;
    EXPECT_LE(folders("0::/a\n", text).size(), 0U) << text;
  }
}

class MemoryLimits : public ::testing::Test {
 protected:
  MemoryLimits() : root_(std::filesystem::temp_directory_path() / ("tidemark_groups_" + std::to_string(getpid()))) {}
  ~MemoryLimits() override { std::filesystem::remove_all(root_); }
  void add(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void add(const std::string& path, Bytes value) const { add(path, std::to_string(value) + "\n"); }
  void add_process(const std::string& cgroup, const std::string& mountinfo) const {
    add("proc/self/cgroup", cgroup);
    add("proc/self/mountinfo", mountinfo);
  }
  [[nodiscard]] Bytes left() const { return memory_left_by_groups(root_.string()); }
  [[nodiscard]] AvailableMemory available() const { return available_host_memory(root_.string()); }

 private:
  const std::filesystem::path root_;
};

TEST_F(MemoryLimits, OfAMachineWithoutGroupsAreNone) {
  EXPECT_EQ(left(), -1);
  add_process("0::/a\n", kVersion2);
  EXPECT_EQ(left(), -1) << "the mount has no files";
}

/// Slurm bounds the job, not the step; systemd bounds a slice above both.
TEST_F(MemoryLimits, AreTheLeastOfTheGroupAndThoseAboveIt) {
  add_process("0::/slurm/job_7/step_0\n", kVersion2);
  add("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  add("sys/fs/cgroup/slurm/job_7/step_0/memory.current", 1_GiB);
  EXPECT_EQ(left(), -1);
  add("sys/fs/cgroup/slurm/job_7/memory.max", 8_GiB);
  add("sys/fs/cgroup/slurm/job_7/memory.current", 3_GiB);
  EXPECT_EQ(left(), 5_GiB);
  add("sys/fs/cgroup/slurm/memory.max", 64_GiB);
  add("sys/fs/cgroup/slurm/memory.current", 62_GiB);
  EXPECT_EQ(left(), 2_GiB) << "other jobs use it";
  add("sys/fs/cgroup/slurm/job_7/step_0/memory.max", 512_MiB);
  EXPECT_EQ(left(), 0) << "above its limit already";
}

/// The figure comes with where it comes from, which is what a user can change.
TEST_F(MemoryLimits, ThatAreBelowTheMachinesNameTheirGroup) {
  add_process("0::/slurm/job_7\n", kVersion2);
  add("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  EXPECT_EQ(available().text(), "8.00 GiB available");
  add("sys/fs/cgroup/slurm/job_7/memory.max", 32_GiB);
  add("sys/fs/cgroup/slurm/job_7/memory.current", 1_GiB);
  EXPECT_EQ(available().text(), "8.00 GiB available") << "the machine has less";
  add("sys/fs/cgroup/slurm/memory.max", 4_GiB);
  add("sys/fs/cgroup/slurm/memory.current", 1_GiB);
  EXPECT_EQ(available().text(), "3.00 GiB available (limit of memory group /sys/fs/cgroup/slurm)");
}

TEST_F(MemoryLimits, HighIsALimitToo) {
  add_process("0::/job\n", kVersion2);
  add("sys/fs/cgroup/job/memory.max", 8_GiB);
  add("sys/fs/cgroup/job/memory.high", 6_GiB);
  add("sys/fs/cgroup/job/memory.current", 1_GiB);
  EXPECT_EQ(left(), 5_GiB);
}

/// A job that has read a large file is at its limit, and all of it is there to be had.
TEST_F(MemoryLimits, CachedFilesAreThereToBeHad) {
  add_process("0::/job\n4:memory:/old\n", std::string(kVersion2) + kVersion1);
  add("sys/fs/cgroup/job/memory.max", 8_GiB);
  add("sys/fs/cgroup/job/memory.current", 8_GiB);
  add("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 3221225472\nactive_file 1073741824\nshmem 5\n");
  EXPECT_EQ(left(), 4_GiB);
  add("sys/fs/cgroup/memory/old/memory.limit_in_bytes", 2_GiB);
  add("sys/fs/cgroup/memory/old/memory.usage_in_bytes", 2_GiB);
  add("sys/fs/cgroup/memory/old/memory.stat", "inactive_file 9\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
  EXPECT_EQ(left(), 1_GiB);
}

TEST_F(MemoryLimits, OfVersion1AreTheLeastAsWell) {
  add_process("4:memory:/slurm/job\n", kVersion1);
  add("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712);
  add("sys/fs/cgroup/memory/memory.usage_in_bytes", 100_GiB);
  EXPECT_EQ(left(), -1);
  add("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", 4_GiB);
  add("sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", 1_GiB);
  add("sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", 9223372036854771712);
  add("sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", 1_GiB);
  EXPECT_EQ(left(), 3_GiB);
}

/// Whatever this machine has.
TEST(MemoryLimitsHere, AreInTheMemoryThatIsAvailable) {
  const Bytes left = memory_left_by_groups();
  EXPECT_GE(left, -1);
  if (left >= 0) {
    EXPECT_LE(available_host_bytes(), left + 1_GiB) << "others come and go";
  }
}

}  // namespace
}  // namespace tidemark
