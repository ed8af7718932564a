#include "planner/decide/flat/copy_times.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

class CopyTimes {
 public:
  CopyTimes(const Problem& problem, RunOrder schedule, Bytes limit)
      : p_(problem), schedule_(std::move(schedule)), limit_(limit), begin_(schedule_.order.size() + 1) {
    for (RunOrder::Swap& swap : schedule_.swaps) {
      swap.gone = swap.after + 1;
      swap.back = swap.before;
    }
    live_ = carry_out(problem, schedule_).profile;
    for (std::size_t i = 0; i < schedule_.swaps.size(); ++i) {
      const std::int32_t s = schedule_.swaps[i].storage;
      const bool first = i == 0 || schedule_.swaps[i - 1].storage != s;
      out_time_.push_back(first || problem.changed[at(s)] != 0 ? problem.copy_out[at(s)].link_ns : 0);
    }
  }

  RunOrder run() {
    let_go();
    take_back();
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] Bytes bytes_of(std::size_t i) const { return p_.bytes[at(schedule_.swaps[i].storage)]; }

  /// Pages out, first come first served: each is gone once it is over, or where its room is needed.
  void let_go() {
    const std::vector<std::size_t> ready =
        sorted([](const RunOrder::Swap& s) { return std::tuple(s.after, s.before); });
    std::vector<std::int64_t> over(ready.size());  // by place in `ready`
    std::vector<std::size_t> due(live_.size());    // how many of `ready` are over when an op begins, whatever it takes
    for (std::size_t i = 0; i < ready.size(); ++i) due[at(schedule_.swaps[ready[i]].before)] = i + 1;
    std::size_t seen = 0, gone = 0;
    std::int64_t now = 0, link_free = 0;
    Bytes held = 0;
    std::vector<std::int64_t> made(
        p_.bytes.size());  // when the content of a storage is there: copies out wait for that
    std::size_t back = 0;
    const std::vector<std::size_t> needed =
        sorted([](const RunOrder::Swap& s) { return std::tuple(s.before, s.storage); });
    for (std::int32_t p = 0; at(p) < live_.size(); ++p) {
      while (gone < seen && (over[gone] <= now || live_[at(p)] + held > limit_ || gone < due[at(p)])) {
        RunOrder::Swap& swap = schedule_.swaps[ready[gone]];
        held -= bytes_of(ready[gone]);
        now = std::max(now, over[gone]);
        swap.gone = p;
        ++gone;
      }
      live_[at(p)] += held;
      begin_[at(p)] = now;
      for (; back < needed.size() && schedule_.swaps[needed[back]].before == p; ++back)
        made[at(schedule_.swaps[needed[back]].storage)] = now;
      now += p_.cost[at(schedule_.order[at(p)])];
      for (const std::int32_t s : p_.writes[schedule_.order[at(p)]]) made[at(s)] = now;
      for (; seen < ready.size() && schedule_.swaps[ready[seen]].after == p; ++seen) {
        link_free = std::max(link_free, made[at(schedule_.swaps[ready[seen]].storage)]) + out_time_[ready[seen]];
        over[seen] = link_free;
        held += bytes_of(ready[seen]);
      }
    }
    begin_.back() = now;
  }

  /// Pages in, from the last that is needed backwards.
  void take_back() {
    const std::vector<std::size_t> needed =
        sorted([](const RunOrder::Swap& s) { return std::tuple(s.before, s.storage); });
    std::int64_t link_free = begin_.back();
    for (auto place = needed.rbegin(); place != needed.rend(); ++place) {
      RunOrder::Swap& swap = schedule_.swaps[*place];
      const Bytes bytes = bytes_of(*place);
      const std::int64_t latest = std::min(begin_[at(swap.before)], link_free) - p_.copy_in[at(swap.storage)].link_ns;
      while (swap.back > swap.gone && begin_[at(swap.back)] > latest && live_[at(swap.back - 1)] + bytes <= limit_) {
        --swap.back;
        live_[at(swap.back)] += bytes;
      }
      link_free = std::min(link_free, std::max(latest, begin_[at(swap.back)]));
    }
  }

  template <class Key>
  [[nodiscard]] std::vector<std::size_t> sorted(Key key) const {
    std::vector<std::size_t> order(schedule_.swaps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return key(schedule_.swaps[i]); });
    return order;
  }

  const Problem& p_;
  RunOrder schedule_;
  const Bytes limit_;
  std::vector<Bytes> live_;             ///< per position
  std::vector<std::int64_t> begin_;     ///< per position: when it runs, all pages in being in time; and the end
  std::vector<std::int64_t> out_time_;  ///< per page
};

}  // namespace

RunOrder time_copies(const Problem& problem, RunOrder schedule, Bytes limit) {
  return CopyTimes(problem, std::move(schedule), limit).run();
}

}  // namespace tidemark::decide::flat
