#pragma once
// Ascend NPUs through ACL (acl_rt.h 1.17 of the CANN runtime), loaded at run time: nothing of CANN is needed to build,
// and a machine without it gets an Error that says what is missing. Symbols are resolved across libascendcl.so and
// libacl_rt.so, since CANN ships them in one or the other.
//
// Memory. Mapped memory is one physical handle (aclrtMallocPhysical) per granule, because ACL maps whole handles at
// offset 0 only; a handle has one address at a time, so there is no aliasing, and remap() unmaps and maps it again.
// Plain memory is aclrtMallocAlign32 (huge pages first), padded. Blocks need 32 readable bytes behind them
// (tail_pad_bytes), except on Ascend950 from CANN 9.1 on. Pinned memory is aclrtMallocHost, or registered pages where
// asked for and possible; a single piece above some 200 GB fails, hence largest_pinned_bytes.
// Giving back is immediate: ACL does not wait, and a copy in flight then touches freed memory.
//
// Events are the extended ones (aclrtCreateEventExWithFlag, SYNC): they may be recorded again and count as complete
// before the first record. The device has 65,536; a slot is taken at the record, which may therefore answer no_resource
// or block.
//
// Context. The device's default context (what is current after aclrtSetDevice), which torch_npu uses too. Every call
// makes it current and restores what the calling thread had; a thread that had none keeps ours, as ACL has no call to
// take a context away. ACL is initialised if nobody has; it is never finalised and the device never reset, since others
// in the process may use them.
//
// Launches. There is no kernel that runs on every Ascend chip, so with Work::verify a touch goes through a pinned
// buffer of the stream in pieces: to check, copied out and compared by a host function in the stream; to fill, written
// by a host function and copied in. All in stream order, slow, correct. With play_estimates a host function sleeps for
// the estimate. Host functions of one stream never overlap; whether those of different streams do is up to ACL.
//
// Threads: as device.h. Cost: one look-up of the current context per call on top of ACL's own.

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "device/device.h"

namespace tidemark {

struct AscendOptions {
  std::string library = "libascendcl.so";       ///< any library with ACL's symbols
  std::string second_library = "libacl_rt.so";  ///< for symbols the first lacks; need not exist
  int ordinal = 0;                              ///< which device, as ACL counts
  bool play_estimates = false;                  ///< a launch takes estimate_ns on its stream
  bool register_pinned = false;                 ///< register our own pages instead of aclrtMallocHost, where possible
  std::int64_t event_limit = 65'536;            ///< what the chip has, or the share of this process (traits)
  int touch_threads = 4;                        ///< that touch new pinned pages in parallel (register_pinned)
  int numa_node = -1;  ///< for pinned memory and its threads; -1: the one all NPUs hang on, else unknown
};

/// Errors (infeasible): no ACL library, symbols missing in both, no such device.
[[nodiscard]] Result<std::unique_ptr<Device>> open_ascend_device(const AscendOptions& options);

}  // namespace tidemark
