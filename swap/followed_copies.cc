#include "swap/followed_copies.h"

#include <chrono>

namespace tidemark::swap {
namespace {

constexpr StreamRole kCopyRoles[] = {StreamRole::d2h, StreamRole::h2d};

allocator::PinnedPoolOptions pool_options(Bytes host_bytes) {
  // Slow to take, and mostly not all of it is needed at first: on demand.
  return {.bound_bytes = host_bytes, .initial_bytes = 0, .background = false};
}

}  // namespace

FollowedCopies::FollowedCopies(Device& device, Bytes host_bytes)
    : pool_(device, pool_options(host_bytes)), streams_(device), transfers_(streams_) {}

DeviceCode FollowedCopies::open(const Layout& layout) {
  for (const Arena& arena : layout.arenas) {
    HostArena& mine = arenas_.emplace_back();
    if (arena.space != MemorySpace::host || arena.height_bytes == 0) continue;
    const DeviceCode code = take_pinned(arena.height_bytes, mine.block);
    if (code != DeviceCode::ok && code != DeviceCode::out_of_memory) return code;
  }
  return streams_.open(kCopyRoles);
}

DeviceCode FollowedCopies::take_host(Bytes bytes, HostPlace place, HostCopy& copy) {
  const bool is_planned = place.arena != kNone<ArenaId> && arenas_[row(place.arena)].block.address != 0;
  if (!is_planned) return take_pinned(bytes, copy.block);
  HostArena& arena = arenas_[row(place.arena)];
  for (const EventHandle event : arena.parts.forget_passed(device())) streams_.release(event);
  std::vector<EventHandle> behind;
  if (!arena.parts.take({.offset = place.offset, .bytes = bytes}, behind)) return take_pinned(bytes, copy.block);
  copy.block = {.address = arena.block.address + static_cast<Address>(place.offset), .bytes = bytes};
  copy.place = place;
  for (const EventHandle event : behind)
    if (const DeviceCode code = streams_.wait(StreamRole::d2h, event); code != DeviceCode::ok) return code;
  return DeviceCode::ok;
}

DeviceCode FollowedCopies::take_pinned(Bytes bytes, allocator::PinnedBlock& block) {
  for (;;) {
    const allocator::PinnedAllocation answer = pool_.allocate(bytes);
    switch (answer.outcome) {
      case allocator::PinnedOutcome::ok:
        block = answer.block;
        return DeviceCode::ok;
      case allocator::PinnedOutcome::wait_block:
        if (const DeviceCode code = pool_.wait_for_block(answer); code != DeviceCode::ok) return code;
        break;
      case allocator::PinnedOutcome::wait_chunk:
        static_cast<void>(pool_.wait_for_chunk(answer));
        break;
      case allocator::PinnedOutcome::exhausted:
        return DeviceCode::out_of_memory;
      case allocator::PinnedOutcome::lost:
        return DeviceCode::lost;
    }
  }
}

DeviceCode FollowedCopies::follow(FrameworkStream compute, StreamRole role) {
  return compute ? streams_.follow(*compute, role) : DeviceCode::ok;
}

DeviceCode FollowedCopies::join(EventHandle event, Bytes bytes, FrameworkStream compute) {
  ++waits_.waits;
  waits_.bytes += bytes;
  if (compute) return device().wait_event(*compute, event);
  const DeviceCode now = device().query_event(event);
  if (now != DeviceCode::not_ready) return now;
  ++waits_.late;
  waits_.late_bytes += bytes;
  const auto begin = std::chrono::steady_clock::now();
  const DeviceCode code = device().synchronize_event(event);
  waits_.waited_ns +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  return code;
}

DeviceCode FollowedCopies::begin_out(Address from, Bytes bytes, HostPlace place, FrameworkStream compute,
                                     std::int64_t id, std::optional<HostCopy>& copy) {
  HostCopy made;
  if (const DeviceCode code = take_host(bytes, place, made); code != DeviceCode::ok) return code;
  const HostRange range{.address = made.block.address, .bytes = bytes};
  DeviceCode code = follow(compute, StreamRole::d2h);
  if (code == DeviceCode::ok) code = transfers_.copy_out({&range, 1}, from, id, TransferEngine::Cause::planned);
  if (code == DeviceCode::ok) code = streams_.record(StreamRole::d2h, made.out);
  if (code == DeviceCode::ok) copy = made;
  return code;
}

DeviceCode FollowedCopies::settle_out(HostCopy& copy, FrameworkStream compute) {
  copy.is_settled = true;
  return join(copy.out, copy.block.bytes, compute);
}

DeviceCode FollowedCopies::begin_in(Address to, const HostCopy& copy, FrameworkStream compute, std::int64_t id,
                                    EventHandle& in) {
  const HostRange range{.address = copy.block.address, .bytes = copy.block.bytes};
  DeviceCode code = follow(compute, StreamRole::h2d);
  if (code == DeviceCode::ok) code = streams_.wait(StreamRole::h2d, copy.out);
  if (code == DeviceCode::ok) code = transfers_.copy_in(to, {&range, 1}, id, TransferEngine::Cause::planned);
  return code == DeviceCode::ok ? streams_.record(StreamRole::h2d, in) : code;
}

DeviceCode FollowedCopies::settle_in(EventHandle in, Bytes bytes, FrameworkStream compute) {
  const DeviceCode code = join(in, bytes, compute);
  if (code == DeviceCode::ok) streams_.release(in);
  return code;
}

DeviceCode FollowedCopies::forget(std::optional<HostCopy>& copy) {
  // Behind all copies in, which are behind the copy out.
  DeviceCode code = streams_.wait(StreamRole::h2d, copy->out);
  if (copy->place) {
    EventHandle passed{};
    if (code == DeviceCode::ok) code = streams_.record(StreamRole::h2d, passed);
    if (code == DeviceCode::ok)
      arenas_[row(copy->place->arena)].parts.give_back({.offset = copy->place->offset, .bytes = copy->block.bytes},
                                                       passed);
  } else if (code == DeviceCode::ok) {
    code = pool_.free_after(copy->block, streams_.stream(StreamRole::h2d));
  }
  if (code == DeviceCode::ok) streams_.release(copy->out);
  if (code == DeviceCode::ok) copy.reset();
  return code;
}

}  // namespace tidemark::swap
