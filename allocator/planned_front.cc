#include "allocator/planned_front.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tidemark::allocator {
namespace {

/// For small guests beside large ones: the step that makes an optimizer's state needs both at once.
constexpr Bytes kSpareBytes = Bytes{512} << 10;

PlannedArena::Options options_of(const CachingAllocator& behind, const Device& device, Address base) {
  return {.base = base,
          .alignment_bytes = behind.rounded_bytes(1),
          .tail_pad_bytes = device.traits().tail_pad_bytes,
          .spare_bytes = kSpareBytes};
}

}  // namespace

DeviceCode PlannedFront::open(Device& device, CachingAllocator& behind, std::span<const PlannedBlock> blocks,
                              StreamHandle stream, std::unique_ptr<PlannedFront>& front) {
  const Bytes extent = PlannedArena::extent_of(blocks, options_of(behind, device, 0));
  Address base = 0;
  if (const DeviceCode code = behind.allocate_lent(extent, stream, base); code != DeviceCode::ok) return code;
  front.reset(new PlannedFront(device, behind, blocks, stream, base, extent));
  return DeviceCode::ok;
}

PlannedFront::PlannedFront(Device& device, CachingAllocator& behind, std::span<const PlannedBlock> blocks,
                           StreamHandle stream, Address base, Bytes extent)
    : device_(device),
      behind_(behind),
      stream_(stream),
      base_(base),
      extent_(extent),
      blocks_(blocks.begin(), blocks.end()),
      arena_(blocks, options_of(behind, device, base)) {}

PlannedFront::~PlannedFront() {
  static_cast<void>(behind_.free(base_));
}

template <class Serve>
std::optional<Address> PlannedFront::serve(Bytes bytes, StreamHandle stream, const Serve& serve) {
  if (stream != stream_ || bytes <= 0) return std::nullopt;
  std::optional<Address> address;
  {
    const std::lock_guard lock(lock_);
    if (!held_.empty()) release_complete();
    address = serve();
  }
  if (address) behind_.count_part(bytes);
  return address;
}

std::optional<Address> PlannedFront::allocate(Bytes bytes, StreamHandle stream) {
  return serve(bytes, stream, [&]() -> std::optional<Address> {
    if (is_retired_) return std::nullopt;
    if (is_of_another_thread()) {
      ++of_other_threads_;
      return std::nullopt;
    }
    switch (expected_) {
      case Requests::planned:
        return arena_.allocate(bytes);
      case Requests::transient:
        return arena_.allocate_anywhere(bytes);
      case Requests::other:
        break;
    }
    return std::nullopt;
  });
}

bool PlannedFront::is_of_another_thread() const {
  return thread_ != std::thread::id{} && thread_ != std::this_thread::get_id();
}

std::optional<Address> PlannedFront::allocate_anywhere(Bytes bytes, StreamHandle stream) {
  return serve(bytes, stream, [&] { return arena_.allocate_anywhere(bytes); });
}

bool PlannedFront::wait_for_freed() {
  Address address = 0;
  std::vector<EventHandle> behind;
  {
    const std::lock_guard lock(lock_);
    const auto oldest =
        std::ranges::find_if(held_, [](const Held& one) { return !one.is_taken && one.unwatched.empty(); });
    if (oldest == held_.end()) return false;
    oldest->is_taken = true;
    address = oldest->address;
    behind = std::exchange(oldest->behind, {});
  }
  for (const EventHandle event : behind) {
    static_cast<void>(device_.synchronize_event(event));  // a device that is lost has ended what ran
    static_cast<void>(device_.destroy_event(event));
  }
  const std::lock_guard lock(lock_);
  std::erase_if(held_, [&](const Held& one) { return one.address == address; });
  arena_.free(address);
  return true;
}

