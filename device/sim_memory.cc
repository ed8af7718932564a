#include "device/sim_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tidemark {
namespace {

constexpr Address kFirstPinned = Address{1} << 46;
constexpr Address kFirstOwn = Address{1} << 52;  ///< memory numbers that are no addresses
constexpr Bytes kPage = 4 * kKiB;

Address plus(Address at, Bytes bytes) {
  return at + static_cast<Address>(bytes);
}

// Whether `bytes` at the next multiple of `unit`, and a unit left free behind them, end before `end`.
bool fits(Address next, Address end, Address unit, Bytes bytes) {
  return unit <= (end - next) / 2 && static_cast<Address>(bytes) <= end - next - 2 * unit;
}

}  // namespace

DeviceCode SimMemory::fail(DeviceCode code, std::string problem) {
  problem_ = std::move(problem);
  return code;
}

void SimMemory::restart_peaks() {
  usage_.peak_device = usage_.mapped + usage_.plain;
  usage_.peak_pinned = usage_.pinned;
}

void SimMemory::count_device(Bytes mapped, Bytes plain) {
  usage_.mapped += mapped;
  usage_.plain += plain;
  usage_.peak_device = std::max(usage_.peak_device, usage_.mapped + usage_.plain);
}

bool SimMemory::aligned(Address at, Bytes bytes) const {
  return bytes > 0 && bytes % limits_.granule_bytes == 0 && at % static_cast<Address>(limits_.granule_bytes) == 0;
}

bool SimMemory::reserved(Address at, Bytes bytes) const {
  auto found = reservations_.upper_bound(at);
  if (found == reservations_.begin()) return false;
  --found;
  const Address offset = at - found->first, size = static_cast<Address>(found->second);
  return offset < size && static_cast<Address>(bytes) <= size - offset;
}

bool SimMemory::empty(Address at, Bytes bytes) const {
  auto next = runs_.lower_bound(plus(at, bytes));
  if (next == runs_.begin()) return true;
  --next;
  return plus(next->first, next->second.bytes) <= at;
}

bool SimMemory::fully_mapped(Address at, Bytes bytes) const {
  std::vector<SimPiece> pieces;
  translate(at, bytes, pieces);
  return std::all_of(pieces.begin(), pieces.end(), [](const SimPiece& piece) { return piece.present; });
}

// Cuts the run that holds `at` in two there.
void SimMemory::cut(Address at) {
  auto found = runs_.upper_bound(at);
  if (found == runs_.begin()) return;
  --found;
  const auto head = static_cast<Bytes>(at - found->first);
  if (head == 0 || head >= found->second.bytes) return;
  Run tail = found->second;
  tail.bytes -= head;
  tail.memory = plus(tail.memory, head);
  found->second.bytes = head;
  runs_.emplace_hint(std::next(found), at, tail);
}

void SimMemory::erase(Address at, Bytes bytes) {
  hits_ = {};
  cut(at);
  cut(plus(at, bytes));
  runs_.erase(runs_.lower_bound(at), runs_.lower_bound(plus(at, bytes)));
}

// Mapped neighbours whose memory goes on are united.
void SimMemory::insert(Address at, const Run& run) {
  hits_ = {};
  auto here = runs_.emplace(at, run).first;
  if (run.kind != SimMemoryKind::mapped) return;
  const auto goes_on = [](const Runs::iterator& a, const Runs::iterator& b) {
    return b->second.kind == SimMemoryKind::mapped && a->second.kind == SimMemoryKind::mapped &&
           plus(a->first, a->second.bytes) == b->first && plus(a->second.memory, a->second.bytes) == b->second.memory;
  };
  if (const auto next = std::next(here); next != runs_.end() && goes_on(here, next)) {
    here->second.bytes += next->second.bytes;
    runs_.erase(next);
  }
  if (here == runs_.begin()) return;
  if (const auto before = std::prev(here); goes_on(before, here)) {
    before->second.bytes += here->second.bytes;
    runs_.erase(here);
  }
}

