#pragma once
// Address spaces of a simulated device: which address has memory behind it, and which memory that is.
//
// "Memory" is a number in a space without limits. A granule normally gets the number of its address, so that mappings
// made piece by piece form one run; only after alias or remap the two differ (`view` = address - memory). Plain and
// pinned allocations are runs of their own. Addresses of reservations, plain and pinned memory are never given out
// twice, and unused ones lie between them, so that stray accesses hit nothing.
// Cost: a look-up in a tree of runs, mostly answered by the run hit last. Threads: the caller serialises.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.h"

namespace tidemark {

enum class SimMemoryKind : std::uint8_t { mapped, plain, pinned };

/// A piece of an address range and the memory behind it.
struct SimPiece {
  Address address = 0;
  Bytes bytes = 0;
  Address memory = 0;
  bool present = true;  ///< false: nothing there
  [[nodiscard]] std::int64_t view() const { return static_cast<std::int64_t>(address - memory); }
};

class SimMemory {
 public:
  struct Limits {
    Bytes capacity_bytes = 0;
    Bytes pinned_capacity_bytes = 0;  ///< 0: none
    Bytes granule_bytes = 0;
    Bytes alignment_bytes = 0;
  };
  explicit SimMemory(const Limits& limits) : limits_(limits) {}

  struct Usage {
    Bytes mapped = 0, plain = 0, pinned = 0;
    Bytes peak_device = 0, peak_pinned = 0;
  };
  [[nodiscard]] const Usage& usage() const { return usage_; }
  void restart_peaks();
  void set_capacity(Bytes bytes) { limits_.capacity_bytes = bytes; }
  [[nodiscard]] Bytes capacity() const { return limits_.capacity_bytes; }

  // As in device.h; what changed hands comes back in `pieces` (appended).
  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base);
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes);
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes, SimPiece& added);
  /// `dropped`: addresses that went away; present where their memory went with them.
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes, std::vector<SimPiece>& dropped);
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes);
  /// `moved`: the pieces as they were.
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes, std::vector<SimPiece>& moved);
  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address);
  [[nodiscard]] DeviceCode allocate_pinned(Bytes bytes, Address& address);
  [[nodiscard]] DeviceCode free_whole(Address address, SimMemoryKind kind, SimPiece& freed);

  /// The memory behind [at, at + bytes), in order. Replaces `pieces`. Absent pieces are included; their `memory` is the
  /// address, which may be the number of memory that lives on elsewhere: look at `present` first.
  void translate(Address at, Bytes bytes, std::vector<SimPiece>& pieces) const;
  /// Whether it is an address of the host's space (pinned); otherwise it is one of the device's.
  [[nodiscard]] bool is_pinned(Address at) const;
  /// False: a plain or pinned allocation has `at` but not all of [at, at + bytes).
  [[nodiscard]] bool stays_inside(Address at, Bytes bytes) const;
  [[nodiscard]] std::string last_problem() const { return problem_; }
  [[nodiscard]] std::string leaks() const;  ///< "2 plain allocations of 4.00 KiB, ..."; empty: none

 private:
  struct Run {
    Bytes bytes = 0;
    Address memory = 0;
    SimMemoryKind kind = SimMemoryKind::mapped;
  };
  using Runs = std::map<Address, Run>;
  DeviceCode fail(DeviceCode code, std::string problem);
  [[nodiscard]] bool aligned(Address at, Bytes bytes) const;
  [[nodiscard]] bool reserved(Address at, Bytes bytes) const;
  [[nodiscard]] bool empty(Address at, Bytes bytes) const;
  [[nodiscard]] bool fully_mapped(Address at, Bytes bytes) const;
  [[nodiscard]] DeviceCode check_target(Address at, Bytes bytes);
  void insert(Address at, const Run& run);
  void cut(Address at);
  void erase(Address at, Bytes bytes);
  void take_address(const SimPiece& piece, std::vector<SimPiece>& dropped);
  void count_device(Bytes mapped, Bytes plain);

  Limits limits_;
  Usage usage_;
  Runs runs_;
  std::map<Address, Bytes> reservations_;
  /// Memory granule -> its addresses, where there are several. Looked up alone, so in no order.
  std::unordered_map<Address, std::int32_t> addresses_of_;
  std::set<Address> displaced_;  ///< memory granules in use that are not behind the address they name
  Address next_device_ = Address{1} << 40;
  Address next_pinned_ = Address{1} << 46;
  Address next_memory_ = Address{1} << 52;  ///< numbers for granules whose own is taken
  std::string problem_;
  struct Hit {
    Address begin = 1, end = 0;
    Address memory = 0;
  };
  mutable std::array<Hit, 2> hits_;  ///< device, pinned
};

}  // namespace tidemark
