#include "planner/layout/free_list.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tidemark::layout {

Bytes FreeList::take_lowest(Bytes bytes) {
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    if (runs_[r].largest < bytes) continue;
    const auto& gaps = runs_[r].gaps;
    const auto fit = std::find_if(gaps.begin(), gaps.end(), [bytes](const Gap& gap) { return gap.bytes() >= bytes; });
    const Bytes offset = fit->begin;
    shrink(r, static_cast<std::size_t>(fit - gaps.begin()), bytes);
    return offset;
  }
  return std::exchange(frontier_, frontier_ + bytes);
}

void FreeList::give_back(Bytes offset, Bytes bytes) {
  assert(bytes > 0 && offset + bytes <= frontier_);
  if (offset + bytes == frontier_) {
    frontier_ = offset;
    merge_into_frontier();
    return;
  }
  insert({offset, offset + bytes});
}

void FreeList::shrink(std::size_t run, std::size_t gap, Bytes bytes) {
  Run& r = runs_[run];
  Gap& g = r.gaps[gap];
  const bool was_largest = g.bytes() == r.largest;
  g.begin += bytes;
  if (g.bytes() == 0) r.gaps.erase(r.gaps.begin() + static_cast<std::ptrdiff_t>(gap));
  if (r.gaps.empty()) {
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(run));
  } else if (was_largest) {
    measure(r);
  }
}

std::size_t FreeList::run_for(Bytes offset) const {
  const auto above = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                      [](Bytes at, const Run& run) { return at < run.gaps.front().begin; });
  return above == runs_.begin() ? 0 : static_cast<std::size_t>(above - runs_.begin()) - 1;
}

void FreeList::insert(Gap gap) {
  if (runs_.empty()) {
    runs_.push_back({gap.bytes(), {gap}});
    return;
  }
  const std::size_t r = run_for(gap.begin);
  auto& gaps = runs_[r].gaps;
  auto at = std::upper_bound(gaps.begin(), gaps.end(), gap.begin,
                             [](Bytes begin, const Gap& other) { return begin < other.begin; });
  if (at != gaps.begin() && (at - 1)->end == gap.begin) {
    --at;
    at->end = gap.end;
  } else {
    at = gaps.insert(at, gap);
  }
  if (at + 1 != gaps.end() && (at + 1)->begin == at->end) {
    at->end = (at + 1)->end;
    gaps.erase(at + 1);
  } else if (at + 1 == gaps.end() && r + 1 < runs_.size() && runs_[r + 1].gaps.front().begin == at->end) {
    at->end = runs_[r + 1].gaps.front().end;
    auto& above = runs_[r + 1];
    above.gaps.erase(above.gaps.begin());
    if (above.gaps.empty()) {
      runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(r) + 1);
    } else {
      measure(above);
    }
  }
  runs_[r].largest = std::max(runs_[r].largest, at->bytes());
  split_if_full(r);
}

void FreeList::merge_into_frontier() {
  if (runs_.empty() || runs_.back().gaps.back().end != frontier_) return;
  Run& last = runs_.back();
  frontier_ = last.gaps.back().begin;
  last.gaps.pop_back();
  if (last.gaps.empty()) {
    runs_.pop_back();
  } else {
    measure(last);
  }
}

void FreeList::split_if_full(std::size_t run) {
  if (runs_[run].gaps.size() < kRunGaps) return;
  Run upper;
  auto& gaps = runs_[run].gaps;
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  upper.gaps.assign(middle, gaps.end());
  gaps.erase(middle, gaps.end());
  measure(runs_[run]);
  measure(upper);
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(run) + 1, std::move(upper));
}

void FreeList::measure(Run& run) {
  run.largest = 0;
  for (const Gap& gap : run.gaps) run.largest = std::max(run.largest, gap.bytes());
}

}  // namespace tidemark::layout
