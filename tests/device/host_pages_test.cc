#include "device/host_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

namespace tidemark {
namespace {

using namespace literals;

/// Pages of the range that are in memory.
std::int64_t resident_pages(const HostPages& pages) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> in_memory(static_cast<std::size_t>((pages.bytes() + page - 1) / page));
  EXPECT_EQ(mincore(pages.data(), static_cast<std::size_t>(pages.bytes()), in_memory.data()), 0);
  return std::count_if(in_memory.begin(), in_memory.end(), [](unsigned char c) { return (c & 1U) != 0; });
}

/// Linux 6.7 and later.
bool kernel_tells_page_sizes() {
  utsname kernel{};
  int major = 0, minor = 0;
  if (uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 7);
}

TEST(HostPages, EveryPageIsTouchedWhateverTheNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    for (const Bytes bytes : {1_B, 4097_B, 2_MiB, 67_MiB + 5}) {
      Result<HostPages> pages = HostPages::allocate({.bytes = bytes, .touch_threads = threads});
      ASSERT_TRUE(pages.ok()) << pages.error().message;
      EXPECT_EQ(pages.value().bytes(), round_up(bytes, sysconf(_SC_PAGESIZE)));
      EXPECT_EQ(resident_pages(pages.value()), pages.value().bytes() / sysconf(_SC_PAGESIZE));
      EXPECT_TRUE(pages.value().facts().numa_bound);
    }
  }
}

/// Kernels before 5.14 do not know MADV_POPULATE_WRITE and answer EINVAL, as every kernel does to nonsense.
TEST(HostPages, PagesAreTouchedWhereTheKernelCannotPopulate) {
  constexpr int kNoAdvice = 9999;
  const Bytes bytes = 64 * sysconf(_SC_PAGESIZE);
  const auto size = static_cast<std::size_t>(bytes);
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    auto* const data = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(data), MAP_FAILED);
    data[0] = 'x';
    ASSERT_EQ(populate_pages(data, bytes, kNoAdvice), 0);
    std::vector<unsigned char> in_memory(64);
    ASSERT_EQ(mincore(data, size, in_memory.data()), 0);
    EXPECT_EQ(std::count_if(in_memory.begin(), in_memory.end(), [](unsigned char c) { return (c & 1U) != 0; }), 64);
    EXPECT_EQ(data[0], 'x') << "what is there stays";
    munmap(data, size);
  }
}

/// AnonHugePages of the mapping [at, at + bytes), from /proc/self/smaps; -1: it is not one of its own.
Bytes huge_bytes(Address at, Bytes bytes) {
  std::ifstream smaps("/proc/self/smaps");
  char range[64] = {};
  std::snprintf(range, sizeof range, "%lx-%lx ", at, at + static_cast<Address>(bytes));
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    found = found || line.starts_with(range);
    if (found && line.starts_with("AnonHugePages:")) return std::stoll(line.substr(14)) * kKiB;
  }
  return -1;
}

/// Small pages in silence are a fact, whether madvise() was refused or the kernel ran out of huge ones.
TEST(HostPages, TheFactSaysWhetherHugePagesCame) {
  if (!kernel_tells_page_sizes()) GTEST_SKIP() << "this kernel does not say";
  Result<HostPages> pages = HostPages::allocate({.bytes = 16_MiB});
  ASSERT_TRUE(pages.ok());
  const Bytes huge = huge_bytes(pages.value().address(), 16_MiB);
  if (huge < 0) GTEST_SKIP() << "the mapping has grown together with another";
  EXPECT_EQ(pages.value().facts().huge_pages, huge == 16_MiB) << pages.value().facts().explanation;
}