Bytes PlannedFront::unmap_idle(Bytes bytes) {
  const Bytes granule = device_.traits().granule_bytes;
  if (granule <= 0 || !device_.traits().mapping) return 0;
  release_freed();
  std::vector<PlannedArena::Piece> pieces;
  {
    const std::lock_guard lock(lock_);
    pieces = arena_.set_aside(bytes, granule);
  }
  if (pieces.empty()) return 0;
  // What had those bytes was submitted before they were set aside. A device that is lost has ended what ran, and on a
  // CPU, whose stream is none, it is over.
  const bool is_over = !is_recoverable(device_.synchronize_stream(stream_));
  Bytes gone = 0;
  for (const PlannedArena::Piece& piece : pieces) {
    const Bytes unmapped =
        is_over ? behind_.unmap_part(base_, static_cast<Bytes>(piece.address - base_), piece.bytes) : 0;
    const std::lock_guard lock(lock_);
    if (unmapped > 0) {
      unmapped_.push_back(piece);
    } else {
      arena_.put_back(piece.address, piece.bytes);
    }
    gone += unmapped;
  }
  return gone;
}

/// The plan wants first what was taken last. A refusal ends it: what is asked for next would be refused as well, after
/// waits for the device.
DeviceCode PlannedFront::map_again() {
  DeviceCode code = DeviceCode::ok;
  std::vector<PlannedArena::Piece> pieces;
  {
    const std::lock_guard lock(lock_);
    pieces = std::exchange(unmapped_, {});
  }
  while (!pieces.empty() && code == DeviceCode::ok) {
    auto& [address, bytes] = pieces.back();
    Bytes mapped = 0;
    code = behind_.map_part(base_, static_cast<Bytes>(address - base_), bytes, mapped);
    if (mapped > 0) {
      const std::lock_guard lock(lock_);
      arena_.put_back(address, mapped);
    }
    address += static_cast<Address>(mapped);
    bytes -= mapped;
    if (bytes == 0) pieces.pop_back();
  }
  const std::lock_guard lock(lock_);
  unmapped_.insert(unmapped_.begin(), pieces.begin(), pieces.end());
  return code;
}

Bytes PlannedFront::unmapped_bytes() const {
  const std::lock_guard lock(lock_);
  Bytes bytes = 0;
  for (const PlannedArena::Piece& piece : unmapped_) bytes += piece.bytes;
  return bytes;
}

bool PlannedFront::is_live(Address address) const {
  return arena_.owns(address) && std::ranges::find(held_, address, &Held::address) == held_.end();
}

DeviceCode PlannedFront::free(Address address, const StreamHandle* last) {
  Bytes bytes = 0;
  std::vector<StreamHandle> streams;
  {
    const std::lock_guard lock(lock_);
    if (!is_live(address)) return DeviceCode::invalid;
    bytes = arena_.requested_bytes(address);
    if (last != nullptr && *last != stream_) streams.push_back(*last);
    for (const auto& [used, stream] : uses_)
      if (used == address) streams.push_back(stream);
    std::erase_if(uses_, [&](const auto& use) { return use.first == address; });
    if (streams.empty()) {
      arena_.free(address);
    } else {
      held_.push_back({.address = address, .behind = {}, .unwatched = std::move(streams)});
      has_unwatched_ = true;
    }
  }
  behind_.discount_part(bytes);
  return DeviceCode::ok;
}

std::vector<EventHandle> PlannedFront::record(std::vector<StreamHandle>& streams) {
  std::vector<EventHandle> events;
  std::erase_if(streams, [&](StreamHandle stream) {
    EventHandle event{};
    DeviceCode code = device_.create_event(event);
    if (code == DeviceCode::ok) {
      code = device_.record_event(event, stream);
      if (code == DeviceCode::ok) {
        events.push_back(event);
        return true;
      }
      static_cast<void>(device_.destroy_event(event));
    }
    return !is_recoverable(device_.synchronize_stream(stream));  // a device that is lost has ended what ran
  });
  return events;
}

