#pragma once
// Host memory that is ready for copies: one anonymous mapping, huge pages, bound to a NUMA node, every page touched by
// several threads before it is handed out. Pinning pools ask for it chunk by chunk (allocator/pinned_pool.h); `cuda`
// and `ascend` register a chunk with their driver afterwards.
//
// Why this way. Registering memory of untouched small pages takes minutes for hundreds of GiB, because the driver
// faults page after page under a global lock; touching huge pages in parallel first makes it a matter of bandwidth. A
// buffer on the other socket costs half the link. Neither failure stops a program, so both come back as facts for the
// caller to report: what was refused, and what did not come although nothing was refused, as the kernel says it: the
// node of pages (move_pages, of up to 512 spread over the piece), and their size from 6.7 on.
//
// Bounded. A request that would leave less than `keep_free_bytes` of the machine's memory, or of that of any memory
// group of the process, is refused before anything is touched: the alternative is the kernel killing the process. Pages
// are populated by madvise(MADV_POPULATE_WRITE), which answers an error where a plain write would be a signal; older
// kernels get a write per page.
//
// Threads: allocate() and the functions may be called from any thread; an object belongs to one thread at a time.

#include <cstdint>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "core/result.h"
#include "device/device.h"

namespace tidemark {

struct HostPagesOptions {
  Bytes bytes = 0;         ///< rounded up to whole pages
  int numa_node = -1;      ///< -1: wherever the kernel likes
  int touch_threads = 2;   ///< at least 1; threads that populate, on the node's CPUs where bound and allowed
  bool huge_pages = true;  ///< ask for transparent huge pages and align to them
  bool lock = false;       ///< mlock: best effort, failure is a fact
  Bytes keep_free_bytes = 256 * kMiB;  ///< refuse rather than leave the machine, or a group, less
};

/// Pages of host memory; unmapped by the destructor. Moved-from objects are empty.
class HostPages {
 public:
  /// Errors (infeasible): too little memory left, the kernel refuses. Nothing is left behind.
  [[nodiscard]] static Result<HostPages> allocate(const HostPagesOptions& options);

  HostPages() = default;
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        facts_(std::move(other.facts_)) {}
  HostPages& operator=(HostPages&& other) noexcept;
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  ~HostPages();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] Address address() const { return reinterpret_cast<Address>(data_); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// `registered` is true here: registering is up to the owner, who corrects the fact if it fails.
  [[nodiscard]] const PinnedFacts& facts() const { return facts_; }

 private:
  HostPages(void* data, Bytes bytes, PinnedFacts facts) : data_(data), bytes_(bytes), facts_(std::move(facts)) {}

  void* data_ = nullptr;
  Bytes bytes_ = 0;
  PinnedFacts facts_;
};

/// Gives [data, data + bytes) its pages now, zeroed if they are new: madvise(MADV_POPULATE_WRITE), or a write of what
/// is there a page where the kernel does not know that. 0, or the errno. `advice` is a parameter for tests.
[[nodiscard]] int populate_pages(void* data, Bytes bytes, int advice = 23);

/// Memory that can still be taken without swapping: of the machine, or of the process's groups (device/memory_groups.h)
/// where that is less.
struct AvailableMemory {
  Bytes bytes = 0;
  std::string limit;  ///< "limit of memory group /sys/fs/cgroup/x"; empty: the machine's
  /// "1.00 GiB available", and in parentheses the limit.
  [[nodiscard]] std::string text() const;
};
/// `root` stands for "/" in tests.
[[nodiscard]] AvailableMemory available_host_memory(const std::string& root = "");
[[nodiscard]] Bytes available_host_bytes();

/// NUMA nodes with memory; 1 where the kernel knows none.
[[nodiscard]] int numa_node_count();

/// The node a PCI device hangs on, from sysfs. `pci_address` as drivers print it: "0000:3b:00.0", any case, the domain
/// may have more digits or be missing. -1: unknown. `sysfs` is a parameter for tests.
[[nodiscard]] int numa_node_of_pci(const std::string& pci_address, const std::string& sysfs = "/sys");

}  // namespace tidemark
