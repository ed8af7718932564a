#pragma once
// Where memory runs out, a session may have storages give up some (tidemark_session_make_room). The allocators are
// linked to no session: it is asked through a function that Python hands over. Thread rule: any thread, with or without
// Python's lock, and none of an allocator's own held.

#include <tidemark/tidemark.h>

#include <atomic>
#include <cstdint>

namespace tidemark_torch {

/// `device`: number of the accelerator, or kCpu. Not 0: something was given up there, and it is worth asking once more.
using MakeRoom = std::int32_t (*)(std::int64_t bytes, std::int32_t device);
inline constexpr std::int32_t kCpu = -1;

inline std::atomic<MakeRoom>& make_room() {
  static std::atomic<MakeRoom> function{nullptr};
  return function;
}

/// `allocate(&error)` until it is refused for good.
template <class Allocate>
tidemark_status allocate_with_room(std::int64_t bytes, std::int32_t device, tidemark_error** error,
                                   const Allocate& allocate) {
  for (;;) {
    const tidemark_status status = allocate(error);
    if (status != TIDEMARK_STATUS_OUT_OF_MEMORY) return status;
    const MakeRoom function = make_room().load();
    if (function == nullptr || function(bytes, device) == 0) return status;
    tidemark_error_free(*error);
    *error = nullptr;
  }
}

}  // namespace tidemark_torch
