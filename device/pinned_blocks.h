#pragma once
// Pinned host memory of a vendor's device: pages of our own (device/host_pages.h) registered with the vendor, or the
// vendor's own pages where registering is not possible or fails; which of the two is in facts().
// Threads: any; the slow parts run outside the lock.

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "device/host_pages.h"

namespace tidemark {

/// A vendor's calls; each answers the vendor's code, 0 for success.
struct PinnedCalls {
  std::function<int(void* pages, std::size_t bytes)> register_pages;  ///< empty: allocate() only
  std::function<int(void* pages)> unregister_pages;
  std::function<int(void** pages, std::size_t bytes)> allocate;
  std::function<int(void* pages)> free;
  int no_memory = 0;  ///< the vendor's code where the machine has no pages left; not 0
};

class PinnedBlocks {
 public:
  explicit PinnedBlocks(PinnedCalls calls) : calls_(std::move(calls)) {}

  /// Why so much would leave the machine too little (HostPagesOptions::keep_free_bytes); empty: there is room. To be
  /// asked before allocate(), since vendors give whatever the system gives.
  [[nodiscard]] static std::string no_room(const HostPagesOptions& wish);
  /// The vendor's code. `use_register` false: the vendor's own pages at once. They also serve where the vendor refuses
  /// to register ours, but not where the machine has no pages for us.
  [[nodiscard]] int allocate(const HostPagesOptions& wish, bool use_register, Address& address);
  /// Whether all of [at, at + bytes) lies in one block.
  [[nodiscard]] bool covers(Address at, Bytes bytes) const;
  [[nodiscard]] bool has(Address address) const;
  [[nodiscard]] PinnedFacts facts(Address address) const;
  /// REQUIRES: has(address). Where the vendor refuses, the block stays, unless `lost`: then it goes whatever the
  /// answer.
  [[nodiscard]] int free(Address address, bool lost);
  /// Gives everything back, whatever the vendor answers.
  void clear();

 private:
  struct Block {
    Bytes bytes = 0;  ///< as asked for
    HostPages pages;  ///< empty: the vendor's own
    PinnedFacts facts;
  };
  [[nodiscard]] bool register_own(HostPages pages, Block& block) const;
  [[nodiscard]] int use_vendors(const HostPagesOptions& wish, Block& block, Address& address) const;
  [[nodiscard]] int give_back(Address address, const Block& block) const;

  const PinnedCalls calls_;
  mutable std::mutex mutex_;
  std::map<Address, Block> blocks_;
};

}  // namespace tidemark
