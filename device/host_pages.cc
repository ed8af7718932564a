#include "device/host_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <numa.h>
#include <numaif.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "device/binding_plan.h"
#include "device/memory_groups.h"
#include "device/page_nodes.h"
#include "device/process_binding.h"

namespace tidemark {
namespace {

constexpr Bytes kHugePage = 2 * kMiB;
/// A thread takes pieces of this size. Small, for two reasons: the last ones decide how long the others wait for a slow
/// thread, and a piece holds the lock of the address space, which a thread that starts (its stack) has to wait for.
constexpr Bytes kTouchPiece = 4 * kMiB;

Bytes page_bytes() {
  static const Bytes bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

std::string text_of_errno(int number) {
  return std::error_code(number, std::generic_category()).message();
}

/// `MemAvailable` of /proc/meminfo; -1: not there.
Bytes machine_available_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  Bytes kib = 0;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * kKiB;
  }
  return -1;
}

/// An anonymous mapping whose start is a multiple of `alignment`. nullptr: refused, errno says why.
void* map_aligned(Bytes bytes, Bytes alignment) {
  const Bytes all = bytes + alignment - page_bytes();
  void* const mapped = mmap(nullptr, static_cast<std::size_t>(all), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(mapped);
  const auto address = reinterpret_cast<Address>(begin);
  const auto step = static_cast<Address>(alignment);
  const Bytes before = static_cast<Bytes>((step - address % step) % step);
  if (before > 0) munmap(begin, static_cast<std::size_t>(before));
  if (const Bytes after = all - before - bytes; after > 0)
    munmap(begin + before + bytes, static_cast<std::size_t>(after));
  return begin + before;
}

void add_fact(PinnedFacts& facts, bool& flag, std::string why) {
  flag = false;
  facts.explanation += facts.explanation.empty() ? "" : "; ";
  facts.explanation += why;
}

void ask_for_huge_pages(void* data, Bytes bytes, PinnedFacts& facts) {
  if (bytes < kHugePage) return;
  if (madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE) == 0) return;
  add_fact(facts, facts.huge_pages, fmt::format("no huge pages: {}", text_of_errno(errno)));
}

/// Transparent huge pages may be switched off although madvise() answers 0.
void check_huge_pages_enabled(PinnedFacts& facts) {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  if (!std::getline(file, text)) {
    add_fact(facts, facts.huge_pages, "no huge pages: the kernel has none");
  } else if (text.find("[never]") != std::string::npos) {
    add_fact(facts, facts.huge_pages, "no huge pages: transparent_hugepage/enabled is never");
  }
}

/// Argument of the ioctl PAGEMAP_SCAN (Linux 6.7), after Documentation/admin-guide/mm/pagemap.rst; the C library's
/// headers may not know it.
struct PageScan {
  struct Region {
    std::uint64_t start = 0, end = 0, categories = 0;
  };
  std::uint64_t size = sizeof(PageScan), flags = 0;
  std::uint64_t start = 0, end = 0, walk_end = 0;
  std::uint64_t regions = 0, region_count = 0, max_pages = 0;
  std::uint64_t inverted = 0, all_of = 0, any_of = 0, returned = 0;
};
static_assert(sizeof(PageScan) == 96 && sizeof(PageScan::Region) == 24);
constexpr unsigned long kScanPages = _IOWR('f', 16, PageScan);
constexpr std::uint64_t kIsHuge = 1U << 6;

/// How much of a populated range is in small pages; -1: this kernel does not say.
Bytes small_page_bytes(Address begin, Address end) {
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  std::array<PageScan::Region, 64> found;
  PageScan scan{.start = begin, .end = end};
  scan.regions = reinterpret_cast<std::uint64_t>(found.data());
  scan.region_count = found.size();
  scan.inverted = scan.all_of = kIsHuge;
  scan.returned = kIsHuge;
  Bytes small = 0;
  for (int count = 1; small >= 0 && scan.start < end && count > 0; scan.start = scan.walk_end) {
    count = ioctl(file, kScanPages, &scan);
    if (count < 0) small = -1;
    for (int i = 0; i < count; ++i) {
      const PageScan::Region& region = found[static_cast<std::size_t>(i)];
      small += static_cast<Bytes>(region.end - region.start);
    }
  }
  close(file);
  return small;
}

/// What was asked for is not always what came: without whole huge pages left, the kernel takes small ones in silence.
void check_huge_pages_came(Address at, Bytes bytes, PinnedFacts& facts) {
  const Bytes small = small_page_bytes(at, at + static_cast<Address>(bytes / kHugePage * kHugePage));
  if (small <= 0) return;
  add_fact(facts, facts.huge_pages,
           fmt::format("{} of {} are in small pages: the kernel had no more huge ones", format_bytes(small),
                       format_bytes(bytes)));
}

/// 0, or the errno.
int bind_pages(void* data, Bytes bytes, int node) {
  bitmask* const nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(node));
  const long answer = mbind(data, static_cast<unsigned long>(bytes), MPOL_BIND, nodes->maskp, nodes->size + 1, 0);
  const int number = errno;
  numa_bitmask_free(nodes);
  return answer == 0 ? 0 : number;
}

