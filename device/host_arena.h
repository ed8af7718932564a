#pragma once
// The "device memory" of the host back end: granules of one memory file behind reserved address space, and plain
// mappings beside them, all against one capacity.
//
// The file is as large as the capacity but sparse: a granule has pages from the moment it is mapped (the file gets them
// then, so that a machine without memory answers out_of_memory instead of killing the process later) until its last
// address is gone (the hole is punched, so the next user finds zeros).
//
// A forked process has the bytes as they were, and neither process sees what the other writes from then on, as with any
// memory: before a fork every granule's mapping becomes a private one (pages are copied as they are written), and
// behind it both processes go on with a file of their own. What an alias of such a granule shows is no longer the same
// bytes. The old file's pages stay until both have let go of what they had.
//
// Cost: a system call or three a granule at map and unmap. Threads: any; one lock of its own over the books.

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

  // Around a fork, for every arena. The lock is held from the first to the second.
  void before_fork();
  void after_fork();

 private:
  struct Attached {
    std::uint64_t handle = 0;
    bool is_private = false;  ///< its bytes are there, and not in the file
  };

  [[nodiscard]] bool take_room(Bytes bytes);
  [[nodiscard]] Address find_private(std::uint64_t handle) const;
  [[nodiscard]] bool granules_attached(Address at, Bytes bytes) const;

  const Bytes capacity_bytes_;
  const Bytes granule_bytes_;
  ErrorTexts& errors_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> spare_;  ///< granules given back; the last one is used first
  std::uint64_t fresh_ = 0;           ///< the first granule of the file that was never used
  std::map<Address, Attached> attached_;
  std::map<Address, Bytes> plain_;  ///< whole pages
  Bytes used_bytes_ = 0;
  Bytes room_bytes_ = 0;  ///< what may be taken before the machine is asked again
};

}  // namespace tidemark
