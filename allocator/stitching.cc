#include "allocator/stitching.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "allocator/give_back.h"

namespace tidemark::allocator {
namespace {

/// The granules that a window shows of a piece.
Stretch shown_part(const Stretch& piece, Bytes granule) {
  const Bytes first = piece.offset / granule * granule;
  return {.offset = first, .bytes = round_up(piece.offset + piece.bytes, granule) - first};
}

/// What free ranges offer to a stitched block, by where it lies in its granules.
struct Offers {
  MetadataVector<Stretch> tails;   ///< end with a granule
  MetadataVector<Stretch> heads;   ///< start with a granule
  MetadataVector<Stretch> wholes;  ///< granules
  Bytes whole_bytes = 0;

  void add(Bytes from, Bytes to, Bytes granule) {
    const Bytes first = round_up(from, granule), last = to / granule * granule;
    if (first > last) return;  // inside one granule, at neither end
    if (from < first) tails.push_back({.offset = from, .bytes = first - from});
    if (last < to) heads.push_back({.offset = last, .bytes = to - last});
    if (first == last) return;
    wholes.push_back({.offset = first, .bytes = last - first});
    whole_bytes += last - first;
  }
};

Offers collect(const OffsetAllocator& space, Bytes granule, const std::function<bool(const RangeInfo&)>& usable) {
  Offers offers;
  Bytes from = 0, to = 0;
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state != RangeState::free || !usable(range)) continue;
    if (range.offset != to) {
      if (from < to) offers.add(from, to, granule);
      from = range.offset;
    }
    to = range.end();
  }
  if (from < to) offers.add(from, to, granule);
  const auto shorter = [](const Stretch& a, const Stretch& b) {
    return std::tie(a.bytes, a.offset) < std::tie(b.bytes, b.offset);
  };
  for (auto* list : {&offers.tails, &offers.heads, &offers.wholes}) std::sort(list->begin(), list->end(), shorter);
  return offers;
}

/// The two ends of a block; a piece of 0 bytes is none.
struct Ends {
  Stretch tail;
  Stretch head;
};

/// A tail and a head hole of `bytes` together (one of them may do alone), with the least left over.
std::optional<Ends> best_ends(const Offers& offers, Bytes bytes, Bytes granule) {
  if (bytes == 0) return Ends{};
  std::optional<Ends> best;
  Bytes best_waste = 0;
  const auto offer = [&](const Stretch& tail, const Stretch& head) {
    const Bytes waste = tail.bytes + head.bytes - bytes;
    if (waste < 0 || (best && waste >= best_waste)) return;
    best = Ends{.tail = tail, .head = head};
    best_waste = waste;
  };
  if (bytes < granule) {
    for (const Stretch& tail : offers.tails) offer(tail, {});
    for (const Stretch& head : offers.heads) offer({}, head);
  }
  auto head = offers.heads.rbegin();  // the larger the tail, the smaller the head that will do
  for (const Stretch& tail : offers.tails) {
    for (; head != offers.heads.rend() && tail.bytes + head->bytes >= bytes; ++head) offer(tail, *head);
    if (head != offers.heads.rbegin()) offer(tail, *(head - 1));
  }
  if (!best) return best;
  best->head.bytes = std::min(best->head.bytes, bytes);
  const Bytes rest = bytes - best->head.bytes;
  best->tail = {.offset = best->tail.offset + best->tail.bytes - rest, .bytes = rest};
  return best;
}

}  // namespace

