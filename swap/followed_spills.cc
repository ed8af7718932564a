// Of FollowedStep: what gives device memory up where the framework's allocator is at its end.

#include <algorithm>

#include "swap/device_error.h"
#include "swap/followed_step.h"

namespace tidemark::swap {

bool FollowedStep::can_be_rebuilt_again(std::int32_t storage) const {
  return can_be_rebuilt(storage) && !ran_last_[row(made_by(storage))];
}

/// By what autograd saved, by the plan's recomputes, and by its residencies, whichever is first. Backward asks for what
/// was saved in the opposite order, so that what is adopted is needed right before what was saved before it.
std::int64_t FollowedStep::next_use(std::int32_t storage, std::int32_t now) const {
  std::int64_t next = kNever;
  for (const OpId op : there(storage).saved)
    if (op != kNone<OpId>) next = std::min<std::int64_t>(next, program_.time_of[row(op)]);
  const std::span<const std::int32_t> again = recompute_times_of(storage);
  if (const auto found = std::ranges::upper_bound(again, now); found != again.end())
    next = std::min<std::int64_t>(next, *found);
  for (const FollowedResidency& one : residencies_of(storage)) {
    if (one.first > now)
      next = std::min<std::int64_t>(next, one.first);
    else if (one.last > now && next == kNever)
      next = one.last;
  }
  return next == kNever ? there(storage).behind : next;
}

void FollowedStep::list_spillable(std::vector<Spillable>& out) const {
  const std::int32_t now = *std::ranges::max_element(reached_);
  std::vector<std::int32_t> latest;  // of each block that is there; those that were adopted and are gone may be many
  latest.reserve(storage_of_.size());
  for (const auto& [handle, storage] : storage_of_) latest.push_back(storage);
  std::ranges::sort(latest);
  for (const std::int32_t storage : latest) {
    const Stored& one = there(storage);
    if (one.block.bytes == 0 || one.pins > 0) continue;
    if (one.beneath >= 0) continue;  // the block would stay for the other
    if (!one.host && copies_ == nullptr && !can_be_rebuilt_again(storage)) continue;
    out.push_back({.storage = storage,
                   .next_use = next_use(storage, now),
                   .rank = is_adopted(storage) ? -std::int64_t{storage} : one.block.bytes,
                   .bytes = one.block.bytes,
                   .handle = one.block.handle});
  }
}

Result<bool> FollowedStep::spill(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  const Bytes bytes = one.block.bytes;
  if (one.host && !one.leaving && one.host->is_settled) {
    ++counts_.dropped;
    counts_.dropped_bytes += bytes;
    release(storage, stream);
    return true;
  }
  if (copies_ != nullptr) {
    if (Status s = settle_in(storage, stream); !s) return s.error();
    DeviceCode code = DeviceCode::ok;
    if (!one.host) {
      const auto id = static_cast<std::int64_t>(name_of(storage));
      code = copies_->begin_out(one.block.address, {.bytes = bytes}, stream, id, one.host);
      one.leaving = code == DeviceCode::ok;
    }
    if (code == DeviceCode::ok && !one.host->is_settled) code = copies_->settle_out(*one.host, stream);
    if (code == DeviceCode::ok) {
      ++counts_.spilled;
      counts_.spilled_bytes += bytes;
      release(storage, stream);
      return true;
    }
    if (code != DeviceCode::out_of_memory) return check(code, storage, "spilling it").error();
  }
  if (!can_be_rebuilt_again(storage)) return false;
  ++counts_.dropped;
  counts_.dropped_bytes += bytes;
  release(storage, stream);
  return true;
}

}  // namespace tidemark::swap