/// The node with memory that is nearest to one without, or to one whose memory the process may not use; -1: unknown.
int nearest_memory(int node) {
  const Result<HostTopology> host = read_host_topology();
  const Result<ProcessPlaces> places = read_own_places();
  if (!host || !places) return -1;
  return plan_binding(host.value(), places.value(), {{.name = "", .node = node}}).ranks.front().memory_node;
}

void bind_to_node(void* data, Bytes bytes, int node, PinnedFacts& facts) {
  if (numa_available() < 0) return add_fact(facts, facts.numa_bound, "not bound: the kernel knows no NUMA nodes");
  if (node > numa_max_node()) {
    return add_fact(facts, facts.numa_bound, fmt::format("not bound: there is no NUMA node {}", node));
  }
  if (numa_node_count() == 1) return;  // everything is on it
  const int number = bind_pages(data, bytes, node);
  if (number == 0) return;
  add_fact(facts, facts.numa_bound, fmt::format("not bound to NUMA node {}: {}", node, text_of_errno(number)));
  const int other = nearest_memory(node);
  if (other < 0 || other == node || bind_pages(data, bytes, other) != 0) return;
  facts.explanation += fmt::format("; bound to node {}, the nearest with memory for this process", other);
}

/// What was asked for is not always what came: pages that are there already stay where they are.
void check_pages_came_to_node(const void* data, Bytes bytes, int node, PinnedFacts& facts) {
  const std::string away = find_page_nodes(data, bytes).misplaced(node);
  if (!away.empty()) add_fact(facts, facts.numa_bound, fmt::format("{} instead of {}", away, node));
}

/// 0, or the errno of the first failure. Threads on the node's CPUs, whether binding was possible or not: pages that
/// are not bound come from where they are touched first.
int touch(char* data, Bytes bytes, int threads, int node) {
  std::atomic<Bytes> next{0};
  std::atomic<int> failure{0};
  const auto work = [&] {
    for (Bytes at = next.fetch_add(kTouchPiece); at < bytes && failure.load() == 0; at = next.fetch_add(kTouchPiece)) {
      if (const int error = populate_pages(data + at, std::min(kTouchPiece, bytes - at)); error != 0)
        failure.store(error);
    }
  };
  const bool near = !runs_within(node);
  std::vector<std::thread> helpers;
  try {
    for (int i = near ? 0 : 1; i < std::max(1, threads); ++i) {
      helpers.emplace_back([&work, near, node] {
        if (near) static_cast<void>(narrow_to_node(node));
        work();
      });
    }
  } catch (const std::exception&) {  // no more threads, or no memory for one: those that run do it all
  }
  if (!near || helpers.empty()) work();  // the caller helps, but its own placement is left alone
  for (std::thread& helper : helpers) helper.join();
  return failure.load();
}