DeviceCode SimMemory::reserve(Bytes bytes, Address& base) {
  if (!aligned(0, bytes))
    return fail(DeviceCode::invalid, fmt::format("reserve of {} is no multiple of the granule", bytes));
  const auto granule = static_cast<Address>(limits_.granule_bytes);
  if (!fits(next_device_, kFirstPinned, granule, bytes))
    return fail(DeviceCode::out_of_memory, fmt::format("reserve of {}: no address space", format_bytes(bytes)));
  base = (next_device_ + granule - 1) / granule * granule;
  next_device_ = plus(base, bytes) + granule;
  reservations_[base] = bytes;
  return DeviceCode::ok;
}

DeviceCode SimMemory::release(Address base, Bytes bytes) {
  const auto found = reservations_.find(base);
  if (found == reservations_.end() || found->second != bytes)
    return fail(DeviceCode::invalid, fmt::format("release of {:#x}, which was not reserved so", base));
  if (!empty(base, bytes)) return fail(DeviceCode::invalid, fmt::format("release of {:#x}, still mapped", base));
  reservations_.erase(found);
  return DeviceCode::ok;
}

DeviceCode SimMemory::check_target(Address at, Bytes bytes) {
  if (!aligned(at, bytes))
    return fail(DeviceCode::invalid, fmt::format("mapping of {} bytes at {:#x} is not aligned", bytes, at));
  if (!reserved(at, bytes)) return fail(DeviceCode::invalid, fmt::format("mapping at {:#x}, not reserved", at));
  if (!empty(at, bytes)) return fail(DeviceCode::invalid, fmt::format("mapping at {:#x}, mapped already", at));
  return DeviceCode::ok;
}

DeviceCode SimMemory::map(Address at, Bytes bytes, SimPiece& added) {
  if (const DeviceCode code = check_target(at, bytes); code != DeviceCode::ok) return code;
  if (bytes > limits_.capacity_bytes - usage_.mapped - usage_.plain)
    return fail(DeviceCode::out_of_memory,
                fmt::format("map of {}: {} of {} in use", format_bytes(bytes),
                            format_bytes(usage_.mapped + usage_.plain), format_bytes(limits_.capacity_bytes)));
  Address memory = at;
  const auto taken = displaced_.lower_bound(at);
  if (taken != displaced_.end() && *taken < plus(at, bytes)) {
    memory = next_memory_;
    next_memory_ = plus(next_memory_, bytes);
    for (Bytes k = 0; k < bytes; k += limits_.granule_bytes) displaced_.insert(plus(memory, k));
  }
  insert(at, {.bytes = bytes, .memory = memory});
  count_device(bytes, 0);
  added = {.address = at, .bytes = bytes, .memory = memory};
  return DeviceCode::ok;
}

// One address of a run of memory goes away. Whole pieces where nothing was ever aliased or moved, else by granule.
void SimMemory::take_address(const SimPiece& piece, std::vector<SimPiece>& dropped) {
  if (addresses_of_.empty() && displaced_.empty()) {
    dropped.push_back(piece);
    count_device(-piece.bytes, 0);
    return;
  }
  for (Bytes k = 0; k < piece.bytes; k += limits_.granule_bytes) {
    SimPiece granule{plus(piece.address, k), limits_.granule_bytes, plus(piece.memory, k)};
    const auto shared = addresses_of_.find(granule.memory);
    granule.present = shared == addresses_of_.end();
    if (granule.present) {
      displaced_.erase(granule.memory);
      count_device(-granule.bytes, 0);
    } else {
      if (--shared->second == 1) addresses_of_.erase(shared);
      if (granule.memory == granule.address) displaced_.insert(granule.memory);
    }
    dropped.push_back(granule);
  }
}

