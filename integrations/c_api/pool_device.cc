#include "integrations/c_api/pool_device.h"

namespace tidemark::c_api {

DeviceCode PoolDevice::alias(Address at, Address source, Bytes bytes) {
  const DeviceCode code = ForwardingDevice::alias(at, source, bytes);
  const std::lock_guard lock(mutex_);
  if (code == DeviceCode::ok) aliases_[at] = bytes;
  return code;
}

/// Windows are unmapped whole or from their start, homes in any part: an address is one or the other.
DeviceCode PoolDevice::unmap(Address at, Bytes bytes) {
  if (fixed_) return DeviceCode::no_resource;
  const DeviceCode code = ForwardingDevice::unmap(at, bytes);
  if (code != DeviceCode::ok) return code;
  const std::lock_guard lock(mutex_);
  const auto first = aliases_.lower_bound(at), end = aliases_.lower_bound(at + static_cast<Address>(bytes));
  if (first == end) {
    budget_.give(bytes);
  } else {
    aliases_.erase(first, end);
  }
  return code;
}

DeviceCode PoolDevice::remap(Address at, Address source, Bytes bytes) {
  return fixed_ ? DeviceCode::no_resource : ForwardingDevice::remap(at, source, bytes);
}

DeviceCode PoolDevice::allocate_plain(Bytes bytes, Address& address) {
  const std::lock_guard lock(mutex_);
  const DeviceCode code = take(bytes, [&] { return ForwardingDevice::allocate_plain(bytes, address); });
  if (code == DeviceCode::ok) plain_[address] = bytes;
  return code;
}

DeviceCode PoolDevice::free_plain(Address address) {
  if (fixed_) return DeviceCode::no_resource;
  const std::lock_guard lock(mutex_);
  const DeviceCode code = ForwardingDevice::free_plain(address);
  const auto found = plain_.find(address);
  if (code != DeviceCode::ok || found == plain_.end()) return code;
  budget_.give(found->second);
  plain_.erase(found);
  return code;
}

}  // namespace tidemark::c_api
