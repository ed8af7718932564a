#include "core/link_replay.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tidemark {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// What happens to each page, in the order in which things happen.
class Link {
 public:
  Link(const OpList& list, const OpSchedule& schedule)
      : list_(list),
        schedule_(schedule),
        out_end_(schedule.swaps.size()),
        in_end_(schedule.swaps.size()),
        by_after_(sorted([](const OpSchedule::Swap& s) { return std::tuple(s.after, s.gone, s.storage); })),
        by_gone_(sorted([](const OpSchedule::Swap& s) { return std::tuple(s.gone, s.after, s.storage); })),
        by_back_(sorted([](const OpSchedule::Swap& s) { return std::tuple(s.back, s.before, s.storage); })),
        by_before_(sorted([](const OpSchedule::Swap& s) { return std::tuple(s.before, s.back, s.storage); })) {
    const std::vector<std::uint8_t> changed = changed_storages(list);
    for (std::size_t i = 0; i < schedule.swaps.size(); ++i) {
      const std::int32_t s = schedule.swaps[i].storage;
      const bool first = i == 0 || schedule.swaps[i - 1].storage != s;
      copies_out_.push_back(first || changed[at(s)] != 0 ? 1 : 0);
    }
  }

  [[nodiscard]] std::int64_t waited() {
    std::int64_t now = 0, out_free = 0, in_free = 0, waited = 0;
    std::size_t after = 0, gone = 0, back = 0, before = 0;
    for (std::int32_t p = 0; at(p) < schedule_.order.size(); ++p) {
      const std::int64_t ready = now;
      for (; gone < by_gone_.size() && swap(by_gone_[gone]).gone == p; ++gone)
        now = std::max(now, out_end_[by_gone_[gone]]);
      for (; back < by_back_.size() && swap(by_back_[back]).back == p; ++back) {
        const std::size_t i = by_back_[back];
        in_free = std::max({in_free, now, out_end_[i]}) + row(i).page_in_time;
        in_end_[i] = in_free;
      }
      for (; before < by_before_.size() && swap(by_before_[before]).before == p; ++before)
        now = std::max(now, in_end_[by_before_[before]]);
      waited += now - ready;
      now += list_.ops[at(schedule_.order[at(p)])].cost;
      for (; after < by_after_.size() && swap(by_after_[after]).after == p; ++after) {
        const std::size_t i = by_after_[after];
        if (copies_out_[i] != 0)
          out_end_[i] = out_free = std::max(out_free, now) + row(i).page_out_time;
        else
          out_end_[i] = out_end_[i - 1];
      }
    }
    return waited;
  }

  [[nodiscard]] Bytes host_peak() const {
    std::vector<Bytes> change(schedule_.order.size() + 1);
    for (std::size_t i = 0; i < schedule_.swaps.size(); ++i) {
      const bool held_on =
          i + 1 < schedule_.swaps.size() && swap(i + 1).storage == swap(i).storage && copies_out_[i + 1] == 0;
      if (copies_out_[i] != 0) change[at(swap(i).after)] += row(i).bytes;
      if (!held_on) change[at(swap(i).before)] -= row(i).bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return change.empty() ? 0 : std::ranges::max(change);
  }

 private:
  template <class Key>
  [[nodiscard]] std::vector<std::size_t> sorted(Key key) const {
    std::vector<std::size_t> order(schedule_.swaps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return key(schedule_.swaps[i]); });
    return order;
  }
  [[nodiscard]] const OpSchedule::Swap& swap(std::size_t i) const { return schedule_.swaps[i]; }
  [[nodiscard]] const OpList::Storage& row(std::size_t i) const { return list_.storages[at(swap(i).storage)]; }

  const OpList& list_;
  const OpSchedule& schedule_;
  std::vector<std::int64_t> out_end_, in_end_;  ///< per page
  std::vector<std::size_t> by_after_, by_gone_, by_back_, by_before_;
  std::vector<std::uint8_t> copies_out_;  ///< per page; otherwise the copy is in host memory already
};

}  // namespace

LinkReplay replay_link(const OpList& list, const OpSchedule& schedule) {
  Link link(list, schedule);
  return {.waited = link.waited(), .host_peak_bytes = link.host_peak()};
}

}  // namespace tidemark
