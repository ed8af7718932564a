#pragma once
// What a vendor's call was for, since the same number says different things from different calls: "out of memory" from
// an allocation is mended by giving memory back and trying again; from a wait it tells of earlier work that did not
// take place, and trying the wait again would answer ok over bytes that never arrived.

#include <cstdint>

#include "device/device.h"

namespace tidemark {

enum class VendorCall : std::uint8_t {
  memory,     ///< gives memory or address space
  slot,       ///< gives or takes a place: streams, events, records, queued waits
  work,       ///< hands work over: copies, launches
  wait,       ///< waits or asks; what fails is earlier work
  give_back,  ///< free, unmap, destroy
  other,      ///< contexts, questions
};

/// Where the vendor says that memory has run out.
[[nodiscard]] constexpr DeviceCode out_of_memory_from(VendorCall call) {
  if (call == VendorCall::memory) return DeviceCode::out_of_memory;
  if (call == VendorCall::wait) return DeviceCode::copy_failed;
  return call == VendorCall::give_back ? DeviceCode::invalid : DeviceCode::no_resource;
}

/// Where the vendor says that something else has run out.
[[nodiscard]] constexpr DeviceCode no_resource_from(VendorCall call) {
  return call == VendorCall::memory ? DeviceCode::no_resource : out_of_memory_from(call);
}

/// Where the code says no more than that the call failed.
[[nodiscard]] constexpr DeviceCode failure_of(VendorCall call) {
  if (call == VendorCall::work || call == VendorCall::wait) return DeviceCode::copy_failed;
  return call == VendorCall::give_back ? DeviceCode::invalid : DeviceCode::unsupported;
}

/// Where the vendor says "not yet", which only a wait may answer.
[[nodiscard]] constexpr DeviceCode not_yet_from(VendorCall call) {
  return call == VendorCall::wait ? DeviceCode::not_ready : failure_of(call);
}

}  // namespace tidemark
