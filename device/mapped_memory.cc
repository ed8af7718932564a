#include "device/mapped_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tidemark {
namespace {

Address place(Address at, std::size_t granule, Bytes granule_bytes) {
  return at + granule * static_cast<Address>(granule_bytes);
}

}  // namespace

bool MappedMemory::find_slots(Address at, Bytes bytes, Slots& slots) {
  const auto granule = static_cast<Address>(granule_bytes_);
  auto found = reservations_.upper_bound(at);
  if (found == reservations_.begin() || bytes <= 0 || at % granule != 0 || bytes % granule_bytes_ != 0) return false;
  --found;
  const Address offset = at - found->first, size = static_cast<Address>(found->second.bytes);
  if (offset >= size || static_cast<Address>(bytes) > size - offset) return false;
  slots = Slots(found->second.granules).subspan(offset / granule, static_cast<Address>(bytes) / granule);
  return true;
}

DeviceCode MappedMemory::check(Address at, Bytes bytes, bool mapped, Slots& slots) {
  if (!find_slots(at, bytes, slots)) {
    return vendor_.refuse(DeviceCode::invalid,
                          fmt::format("[{:#x}, +{} B) is not granules of one reservation", at, bytes));
  }
  const auto wrong = [mapped](const Granule& granule) { return (granule != nullptr) != mapped; };
  if (!std::any_of(slots.begin(), slots.end(), wrong)) return DeviceCode::ok;
  return vendor_.refuse(DeviceCode::invalid,
                        fmt::format("part of [{:#x}, +{} B) is {} mapped", at, bytes, mapped ? "not" : "already"));
}

/// REQUIRES: `granule` has been taken out of its slot.
void MappedMemory::drop(Granule granule) {
  if (granule.use_count() > 1) return;  // other addresses show it
  if (vendor_.destroy_granule(granule->vendor) == DeviceCode::ok) {
    --handles_;
  } else {
    spare_.push_back(std::move(granule));  // create() made room
  }
}

void MappedMemory::drop_spare() {
  handles_ -= std::erase_if(
      spare_, [this](const Granule& granule) { return vendor_.destroy_granule(granule->vendor) == DeviceCode::ok; });
}

