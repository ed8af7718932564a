#pragma once
// Pinned host memory for the cuda back end: pages of our own registered with the driver, or the driver's own pages
// where registering is not possible or fails.
// Threads: any; the slow parts run outside the lock.

#include <map>
#include <mutex>
#include <optional>

#include "core/bytes.h"
#include "device/cuda_driver.h"

namespace tidemark::cuda {

class PinnedMemory {
 public:
  struct Wish {
    Bytes bytes = 0;
    int numa_node = -1;
    int touch_threads = 1;
    bool may_register = false;
  };

  /// REQUIRES: `driver` outlives this; its context is current in every function but has().
  explicit PinnedMemory(const Driver& driver) : driver_(driver) {}

  [[nodiscard]] Code allocate(const Wish& wish, Address& address);
  [[nodiscard]] bool has(Address address) const;
  /// REQUIRES: has(address).
  [[nodiscard]] Code free(Address address);
  void clear();

 private:
  struct Block {
    bool registered = false;
  };
  [[nodiscard]] Code give_back(Address address, Block block);

  const Driver& driver_;
  mutable std::mutex mutex_;
  std::map<Address, Block> blocks_;
};

}  // namespace tidemark::cuda