DeviceCode SimMemory::unmap(Address at, Bytes bytes, std::vector<SimPiece>& dropped) {
  if (!aligned(at, bytes) || !reserved(at, bytes) || !fully_mapped(at, bytes))
    return fail(DeviceCode::invalid, fmt::format("unmap of {} bytes at {:#x}, not mapped as a whole", bytes, at));
  std::vector<SimPiece> pieces;
  translate(at, bytes, pieces);
  erase(at, bytes);
  for (const SimPiece& piece : pieces) take_address(piece, dropped);
  return DeviceCode::ok;
}

DeviceCode SimMemory::alias(Address at, Address source, Bytes bytes) {
  if (const DeviceCode code = check_target(at, bytes); code != DeviceCode::ok) return code;
  if (!aligned(source, bytes) || !reserved(source, bytes) || !fully_mapped(source, bytes))
    return fail(DeviceCode::invalid, fmt::format("alias of {:#x}, not mapped as a whole", source));
  std::vector<SimPiece> pieces;
  translate(source, bytes, pieces);
  for (const SimPiece& piece : pieces) {
    insert(plus(at, static_cast<Bytes>(piece.address - source)), {.bytes = piece.bytes, .memory = piece.memory});
    for (Bytes k = 0; k < piece.bytes; k += limits_.granule_bytes)
      ++addresses_of_.try_emplace(plus(piece.memory, k), 1).first->second;
  }
  return DeviceCode::ok;
}

DeviceCode SimMemory::remap(Address at, Address source, Bytes bytes, std::vector<SimPiece>& moved) {
  if (const DeviceCode code = check_target(at, bytes); code != DeviceCode::ok) return code;
  if (!aligned(source, bytes) || !reserved(source, bytes) || !fully_mapped(source, bytes))
    return fail(DeviceCode::invalid, fmt::format("remap of {:#x}, not mapped as a whole", source));
  translate(source, bytes, moved);
  erase(source, bytes);
  for (const SimPiece& piece : moved) {
    const Address to = plus(at, static_cast<Bytes>(piece.address - source));
    insert(to, {.bytes = piece.bytes, .memory = piece.memory});
    for (Bytes k = 0; k < piece.bytes; k += limits_.granule_bytes) {
      const Address memory = plus(piece.memory, k);
      if (memory == plus(piece.address, k)) displaced_.insert(memory);
      if (memory == plus(to, k)) displaced_.erase(memory);
    }
  }
  return DeviceCode::ok;
}

DeviceCode SimMemory::allocate_plain(Bytes bytes, Address& address) {
  if (bytes <= 0) return fail(DeviceCode::invalid, "plain allocation without a size");
  if (bytes > limits_.capacity_bytes - usage_.mapped - usage_.plain)
    return fail(DeviceCode::out_of_memory,
                fmt::format("plain allocation of {}: {} of {} in use", format_bytes(bytes),
                            format_bytes(usage_.mapped + usage_.plain), format_bytes(limits_.capacity_bytes)));
  const auto unit = static_cast<Address>(std::max<Bytes>(limits_.alignment_bytes, kPage));
  if (!fits(next_device_, kFirstPinned, unit, bytes))
    return fail(DeviceCode::out_of_memory,
                fmt::format("plain allocation of {}: no address space", format_bytes(bytes)));
  address = (next_device_ + unit - 1) / unit * unit;
  next_device_ = plus(address, bytes) + unit;
  insert(address, {.bytes = bytes, .memory = address, .kind = SimMemoryKind::plain});
  count_device(0, bytes);
  return DeviceCode::ok;
}

