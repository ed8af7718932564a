#pragma once
// Is a copy's host side inside one pinned allocation, and its device side not? Back ends differ in how they keep pinned
// memory; what copy() refuses must not differ.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "device/device.h"

namespace tidemark {

/// Why the copy is refused; empty: it is not. `pinned(at, bytes)`: all of it lies in one pinned allocation.
template <class Pinned>
[[nodiscard]] std::string wrong_side_of_copy(Address to, Address from, Bytes bytes, CopyKind kind, Pinned&& pinned) {
  if (bytes < 0) return fmt::format("copy of {} bytes", bytes);
  const auto wrong = [&](const char* side, Address at, bool is_host) -> std::string {
    if (is_host && !pinned(at, std::max<Bytes>(bytes, 1))) {
      return fmt::format("copy {} {:#x}: {} B there are not inside one pinned allocation of this device", side, at,
                         bytes);
    }
    if (!is_host && pinned(at, 1)) {
      return fmt::format("copy {} {:#x}: that is host memory, and not the copy's direction", side, at);
    }
    return "";
  };
  std::string why = wrong("to", to, kind == CopyKind::device_to_host);
  return why.empty() ? wrong("from", from, kind == CopyKind::host_to_device) : why;
}

}  // namespace tidemark
