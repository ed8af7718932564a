#pragma once
// The "device memory" of the host back end: granules of one memory file behind reserved address space, and plain
// mappings beside them, all against one capacity.
//
// The file is as large as the capacity but sparse: a granule has pages from the moment it is mapped (the file gets them
// then, so that a machine without memory answers out_of_memory instead of killing the process later) until its last
// address is gone (the hole is punched, so the next user finds zeros).
//
// Forks. A mapping of the file is shared with forked processes, too: one would see what the other writes. So what lives
// is copied before a fork into a second file, which the child maps in place of the first at the same addresses; aliases
// show the same bytes there as well. The parent goes on with its own file as if there had been no fork. Private
// mappings (copied page by page as either writes) would save the copy and lose bytes: no granule of the parent could
// get a second address again, because bytes that other threads write cannot be carried back into a file. A fork costs
// the time to copy what lives, and the child that much memory, without pages that hold zeros only. Where the machine
// has too little, the child has no device: a touch is a fault and calls answer `lost`. Plain mappings are private, and
// copied page by page.
//
// Reserve. Whatever would leave less than 256 MiB of the memory that the machine, or any memory group of the process,
// has left (available_host_bytes() in device/host_pages.h) is refused: granules, plain mappings and a fork's copy. The
// machine is asked again every 64 MiB.
//
// Cost: a system call or three a granule at map and unmap. Threads: any; one lock of its own over the books.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/result.h"
#include "device/device.h"
#include "device/error_texts.h"
#include "device/mapped_memory.h"

namespace tidemark {

class HostArena final : public GranuleVendor {
 public:
  /// `errors` outlives this. REQUIRES: granule_bytes a multiple of the page size, capacity_bytes of granule_bytes.
  HostArena(Bytes capacity_bytes, Bytes granule_bytes, ErrorTexts& errors);
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// Makes the file. Before anything else, once.
  [[nodiscard]] Status open();

  DeviceCode reserve_range(Bytes bytes, Address& base) override;
  DeviceCode release_range(Address base, Bytes bytes) override;
  DeviceCode create_granule(std::uint64_t& handle) override;
  DeviceCode destroy_granule(std::uint64_t handle) override;
  DeviceCode attach_granule(Address at, std::uint64_t handle) override;
  DeviceCode detach_granule(Address at) override;
  DeviceCode allow_range(Address at, Bytes bytes) override;
  DeviceCode refuse(DeviceCode code, std::string text) override;

  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address);
  [[nodiscard]] DeviceCode free_plain(Address address);

  [[nodiscard]] MemoryInfo info() const;
  /// Whether work may touch the range: all of it mapped, or inside one plain allocation.
  [[nodiscard]] bool accessible(Address at, Bytes bytes) const;

  // Around a fork; the lock is held from the first to one of the others. REQUIRES: no call of GranuleVendor is under
  // way, which use the file without the lock (the lock of MappedMemory is held).
  void before_fork();
  void after_fork_in_parent();
  /// False: there was too little memory to copy what lives, and nothing is accessible.
  [[nodiscard]] bool after_fork_in_child();

 private:
  [[nodiscard]] bool take_room(Bytes bytes);
  [[nodiscard]] off_t place_of(std::uint64_t handle) const;
  [[nodiscard]] bool map_granule(Address at, std::uint64_t handle) const;
  [[nodiscard]] bool hide_granule(Address at) const;
  [[nodiscard]] bool copy_granule(Address from, std::uint64_t handle);
  [[nodiscard]] bool copy_all();
  [[nodiscard]] bool granules_attached(Address at, Bytes bytes) const;

  const Bytes capacity_bytes_;
  const Bytes granule_bytes_;
  ErrorTexts& errors_;
  int file_ = -1;
  int childs_file_ = -1;  ///< around a fork
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> spare_;           ///< destroyed granules; the last one is used first
  std::uint64_t fresh_ = 0;                    ///< the first granule of the file that was never used
  std::map<Address, std::uint64_t> attached_;  ///< the granule at each address
  std::map<Address, Bytes> plain_;             ///< whole pages
  Bytes used_bytes_ = 0;
  Bytes room_bytes_ = 0;  ///< what may be taken before the machine is asked again
};

}  // namespace tidemark
