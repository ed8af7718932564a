#pragma once
// The back end without an accelerator: real bytes in host memory, a thread a stream, memcpy as copy engine. It runs a
// whole Program with every byte checked (Work::verify), and it is what copies are measured on without a device.
//
// Memory. "Device memory" is one memfd of capacity_bytes, cut into granules. reserve() takes address space without
// access (a stray touch is a fault, not a wrong result), map() puts free granules of the file behind it, alias() maps
// the same granules a second time, unmap() of a granule's last address releases its pages to the system. Plain
// allocations are mappings of their own and count against the same capacity. Pinned memory is device/host_pages.h:
// huge pages, NUMA node, touched in parallel, locked as far as the system lets us; it has a bound of its own.
//
// Streams. Each is one thread with a queue, first in first out. An event is its latest record
// (device/host_stream.h): record_event() queues a new one, wait_event() queues a wait for the one of that moment. So
// waits refer to the latest record at the time of the call, as CUDA does.
// Copies run on the stream they were submitted to; d2h and h2d streams work at the same time, each with copy_threads
// threads for large copies, and not above d2h_bytes_per_s and h2d_bytes_per_s where those are given.
//
// Failures of work on a stream (a fault of the plan, a copy that cannot be done) belong to the stream: what is queued
// behind is skipped, events are still reached, and synchronize_event, synchronize_stream, synchronize_device and
// destroy_stream answer the first failure. Fault plans count calls over all threads, so a given plan fails the same
// call only if calls come from one thread.
//
// Forks. A child has the device as it was at the fork, with all submitted work done, and everything on it is its own
// from then on (device/host_arena.h says at what cost). fork() waits for that work; it must not be called from a fault
// hook.
//
// Blocks: destroy_stream (as everywhere); allocate_pinned (touches pages); map and unmap (system calls, microseconds a
// granule). Threads: as device.h. The destructor finishes what was submitted, then ends the threads.

#include <cstdint>
#include <functional>
#include <memory>

#include "core/bytes.h"
#include "core/result.h"
#include "device/device.h"

namespace tidemark {

/// What a fault hook is asked about; the names are those of the Device's functions. run_copy and run_launch are asked
/// on the stream's thread when the work starts; all others on the calling thread before anything happens.
enum class HostCall : std::uint8_t {
  reserve,
  map,
  unmap,
  alias,
  remap,
  allocate_plain,
  allocate_pinned,
  create_stream,
  create_event,
  record_event,
  wait_event,
  copy,
  launch,
  run_copy,
  run_launch,
};

/// The code the call shall fail with, ok to go on. Called from many threads at once. `lost` makes the device lost.
using HostFaultHook = std::function<DeviceCode(HostCall)>;

struct HostDeviceOptions {
  Bytes capacity_bytes = kGiB;      ///< of device memory: mapped and plain; rounded down to granules
  Bytes pinned_capacity_bytes = 0;  ///< allocate_pinned() answers out_of_memory beyond; 0: only the machine's limit
  Bytes largest_pinned_bytes = 0;   ///< of one allocate_pinned(); 0: no limit
  Bytes granule_bytes = 2 * kMiB;   ///< a multiple of the page size
  std::int64_t event_limit = 0;     ///< events alive at once; 0: no limit
  int copy_threads = 1;             ///< a copy engine, for copies of 4 MiB and more
  int touch_threads = 2;            ///< that populate pinned memory
  int numa_node = -1;               ///< for pinned memory and copy threads; -1: what the process is bound for, or none
  Bytes d2h_bytes_per_s = 0;        ///< 0: as fast as memory is
  Bytes h2d_bytes_per_s = 0;
  bool copies_any_memory = false;  ///< a copy's device side may be any memory of the process: a framework's on the CPU
  double play_estimates = 0;       ///< a launch takes at least estimate_ns times this
  HostFaultHook fault;             ///< empty: none
};

/// Errors: bad_input for options without sense, infeasible if the system refuses the memory file.
[[nodiscard]] Result<std::unique_ptr<Device>> open_host_device(const HostDeviceOptions& options);

}  // namespace tidemark