StitchPlan find_stitch(const OffsetAllocator& space, Bytes bytes, Bytes granule,
                       const std::function<bool(const RangeInfo&)>& usable) {
  const Offers offers = collect(space, granule, usable);
  const Bytes rest = bytes % granule;
  Bytes middle = bytes - rest;
  std::optional<Ends> ends;
  if (middle > 0 && (ends = best_ends(offers, rest + granule, granule))) {
    middle -= granule;
  } else {
    ends = best_ends(offers, rest, granule);
  }
  const Bytes wholes = ends ? middle : middle + granule;
  StitchPlan plan{.pieces = {}, .missing_bytes = std::max<Bytes>(wholes - offers.whole_bytes, 0)};
  if (plan.missing_bytes > 0) return plan;
  if (ends && ends->tail.bytes > 0) plan.pieces.push_back(ends->tail);
  Bytes need = ends ? middle : middle + rest;  // without ends the last granule is used in part
  for (const Stretch& whole : offers.wholes) {
    if (need == 0) break;
    plan.pieces.push_back({.offset = whole.offset, .bytes = std::min(whole.bytes, need)});
    need -= plan.pieces.back().bytes;
  }
  if (ends && ends->head.bytes > 0) plan.pieces.push_back(ends->head);
  return plan;
}

bool StitchedWindows::ready_for(Bytes window_bytes) {
  if (base_ == 0) {
    if (device_.reserve(space_bytes_, base_) != DeviceCode::ok) {
      base_ = 0;
      return false;
    }
    space_.grow(space_bytes_);
  }
  return window_bytes <= space_.free_bytes();
}

StitchedWindow* StitchedWindows::make(const MetadataVector<Stretch>& pieces, Bytes bytes, Address home) {
  auto window = std::make_unique<StitchedWindow>();
  for (const Stretch& piece : pieces) window->window_bytes += shown_part(piece, granule_).bytes;
  if (!ready_for(window->window_bytes)) return nullptr;
  window->start = pieces.front().offset - shown_part(pieces.front(), granule_).offset;
  window->bytes = bytes;
  window->pieces = pieces;
  window->ranges.reserve(pieces.size());
  window->age = ++age_;
  windows_.reserve(windows_.size() + 1);
  const auto addresses = space_.allocate(window->window_bytes);
  if (!addresses) return nullptr;
  window->address_range = addresses->id;
  window->view.base = base_ + static_cast<Address>(addresses->offset);
  StitchedWindow& made = *window;
  windows_.push_back(std::move(window));
  if (show(made, home) == DeviceCode::ok) return &made;
  made.bytes = 0;  // never found again, should it not come down
  (void)take_down(made);
  return nullptr;
}

/// REQUIRES: nothing is shown.
DeviceCode StitchedWindows::show(StitchedWindow& window, Address home) {
  for (const Stretch& piece : window.pieces) {
    const Stretch shown = shown_part(piece, granule_);
    const DeviceCode code = window.view.show(device_, home + static_cast<Address>(shown.offset), shown.bytes);
    if (code != DeviceCode::ok) return code;
  }
  return DeviceCode::ok;
}

StitchedWindow* StitchedWindows::find_dead(Bytes bytes, const std::function<bool(const StitchedWindow&)>& ready) {
  for (const auto& window : windows_) {
    if (!window->live && window->bytes == bytes && ready(*window)) return window.get();
  }
  return nullptr;
}

void StitchedWindows::suspend() {
  for (std::size_t i = windows_.size(); i-- > 0;) {
    StitchedWindow& window = *windows_[i];
    window.live ? (void)window.view.hide(device_) : (void)take_down(window);
  }
}

DeviceCode StitchedWindows::resume(Address home) {
  for (std::size_t i = windows_.size(); i-- > 0;) {  // those that were freed meanwhile
    if (!windows_[i]->live) (void)take_down(*windows_[i]);
  }
  for (const auto& window : windows_) {
    if (!window->live) continue;
    const bool is_hidden = window->view.hide(device_) == DeviceCode::ok;
    const DeviceCode code = is_hidden ? show(*window, home) : DeviceCode::no_resource;
    if (code == DeviceCode::ok) continue;
    for (const auto& shown : windows_) (void)shown->view.hide(device_);
    return code;
  }
  return DeviceCode::ok;
}