/// The same where none can come: transparent huge pages are switched off for the process.
TEST(HostPages, WithoutHugePagesTheFactSaysSo) {
  if (!kernel_tells_page_sizes()) GTEST_SKIP() << "this kernel does not say";
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  Result<HostPages> pages = HostPages::allocate({.bytes = 16_MiB});
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
  ASSERT_TRUE(pages.ok());
  EXPECT_FALSE(pages.value().facts().huge_pages);
  const std::string& why = pages.value().facts().explanation;
  const bool never = why.find("transparent_hugepage/enabled is never") != std::string::npos;  // for everybody
  EXPECT_TRUE(never || why.find("16.00 MiB of 16.00 MiB") != std::string::npos) << why;
}

TEST(HostPages, LargePiecesStartAtHugePages) {
  Result<HostPages> pages = HostPages::allocate({.bytes = 5_MiB});
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(pages.value().address() % (2 * kMiB), 0U);
}

TEST(HostPages, MoreThanTheMachineHasIsRefusedUntouched) {
  const Bytes available = available_host_bytes();
  ASSERT_GT(available, 0);
  const Result<HostPages> pages = HostPages::allocate({.bytes = available + 64_GiB});
  ASSERT_FALSE(pages.ok());
  EXPECT_EQ(pages.error().code, Error::Code::infeasible);
  const Result<HostPages> kept = HostPages::allocate({.bytes = 1_MiB, .keep_free_bytes = available + 64_GiB});
  EXPECT_FALSE(kept.ok());
  EXPECT_FALSE(HostPages::allocate({.bytes = 0}).ok());
  EXPECT_FALSE(HostPages::allocate({.bytes = INT64_MAX}).ok());
}

TEST(HostPages, ANodeThatIsNotThereIsAFactNotAFailure) {
  const Result<HostPages> pages = HostPages::allocate({.bytes = 3_MiB, .numa_node = 511});
  ASSERT_TRUE(pages.ok()) << pages.error().message;
  EXPECT_FALSE(pages.value().facts().numa_bound);
  EXPECT_NE(pages.value().facts().explanation.find("511"), std::string::npos) << pages.value().facts().explanation;
}

TEST(HostPages, MovedPagesHaveOneOwner) {
  Result<HostPages> made = HostPages::allocate({.bytes = 1_MiB});
  ASSERT_TRUE(made.ok());
  HostPages a = std::move(made).value();
  const Address address = a.address();
  HostPages b = std::move(a);
  EXPECT_EQ(b.address(), address);
  HostPages c;
  c = std::move(b);
  static_cast<char*>(c.data())[kMiB - 1] = 1;
  EXPECT_EQ(c.address(), address);
}

class PciNode : public ::testing::Test {
 protected:
  PciNode() {
    root_ = std::filesystem::temp_directory_path() / ("tidemark_sysfs_" + std::to_string(getpid()));
    add("0000:3b:00.0", "1");
    add("0001:af:00.0", "3");
    add("0000:01:00.0", "-1");
  }
  ~PciNode() override { std::filesystem::remove_all(root_); }
  void add(const std::string& device, const std::string& node) const {
    const std::filesystem::path folder = root_ / "bus/pci/devices" / device;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "numa_node") << node << "\n";
  }
  [[nodiscard]] int node_of(const std::string& address) const { return numa_node_of_pci(address, root_.string()); }

  std::filesystem::path root_;
};

TEST_F(PciNode, IsFoundHoweverTheDriverPrintsTheAddress) {
  EXPECT_EQ(node_of("0000:3b:00.0"), 1);
  EXPECT_EQ(node_of("00000000:3B:00.0"), 1);
  EXPECT_EQ(node_of("3b:00.0"), 1);
  EXPECT_EQ(node_of("00000001:AF:00.0"), 3);
}

TEST_F(PciNode, IsUnknownForNonsenseAndWhereTheKernelSaysSo) {
  for (const char* address : {"0000:01:00.0", "0000:02:00.0", "", "gpu", "../../etc", "0000:3b:00.0/..", "1:2:3:4"}) {
    EXPECT_EQ(node_of(address), -1) << address;
  }
}

}  // namespace
}  // namespace tidemark