Result<void> check_room(Bytes bytes, Bytes keep_free_bytes) {
  const AvailableMemory available = available_host_memory();
  if (bytes <= available.bytes - keep_free_bytes) return {};
  return infeasible(fmt::format("{} of host memory asked for, {}, of which {} are to stay free", format_bytes(bytes),
                                available.text(), format_bytes(keep_free_bytes)));
}

}  // namespace

Result<HostPages> HostPages::allocate(const HostPagesOptions& options) {
  if (options.bytes <= 0 || options.bytes > kTiB * 1024)
    return bad_input("host pages: a size of 1 B to 1 PiB is needed");
  const bool huge = options.huge_pages && options.bytes >= kHugePage;
  const Bytes bytes = round_up(options.bytes, page_bytes());
  if (Status room = check_room(bytes, options.keep_free_bytes); !room) return room.error();
  void* const data = map_aligned(bytes, huge ? kHugePage : page_bytes());
  if (data == nullptr) {
    return infeasible(fmt::format("cannot map {} of host memory: {}", format_bytes(bytes), text_of_errno(errno)));
  }
  HostPages pages(data, bytes, {});
  PinnedFacts& facts = pages.facts_;
  if (huge) ask_for_huge_pages(data, bytes, facts);
  if (huge && facts.huge_pages) check_huge_pages_enabled(facts);
  if (options.numa_node >= 0) bind_to_node(data, bytes, options.numa_node, facts);
  const int touched = touch(static_cast<char*>(data), bytes, options.touch_threads, options.numa_node);
  if (touched != 0) {
    return infeasible(
        fmt::format("cannot populate {} of host memory: {}", format_bytes(bytes), text_of_errno(touched)));
  }
  if (options.numa_node >= 0 && facts.numa_bound) check_pages_came_to_node(data, bytes, options.numa_node, facts);
  if (huge && facts.huge_pages) check_huge_pages_came(pages.address(), bytes, facts);
  if (options.lock && mlock(data, static_cast<std::size_t>(bytes)) != 0) {
    add_fact(facts, facts.locked, fmt::format("not locked: {}", text_of_errno(errno)));
  }
  return pages;
}

HostPages& HostPages::operator=(HostPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(facts_, other.facts_);
  return *this;
}

HostPages::~HostPages() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
}

// MADV_POPULATE_WRITE (23, Linux 5.14): the C library may not know it.
int populate_pages(void* data, Bytes bytes, int advice) {
  if (madvise(data, static_cast<std::size_t>(bytes), advice) == 0) return 0;
  if (errno != EINVAL) return errno;
  auto* const begin = static_cast<volatile char*>(data);
  for (Bytes at = 0; at < bytes; at += page_bytes()) begin[at] = begin[at];
  return 0;
}

std::string AvailableMemory::text() const {
  return format_bytes(bytes) + " available" + (limit.empty() ? "" : " (" + limit + ")");
}

AvailableMemory available_host_memory(const std::string& root) {
  const Bytes machine = machine_available_bytes(root);
  const TightestGroup group = tightest_memory_group(root);
  if (group.left_bytes >= 0 && (machine < 0 || group.left_bytes < machine))
    return {.bytes = group.left_bytes, .limit = "limit of memory group " + group.folder};
  return {.bytes = machine < 0 ? page_bytes() * sysconf(_SC_AVPHYS_PAGES) : machine, .limit = {}};
}

Bytes available_host_bytes() {
  return available_host_memory().bytes;
}

int numa_node_count() {
  static const int count = numa_available() < 0 ? 1 : std::max(1, numa_num_configured_nodes());
  return count;
}

int numa_node_of_pci(const std::string& pci_address, const std::string& sysfs) {
  const std::string name = plain_pci_address(pci_address);
  if (name.empty()) return -1;
  std::ifstream file(sysfs + "/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? node : -1;
}

}  // namespace tidemark