bool StitchedWindows::take_down(StitchedWindow& window) {
  if (window.view.hide(device_) != DeviceCode::ok) return false;
  (void)space_.free(window.address_range);
  std::erase_if(windows_, [&](const auto& other) { return other.get() == &window; });
  return true;
}

bool StitchedWindows::detach(Bytes offset, Bytes bytes) {
  for (std::size_t i = windows_.size(); i-- > 0;) {
    StitchedWindow& window = *windows_[i];
    const bool shows =
        !window.live && std::any_of(window.pieces.begin(), window.pieces.end(), [&](const Stretch& piece) {
          return piece.offset / granule_ * granule_ < offset + bytes &&
                 offset < round_up(piece.offset + piece.bytes, granule_);
        });
    if (shows && !take_down(window)) return false;
  }
  return true;
}

void StitchedWindows::limit(const std::function<bool(const StitchedWindow&)>& over) {
  const auto is_dead = [](const auto& window) { return !window->live; };
  while (static_cast<std::size_t>(std::count_if(windows_.begin(), windows_.end(), is_dead)) >= kKept) {
    StitchedWindow* oldest = nullptr;
    for (const auto& window : windows_) {
      if (window->live || !over(*window)) continue;
      if (oldest == nullptr || window->age < oldest->age) oldest = window.get();
    }
    if (oldest == nullptr || !take_down(*oldest)) return;
  }
}

void StitchedWindows::release() {
  if (base_ == 0) return;
  for (const auto& window : windows_) (void)window->view.hide(device_);
  give_back([&] { return device_.release(base_, space_bytes_); });  // at the end nobody is left to tell
  windows_.clear();
  by_range_.clear();
  base_ = 0;
}

void StitchedWindows::note(RangeId range, StitchedWindow* window) {
  const auto index = static_cast<std::size_t>(range);
  if (index >= by_range_.size()) by_range_.resize(std::max(index + 1, 2 * by_range_.size()), nullptr);
  by_range_[index] = window;
}

void StitchedWindows::bring_to_life(StitchedWindow& window, MetadataVector<RangeId> ranges) {
  for (const RangeId range : ranges) note(range, nullptr);  // may throw; nothing has changed then
  for (const RangeId range : ranges) note(range, &window);
  window.ranges = std::move(ranges);
  window.live = true;
  window.age = ++age_;
}

void StitchedWindows::bury(StitchedWindow& window, StreamSlot stream, Epoch death) {
  for (const RangeId range : window.ranges) note(range, nullptr);
  window.ranges.clear();
  window.live = false;
  window.stream = stream;
  window.death = death;
}

std::string StitchedWindows::validate(const OffsetAllocator& home) const {
  for (const auto& window : windows_) {
    if (!window->live) continue;
    Bytes sum = 0;
    for (std::size_t i = 0; i < window->pieces.size(); ++i) {
      const RangeInfo range = home.info(window->ranges[i]);
      if (range.state != RangeState::used || range.offset != window->pieces[i].offset ||
          range.bytes != window->pieces[i].bytes || window_of(range.id) != window.get()) {
        return fmt::format("piece {} of the stitched block at {:#x} is not at home", i, window->view.base);
      }
      const Bytes end = range.end();
      if ((i > 0 && range.offset % granule_ != 0) || (i + 1 < window->pieces.size() && end % granule_ != 0)) {
        return fmt::format("piece {} of the stitched block at {:#x} leaves a gap", i, window->view.base);
      }
      sum += range.bytes;
    }
    if (sum != window->bytes || window->ranges.size() != window->pieces.size() ||
        (window->view.shown_bytes > 0 && window->view.shown_bytes != window->window_bytes)) {
      return fmt::format("the stitched block at {:#x} has {} of {} bytes", window->view.base, sum, window->bytes);
    }
  }
  return space_.validate(OffsetAllocator::Check::links);
}

}  // namespace tidemark::allocator