DeviceCode SimMemory::allocate_pinned(Bytes bytes, Address& address) {
  if (bytes <= 0) return fail(DeviceCode::invalid, "pinned allocation without a size");
  if (limits_.pinned_capacity_bytes > 0 && bytes > limits_.pinned_capacity_bytes - usage_.pinned)
    return fail(DeviceCode::out_of_memory,
                fmt::format("pinned allocation of {}: {} of {} in use", format_bytes(bytes),
                            format_bytes(usage_.pinned), format_bytes(limits_.pinned_capacity_bytes)));
  if (!fits(next_pinned_, kFirstOwn, kPage, bytes))
    return fail(DeviceCode::out_of_memory,
                fmt::format("pinned allocation of {}: no address space", format_bytes(bytes)));
  address = static_cast<Address>(round_up(static_cast<Bytes>(next_pinned_), kPage));
  next_pinned_ = plus(address, bytes + kPage);
  insert(address, {.bytes = bytes, .memory = address, .kind = SimMemoryKind::pinned});
  usage_.pinned += bytes;
  usage_.peak_pinned = std::max(usage_.peak_pinned, usage_.pinned);
  return DeviceCode::ok;
}

DeviceCode SimMemory::free_whole(Address address, SimMemoryKind kind, SimPiece& freed) {
  const auto found = runs_.find(address);
  if (found == runs_.end() || found->second.kind != kind)
    return fail(DeviceCode::invalid, fmt::format("free of {:#x}, which is no such allocation", address));
  freed = {.address = address, .bytes = found->second.bytes, .memory = found->second.memory};
  hits_ = {};
  runs_.erase(found);
  if (kind == SimMemoryKind::plain) {
    count_device(0, -freed.bytes);
  } else {
    usage_.pinned -= freed.bytes;
  }
  return DeviceCode::ok;
}

void SimMemory::translate(Address at, Bytes bytes, std::vector<SimPiece>& pieces) const {
  pieces.clear();
  if (bytes <= 0) return;
  const Address end = plus(at, bytes);
  Hit& hit = hits_[at >= kFirstPinned ? 1 : 0];
  if (at >= hit.begin && end <= hit.end) {
    pieces.push_back({at, bytes, hit.memory + (at - hit.begin)});
    return;
  }
  auto run = runs_.upper_bound(at);
  if (run != runs_.begin() && plus(std::prev(run)->first, std::prev(run)->second.bytes) > at) --run;
  for (Address cursor = at; cursor < end;) {
    const bool gap = run == runs_.end() || run->first > cursor;
    const Address until = std::min(end, run == runs_.end() ? end
                                        : gap              ? run->first
                                                           : plus(run->first, run->second.bytes));
    const Address memory = gap ? cursor : run->second.memory + (cursor - run->first);
    pieces.push_back({cursor, static_cast<Bytes>(until - cursor), memory, !gap});
    if (!gap) {
      hit = {run->first, plus(run->first, run->second.bytes), run->second.memory};
      ++run;
    }
    cursor = until;
  }
}

bool SimMemory::is_pinned(Address at) const {
  return at >= kFirstPinned;
}

bool SimMemory::stays_inside(Address at, Bytes bytes) const {
  auto found = runs_.upper_bound(at);
  if (found == runs_.begin()) return true;
  --found;
  const auto offset = static_cast<Bytes>(at - found->first);
  if (found->second.kind == SimMemoryKind::mapped || offset >= found->second.bytes) return true;
  return bytes <= found->second.bytes - offset;
}

std::string SimMemory::leaks() const {
  std::int64_t plain = 0, pinned = 0;
  for (const auto& [address, run] : runs_) {
    plain += run.kind == SimMemoryKind::plain ? 1 : 0;
    pinned += run.kind == SimMemoryKind::pinned ? 1 : 0;
  }
  std::string text;
  const auto add = [&](std::int64_t n, const char* what, Bytes bytes) {
    if (n > 0) text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", n, what, format_bytes(bytes));
  };
  add(usage_.mapped / limits_.granule_bytes, "mapped granules", usage_.mapped);
  add(plain, "plain allocations", usage_.plain);
  add(pinned, "pinned allocations", usage_.pinned);
  if (!reservations_.empty()) text += fmt::format("{}{} reservations", text.empty() ? "" : ", ", reservations_.size());
  return text;
}

}  // namespace tidemark
