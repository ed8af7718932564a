#pragma once
// A model of PyTorch's CUDACachingAllocator, to compare with: the same decisions on the same requests, hence the same
// reserved bytes. Written from its described behaviour, and equal to the byte to what torch_npu's
// allocator, its descendant, reserved in three recorded runs (tests/integrations/replay_test.cc); not meant to be fast
// or to be used for anything else.
//
//   rounding   requests, with the device's tail pad, to 512 B; up to 1 MiB they come from the small pool, above from
//   the large one segments   small pool 2 MiB; large pool 20 MiB below 10 MiB requests, else the request rounded to 2
//   MiB search     best fit by (size, address) within one pool and stream; a block is only ever reused on its own
//   stream split      if 512 B or more remain (small pool, expandable segments), else if more than 1 MiB remains and
//   the request
//              is below max_split; a block of at least max_split serves no request below it, nor one more than 20 MiB
//              smaller
//   free       merges with free neighbours of the segment; segments go back only when the device refuses one more
//   streams    record_stream(): free records one event on every stream that used the block; the block is parked until a
//              later allocate() finds them complete
//   refused    first the smallest cached segment that would do (if max_split is set), then every cached one after
//   waiting
//              for all parked blocks, then out of memory
//
// expandable: one segment per pool and stream in 1 1/8 of the device's memory as address space, backed in granules of
// 2 MiB (small) or 20 MiB (large) from the left as it grows. Free granules go back when the device refuses one more.
//
// Threads: calls must not overlap. Errors: DeviceCode of the device where it is not out_of_memory.

#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

class BaselineAllocator {
 public:
  struct Options {
    bool expandable = false;  ///< needs traits().mapping
    Bytes max_split_bytes = std::int64_t{1} << 62;
    Bytes segment_space_bytes = 0;  ///< addresses of an expandable segment; 0: 1 1/8 of the device's memory
  };

  struct Counts {
    Bytes allocated_bytes = 0;  ///< of blocks (rounded requests) that are not freed
    Bytes active_bytes = 0;     ///< those and parked ones
    Bytes reserved_bytes = 0;   ///< taken from the device
    Bytes peak_allocated_bytes = 0;
    Bytes peak_active_bytes = 0;
    Bytes peak_reserved_bytes = 0;
    std::int64_t segments = 0;       ///< taken from the device, ever (expandable: granules)
    std::int64_t alloc_retries = 0;  ///< times the cache was given back
    std::int64_t out_of_memory = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  /// `device` outlives the allocator.
  BaselineAllocator(Device& device, const Options& options);
  /// Everything goes back to the device, blocks in use included.
  ~BaselineAllocator();
  BaselineAllocator(const BaselineAllocator&) = delete;
  BaselineAllocator& operator=(const BaselineAllocator&) = delete;

  /// REQUIRES: bytes > 0. out_of_memory leaves the state as it was but for cached segments.
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address);
  /// REQUIRES: an address from allocate(), freed once.
  void free(Address address);
  /// The block is also used on `stream`: its reuse waits for what is submitted there by the time it is freed.
  void record_stream(Address address, StreamHandle stream);
  /// Gives cached segments (expandable: whole free granules) back, after waiting for parked blocks.
  void empty_cache();

  [[nodiscard]] const Counts& counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidemark::allocator
