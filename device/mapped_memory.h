#pragma once
// Mapped memory over vendors that map and unmap whole physical handles only (CUDA and ACL both do): one handle per
// granule, its addresses counted, every change all or nothing: what a failure interrupts is put back, and where the
// vendor refuses that too, the device is lost. The vendor is reached through GranuleVendor, a granule at a time. A
// handle that nothing shows any more and that the vendor would not destroy is kept: the next unmap() tries again, and
// map() uses it before it asks for new ones.
//
// Cost: one vendor call or two per granule, a word of host memory per reserved granule. Never on the hot path.
// Threads: any; one lock over all of it, held during vendor calls.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace tidemark {

/// A vendor's calls for mapped memory. Each answers ok or what Device's function of that purpose may answer. A call
/// that fails has changed nothing. On a lost device release_range, destroy_granule and detach_granule answer ok.
class GranuleVendor {
 public:
  virtual DeviceCode reserve_range(Bytes bytes, Address& base) = 0;
  virtual DeviceCode release_range(Address base, Bytes bytes) = 0;
  virtual DeviceCode create_granule(std::uint64_t& handle) = 0;
  virtual DeviceCode destroy_granule(std::uint64_t handle) = 0;
  virtual DeviceCode attach_granule(Address at, std::uint64_t handle) = 0;
  virtual DeviceCode detach_granule(Address at) = 0;
  /// Makes what was attached accessible.
  virtual DeviceCode allow_range(Address at, Bytes bytes) = 0;
  /// Keeps `text` as the thread's last error; returns `code`. With `lost`, the device is lost from now on.
  virtual DeviceCode refuse(DeviceCode code, std::string text) = 0;

 protected:
  ~GranuleVendor() = default;
};

class MappedMemory {
 public:
  /// `aliasing`: a handle may be attached at several addresses at once. REQUIRES: `vendor` outlives this.
  MappedMemory(GranuleVendor& vendor, bool aliasing) : vendor_(vendor), aliasing_(aliasing) {}
  void set_granule(Bytes bytes) { granule_bytes_ = bytes; }

  // As the functions of Device.
  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base);
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes);
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes);
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes);
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes);
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes);

  /// Gives everything back, whatever the vendor answers.
  void clear();

  // Around a fork (device/fork_handlers.h): no call of the vendor is under way while the lock is held.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Handle {
    std::uint64_t vendor = 0;
  };
  using Granule = std::shared_ptr<const Handle>;  ///< as many owners as the handle has addresses
  struct Reservation {
    Bytes bytes = 0;
    std::vector<Granule> granules;  ///< null where nothing is mapped
  };
  using Slots = std::span<Granule>;

  [[nodiscard]] bool find_slots(Address at, Bytes bytes, Slots& slots);
  [[nodiscard]] DeviceCode check(Address at, Bytes bytes, bool mapped, Slots& slots);
  [[nodiscard]] DeviceCode create(std::size_t count, std::vector<Granule>& made);
  [[nodiscard]] DeviceCode attach_all(Address at, std::span<const Granule> granules);
  [[nodiscard]] DeviceCode detach_all(Address at, std::span<const Granule> granules);
  DeviceCode undo_attach(Address at, std::size_t count, DeviceCode code);
  [[nodiscard]] DeviceCode move(Address at, Address source, std::span<const Granule> granules);
  [[nodiscard]] DeviceCode move_by_alias(Address at, Address source, std::span<const Granule> granules);
  DeviceCode lose(Address at);
  void drop(Granule granule);
  void drop_spare();

  GranuleVendor& vendor_;
  const bool aliasing_;
  Bytes granule_bytes_ = 0;
  std::mutex mutex_;
  std::map<Address, Reservation> reservations_;
  std::size_t handles_ = 0;     ///< that exist
  std::vector<Granule> spare_;  ///< attached nowhere, and not destroyed when it was asked for; has room for all handles
};

}  // namespace tidemark
