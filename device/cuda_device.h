#pragma once
// NVIDIA GPUs through the CUDA driver API (CUDA Toolkit documentation, "CUDA Driver API"), loaded at run time: nothing
// of CUDA is needed to build, and a machine without a driver gets an Error that says what is missing.
//
// Memory. Mapped memory is one physical handle (cuMemCreate) per granule, usually 2 MiB, because the driver unmaps
// whole handles only; so any granule can be unmapped, aliased or moved on its own. map() grants access once over the
// whole range, to the device itself and to every other one that can reach it (cuDeviceCanAccessPeer): a copy between
// GPUs fails, or finds nothing, where only one of them may touch mapped memory. Granting to a further device costs the
// driver one more page table for each map(), none when the memory is used; CudaOptions::peer_access turns it off. Plain
// memory is cuMemAlloc: what RDMA and collectives can export. Pinned memory is pages of our own (huge, on the device's
// NUMA node, touched in parallel: device/host_pages.h) registered with the driver, or cuMemHostAlloc where registering
// does not work. A registration holds a lock of the driver, about 0.1 s a GiB, so one allocate_pinned() is limited
// (largest_pinned_bytes); ask for several.
//
// Context. The device's primary context, which is also the one the CUDA runtime and the frameworks use. Every call
// makes it current and restores what the calling thread had.
//
// Launches. With Work::verify small kernels (PTX text, compiled by the driver at the first use) check and fill the
// touched bytes on the stream; touches must start at multiples of 8. With play_estimates, which compiles them when the
// device is opened, another kernel takes the estimated time. Otherwise a launch is nothing.
//
// Blocking. free_plain, unmap, remap and free_pinned may wait for the device inside the driver; the first verifying
// launch compiles.
//
// Graphs. Every call is made in the relaxed capture mode of the calling thread: a capture elsewhere in the process goes
// on while memory is taken and given back.
//
// Threads: as device.h. Cost: one look-up of the current context and two exchanges of the capture mode per call on top
// of the driver's own.

#include <memory>
#include <string>

#include "core/result.h"
#include "device/device.h"

namespace tidemark {

struct CudaOptions {
  std::string library = "libcuda.so.1";  ///< any library with the driver's symbols
  int ordinal = 0;                       ///< which device, as the driver counts
  bool play_estimates = false;           ///< a launch takes estimate_ns on the device
  int touch_threads = 4;                 ///< that touch new pinned pages in parallel
  int numa_node = -1;                    ///< for pinned memory and its threads; -1: the one the device hangs on
  bool peer_access = true;               ///< mapped memory is accessible to every device that can reach this one
};

/// Errors (infeasible): no driver, a driver without what is needed (10.2 and later have it), no such device.
[[nodiscard]] Result<std::unique_ptr<Device>> open_cuda_device(const CudaOptions& options);

}  // namespace tidemark