void PlannedFront::watch(Address address, std::vector<StreamHandle> streams) {
  const std::vector<EventHandle> events = record(streams);
  const std::lock_guard lock(lock_);
  const auto held = std::ranges::find(held_, address, &Held::address);
  held->behind.insert(held->behind.end(), events.begin(), events.end());
  held->unwatched = std::move(streams);
  if (!held->unwatched.empty()) has_unwatched_ = true;
  held->is_taken = false;
  if (!held->behind.empty() || !held->unwatched.empty()) return;
  held_.erase(held);
  arena_.free(address);
}

void PlannedFront::watch_unwatched() {
  if (!has_unwatched_.exchange(false)) return;
  std::vector<std::pair<Address, std::vector<StreamHandle>>> waiting;
  {
    const std::lock_guard lock(lock_);
    for (Held& one : held_)
      if (!one.is_taken && !one.unwatched.empty()) {
        one.is_taken = true;
        waiting.emplace_back(one.address, std::exchange(one.unwatched, {}));
      }
  }
  for (auto& [address, streams] : waiting) watch(address, std::move(streams));
}

void PlannedFront::release_freed() {
  watch_unwatched();
  const std::lock_guard lock(lock_);
  release_complete();
}

void PlannedFront::release_complete() {
  std::erase_if(held_, [&](Held& one) {
    if (one.is_taken) return false;
    std::erase_if(one.behind, [&](EventHandle event) {
      if (device_.query_event(event) == DeviceCode::not_ready) return false;
      static_cast<void>(device_.destroy_event(event));
      return true;
    });
    const bool is_over = one.behind.empty() && one.unwatched.empty();
    if (is_over) arena_.free(one.address);
    return is_over;
  });
}

DeviceCode PlannedFront::note_use(Address address, StreamHandle stream) {
  const std::lock_guard lock(lock_);
  if (!is_live(address)) return DeviceCode::invalid;
  const std::pair use{address, stream};
  if (stream != stream_ && std::ranges::find(uses_, use) == uses_.end()) uses_.push_back(use);
  return DeviceCode::ok;
}

Bytes PlannedFront::requested_bytes(Address address) const {
  const std::lock_guard lock(lock_);
  return is_live(address) ? arena_.requested_bytes(address) : 0;
}

void PlannedFront::advance(std::int32_t due) {
  const std::lock_guard lock(lock_);
  if (!is_retired_) arena_.advance(due);
}

void PlannedFront::begin_step(std::thread::id thread) {
  const std::lock_guard lock(lock_);
  thread_ = thread;
  arena_.begin_step();
}

void PlannedFront::expect(Requests requests) {
  const std::lock_guard lock(lock_);
  expected_ = requests;
}

void PlannedFront::retire() {
  const std::lock_guard lock(lock_);
  is_retired_ = true;
}

bool PlannedFront::resume(std::span<const PlannedBlock> blocks, StreamHandle stream) {
  const std::lock_guard lock(lock_);
  if (!is_retired_ || stream != stream_ || !std::ranges::equal(blocks, blocks_)) return false;
  is_retired_ = false;
  expected_ = Requests::planned;
  thread_ = {};
  arena_.begin_step();
  arena_.reset_counts();
  of_other_threads_ = 0;
  return true;
}

bool PlannedFront::is_retired() const {
  const std::lock_guard lock(lock_);
  return is_retired_;
}

bool PlannedFront::is_empty() const {
  const std::lock_guard lock(lock_);
  return arena_.counts().live_bytes == 0;
}

PlannedArenaCounts PlannedFront::counts() const {
  const std::lock_guard lock(lock_);
  return arena_.counts();
}

std::int64_t PlannedFront::requests_of_other_threads() const {
  const std::lock_guard lock(lock_);
  return of_other_threads_;
}

/// A child has no thread that took a block, and finds what was under way complete: such a block is free for it.
ForkSteps PlannedFront::fork_steps() {
  return {.before_fork = [this] { lock_.lock(); },
          .after_fork_in_parent = [this] { lock_.unlock(); },
          .after_fork_in_child =
              [this] {
                for (Held& one : held_) one.is_taken = false;
                lock_.unlock();
              }};
}

}  // namespace tidemark::allocator