DeviceCode MappedMemory::create(std::size_t count, std::vector<Granule>& made) {
  made.reserve(count);
  if (const std::size_t needed = handles_ + count; needed > spare_.capacity()) spare_.reserve(2 * needed);
  while (made.size() < count && !spare_.empty()) {
    made.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  while (made.size() < count) {
    std::uint64_t handle = 0;
    if (const DeviceCode code = vendor_.create_granule(handle); code != DeviceCode::ok) {
      for (Granule& granule : made) drop(std::move(granule));
      made.clear();
      return code;
    }
    made.push_back(std::make_shared<const Handle>(Handle{handle}));
    ++handles_;
  }
  return DeviceCode::ok;
}

/// Undoes an attachment; `code` is why, and the answer where that works.
DeviceCode MappedMemory::undo_attach(Address at, std::size_t count, DeviceCode code) {
  for (std::size_t i = 0; i < count; ++i) {
    if (vendor_.detach_granule(place(at, i, granule_bytes_)) != DeviceCode::ok) code = lose(at);
  }
  return code;
}

/// Attaches one granule after the other and makes them accessible; after a failure none is attached.
DeviceCode MappedMemory::attach_all(Address at, std::span<const Granule> granules) {
  for (std::size_t i = 0; i < granules.size(); ++i) {
    const DeviceCode code = vendor_.attach_granule(place(at, i, granule_bytes_), granules[i]->vendor);
    if (code != DeviceCode::ok) return undo_attach(at, i, code);
  }
  const DeviceCode code = vendor_.allow_range(at, static_cast<Bytes>(granules.size()) * granule_bytes_);
  return code == DeviceCode::ok ? code : undo_attach(at, granules.size(), code);
}

DeviceCode MappedMemory::reserve(Bytes bytes, Address& base) {
  const std::lock_guard lock(mutex_);
  if (bytes <= 0 || bytes % granule_bytes_ != 0) {
    return vendor_.refuse(DeviceCode::invalid,
                          fmt::format("cannot reserve {} B: not whole granules of {} B", bytes, granule_bytes_));
  }
  Address at = 0;
  if (const DeviceCode code = vendor_.reserve_range(bytes, at); code != DeviceCode::ok) return code;
  reservations_[at] = {bytes, std::vector<Granule>(static_cast<std::size_t>(bytes / granule_bytes_))};
  base = at;
  return DeviceCode::ok;
}

DeviceCode MappedMemory::release(Address base, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(base);
  if (found == reservations_.end() || found->second.bytes != bytes) {
    return vendor_.refuse(DeviceCode::invalid, fmt::format("[{:#x}, +{} B) is no reservation", base, bytes));
  }
  Slots slots;
  if (const DeviceCode code = check(base, bytes, false, slots); code != DeviceCode::ok) return code;
  const DeviceCode code = vendor_.release_range(base, bytes);
  if (code == DeviceCode::ok) reservations_.erase(found);
  return code;
}

DeviceCode MappedMemory::map(Address at, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Slots slots;
  if (const DeviceCode code = check(at, bytes, false, slots); code != DeviceCode::ok) return code;
  std::vector<Granule> made;
  if (const DeviceCode code = create(slots.size(), made); code != DeviceCode::ok) return code;
  const DeviceCode code = attach_all(at, made);
  if (code == DeviceCode::ok) {
    std::move(made.begin(), made.end(), slots.begin());
  } else {
    for (Granule& granule : made) drop(std::move(granule));
  }
  return code;
}

/// No state of this class says where such memory is, hence the device ends here.
DeviceCode MappedMemory::lose(Address at) {
  return vendor_.refuse(DeviceCode::lost,
                        fmt::format("memory on its way from or to {:#x} fits neither its new nor its old place", at));
}

/// Detaches one granule after the other; after a failure all of them are attached again.
DeviceCode MappedMemory::detach_all(Address at, std::span<const Granule> granules) {
  for (std::size_t i = 0; i < granules.size(); ++i) {
    const DeviceCode code = vendor_.detach_granule(place(at, i, granule_bytes_));
    if (code == DeviceCode::ok) continue;
    return i == 0 || attach_all(at, granules.first(i)) == DeviceCode::ok ? code : lose(at);
  }
  return DeviceCode::ok;
}

DeviceCode MappedMemory::unmap(Address at, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Slots slots;
  if (const DeviceCode code = check(at, bytes, true, slots); code != DeviceCode::ok) return code;
  if (const DeviceCode code = detach_all(at, slots); code != DeviceCode::ok) return code;
  drop_spare();
  for (Granule& slot : slots) drop(std::exchange(slot, nullptr));
  return DeviceCode::ok;
}

DeviceCode MappedMemory::alias(Address at, Address source, Bytes bytes) {
  if (!aliasing_) return vendor_.refuse(DeviceCode::unsupported, "a physical handle has one address at a time here");
  const std::lock_guard lock(mutex_);
  Slots to, from;
  if (const DeviceCode code = check(at, bytes, false, to); code != DeviceCode::ok) return code;
  if (const DeviceCode code = check(source, bytes, true, from); code != DeviceCode::ok) return code;
  if (const DeviceCode code = attach_all(at, from); code != DeviceCode::ok) return code;
  std::copy(from.begin(), from.end(), to.begin());
  return DeviceCode::ok;
}

/// For vendors whose handles have one address: away from the old one first, and back there if the new one fails.
DeviceCode MappedMemory::move(Address at, Address source, std::span<const Granule> granules) {
  if (const DeviceCode code = detach_all(source, granules); code != DeviceCode::ok) return code;
  const DeviceCode code = attach_all(at, granules);
  if (code == DeviceCode::ok) return code;
  return attach_all(source, granules) == DeviceCode::ok ? code : lose(source);
}

/// Never without an address.
DeviceCode MappedMemory::move_by_alias(Address at, Address source, std::span<const Granule> granules) {
  if (const DeviceCode code = attach_all(at, granules); code != DeviceCode::ok) return code;
  const DeviceCode code = detach_all(source, granules);
  return code == DeviceCode::ok ? code : undo_attach(at, granules.size(), code);
}

DeviceCode MappedMemory::remap(Address at, Address source, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Slots to, from;
  if (const DeviceCode code = check(at, bytes, false, to); code != DeviceCode::ok) return code;
  if (const DeviceCode code = check(source, bytes, true, from); code != DeviceCode::ok) return code;
  const DeviceCode code = aliasing_ ? move_by_alias(at, source, from) : move(at, source, from);
  if (code != DeviceCode::ok) return code;
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::exchange(from[i], nullptr);
  return DeviceCode::ok;
}

void MappedMemory::clear() {
  const std::lock_guard lock(mutex_);
  for (auto& [base, reservation] : reservations_) {
    for (std::size_t i = 0; i < reservation.granules.size(); ++i) {
      if (reservation.granules[i] == nullptr) continue;
      (void)vendor_.detach_granule(place(base, i, granule_bytes_));
      drop(std::exchange(reservation.granules[i], nullptr));
    }
    (void)vendor_.release_range(base, reservation.bytes);
  }
  reservations_.clear();
  drop_spare();
}

}  // namespace tidemark
