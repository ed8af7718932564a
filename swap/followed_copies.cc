#include "swap/followed_copies.h"

#include <chrono>
#include <utility>

namespace tidemark::swap {
namespace {

constexpr StreamRole kCopyRoles[] = {StreamRole::d2h, StreamRole::h2d};

}  // namespace

FollowedCopies::FollowedCopies(Device& device) : host_(device), streams_(device), transfers_(streams_) {}

DeviceCode FollowedCopies::open(std::span<const Bytes> arenas, Bytes bound_bytes, Bytes foreseen_bytes) {
  const DeviceCode code = host_.open(arenas, bound_bytes, foreseen_bytes);
  if (code != DeviceCode::ok && code != DeviceCode::out_of_memory) return code;
  return streams_.open(kCopyRoles);
}

DeviceCode FollowedCopies::take_host(HostPiece place, HostCopy& copy) {
  for (const EventHandle event : parts_.forget_passed(device())) streams_.release(event);
  std::vector<EventHandle> behind;
  const bool has_place = place.arena != kNone<ArenaId> && host_.has(place.arena) && parts_.take(place, behind);
  copy.place = place;
  if (!has_place) {
    copy.place.arena = kNone<ArenaId>;
    return host_.take(place.bytes, copy.block);
  }
  for (const EventHandle event : behind)
    if (const DeviceCode code = streams_.wait(StreamRole::d2h, event); code != DeviceCode::ok) return code;
  return DeviceCode::ok;
}

std::span<const HostRange> FollowedCopies::ranges_of(const HostCopy& copy) {
  return copy.place.arena == kNone<ArenaId> ? host_.ranges_of(copy.block) : host_.ranges_of({&copy.place, 1});
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

DeviceCode FollowedCopies::begin_out(Address from, HostPiece place, FrameworkStream compute, std::int64_t id,
                                     std::optional<HostCopy>& copy) {
  HostCopy made;
  DeviceCode code = take_host(place, made);
  if (code == DeviceCode::ok) code = follow(compute, StreamRole::d2h);
  if (code == DeviceCode::ok) code = transfers_.copy_out(ranges_of(made), from, id, TransferEngine::Cause::step);
  if (code == DeviceCode::ok) code = streams_.record(StreamRole::d2h, made.out);
  if (code == DeviceCode::ok) {
    copy = std::move(made);
  } else if (made.has_memory()) {
    free_at_once(made);
  }
  return code;
}

DeviceCode FollowedCopies::settle_out(HostCopy& copy, FrameworkStream compute) {
  const DeviceCode code = join(copy.out, copy.place.bytes, compute);
  copy.is_settled = code == DeviceCode::ok;
  return code;
}

DeviceCode FollowedCopies::begin_in(Address to, const HostCopy& copy, FrameworkStream compute, std::int64_t id,
                                    EventHandle& in) {
  DeviceCode code = follow(compute, StreamRole::h2d);
  if (code == DeviceCode::ok) code = streams_.wait(StreamRole::h2d, copy.out);
  if (code == DeviceCode::ok) code = transfers_.copy_in(to, ranges_of(copy), id, TransferEngine::Cause::step);
  if (code == DeviceCode::ok) code = streams_.record(StreamRole::h2d, in);
  if (code != DeviceCode::ok) drain();
  return code;
}

DeviceCode FollowedCopies::settle_in(EventHandle in, Bytes bytes, FrameworkStream compute) {
  const DeviceCode code = join(in, bytes, compute);
  if (code == DeviceCode::ok) streams_.release(in);
  return code;
}

DeviceCode FollowedCopies::free_behind_copies(HostCopy& copy) {
  // Behind all copies in, which are behind the copy out.
  if (const DeviceCode code = streams_.wait(StreamRole::h2d, copy.out); code != DeviceCode::ok) return code;
  if (copy.place.arena == kNone<ArenaId>) return host_.free_after(copy.block, streams_.stream(StreamRole::h2d));
  EventHandle passed{};
  const DeviceCode code = streams_.record(StreamRole::h2d, passed);
  if (code == DeviceCode::ok) parts_.give_back(copy.place, passed);
  return code;
}

void FollowedCopies::free_at_once(const HostCopy& copy) {
  drain();
  if (copy.place.arena == kNone<ArenaId>) {
    host_.free(copy.block);
  } else {
    parts_.give_back(copy.place);
  }
}

void FollowedCopies::forget(HostCopy& copy) {
  if (free_behind_copies(copy) != DeviceCode::ok) free_at_once(copy);
  streams_.release(copy.out);
}

}  // namespace tidemark::swap
