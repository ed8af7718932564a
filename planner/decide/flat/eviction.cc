#include "planner/decide/flat/eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "planner/decide/flat/list_length.h"
#include "planner/decide/flat/random.h"
#include "planner/decide/flat/recompute.h"

namespace tidemark::decide::flat {
namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kSamples = 400;   // of what is in memory, where that is more
constexpr double kAlmost = 0.95;         // of the best score does as well
constexpr std::int32_t kRefreshes = 32;  // of the index, over the list
constexpr int kMostMissing = 64;         // runs looked at for what a storage costs to bring back
constexpr int kMostMissingOfMany = 300;  // of long lists, which run full where they see no way
constexpr int kMostDepth = 16;
constexpr double kHopeless = 1.05;           // times the budget, where nothing may leave any more
constexpr std::int32_t kAskEvery = 64;       // ops
constexpr std::int64_t kRunWork = 20;        // besides the storages looked at
constexpr std::int64_t kTakeBackWork = 100;  // per op, at most

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

class Pass {
 public:
  Pass(const Problem& p, Bytes budget, const EvictionWay& way)
      : p_(p),
        way_(way),
        budget_(budget),
        place_(at(p.storage_count), -1),
        next_(at(p.storage_count)),
        wanted_(at(p.storage_count), kNever),
        wanted_last_(at(p.storage_count), -1),
        pending_(at(p.storage_count)),
        seen_(at(p.op_count)),
        counted_(at(p.storage_count)),
        paged_(at(p.storage_count)),
        by_page_(at(p.storage_count)),
        incoming_(at(p.storage_count)),
        was_paged_(at(p.storage_count)),
        touched_(p.begin),
        listed_(at(p.storage_count), -1) {
    if (p.has_windows()) {
      gone_.resize(at(p.op_count));
      due_.resize(at(p.op_count));
    }
    for (std::int32_t s = 0; s < p.storage_count; ++s)
      if (p.begin[at(s)] == kStart && p.producer[at(s)] < 0 && !p.uses[at(s)].empty()) arrive(s);
    if (way.slack < 1) measure_time();
  }

  /// False: it would take more than that, or was told to stop.
  bool run(std::int64_t most_work, const std::function<bool()>& should_stop) {
    for (now_ = 0; now_ < p_.op_count; ++now_) {
      if (work_ > most_work || is_hopeless_) return false;
      if (now_ % kAskEvery == 0 && should_stop && should_stop()) return false;
      const std::vector<std::int32_t> again = missing_for(now_);
      for (const std::int32_t r : p_.reads[now_]) ++pending_[at(r)];
      for (const std::int32_t v : again)
        for (const std::int32_t r : p_.reads[v]) ++pending_[at(r)];
      if (p_.has_windows()) move_pages();  // what is read now is pending by then, and stays
      for (const std::int32_t v : again) run_op(v);
      run_op(now_);
    }
    return true;
  }

  [[nodiscard]] Solution solution() {
    return without_useless(p_, {.reruns = keys_, .swaps = swaps_}, budget_, [&](State& state) {
      // Of a list without pages that is not long, local search finds it by itself, and more in the same time.
      if (swaps_.empty() && p_.op_count <= kLongOps) return;
      const std::int64_t before = state.profile().work();
      undo_idle(state, kTakeBackWork * p_.op_count);
      work_ += state.profile().work() - before;
    });
  }
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  [[nodiscard]] bool here(std::int32_t s) const { return place_[at(s)] >= 0; }
  [[nodiscard]] bool is_dropped(std::int32_t s) const { return !here(s) && paged_[at(s)] == 0; }

  void arrive(std::int32_t s) {
    if (here(s)) return;
    paged_[at(s)] = 0;
    place_[at(s)] = static_cast<std::int32_t>(residents_.size());
    residents_.push_back(s);
    memory_ += p_.bytes[at(s)];
    if (indexed_) list(s);
  }

  void leave(std::int32_t s) {
    const std::int32_t last = residents_.back();
    residents_[at(place_[at(s)])] = last;
    place_[at(last)] = place_[at(s)];
    place_[at(s)] = -1;
    residents_.pop_back();
    memory_ -= p_.bytes[at(s)];
  }

  /// The next op of the list behind the present one that uses it.
  std::int32_t next_use(std::int32_t s) {
    const std::vector<Key>& uses = p_.uses[at(s)];
    std::size_t& next = next_[at(s)];
    while (next < uses.size() && stage_of(uses[next]) <= now_) ++next;
    return next < uses.size() ? stage_of(uses[next]) : kNever;
  }

  /// When it is next needed, be it to run something again that left.
  std::int32_t need(std::int32_t s, int depth = 0) {
    const std::int32_t use = next_use(s);
    if (wanted_[at(s)] <= now_ && depth < kMostDepth) {
      wanted_[at(s)] = kNever;
      for (const Key key : p_.uses[at(s)]) {
        const std::int32_t v = op_of(key);
        if (v > now_) break;
        for (const std::int32_t out : p_.writes[v])
          if (is_dropped(out) && p_.producer[at(out)] == v)
            wanted_[at(s)] = std::min(wanted_[at(s)], need(out, depth + 1));
        ++work_;
      }
    }
    return std::min(use, wanted_[at(s)] > now_ ? wanted_[at(s)] : kNever);
  }

  /// What running an op again needs is wanted then.
  void want_inputs(std::int32_t v, std::int32_t when) {
    ++stamp_;
    want_inputs_of(v, when, 0);
  }

  void want_inputs_of(std::int32_t v, std::int32_t when, int depth) {
    if (seen_[at(v)] == stamp_) return;
    seen_[at(v)] = stamp_;
    ++work_;
    for (const std::int32_t r : p_.reads[v]) {
      if (wanted_[at(r)] <= now_ || when < wanted_[at(r)]) wanted_[at(r)] = when;
      wanted_last_[at(r)] = std::max(wanted_last_[at(r)], when);
      if (is_dropped(r) && p_.producer[at(r)] >= 0 && depth < kMostDepth)
        want_inputs_of(p_.producer[at(r)], when, depth + 1);
    }
  }

  /// Ops to run again before one can run, in list order.
  std::vector<std::int32_t> missing_for(std::int32_t op) {
    const bool indexed =
        std::exchange(indexed_, false);  // what arrives is listed when it is run for: listing marks ops
    ++stamp_;
    std::vector<std::int32_t> found, open{op};
    while (!open.empty()) {
      const std::int32_t v = open.back();
      open.pop_back();
      for (const std::int32_t r : p_.reads[v]) {
        if (!is_dropped(r)) continue;  // a page comes in with the run that reads it
        const std::int32_t w = p_.producer[at(r)];
        if (w < 0 || !p_.may_recompute(w, op)) {
          if (p_.swappable[at(r)] != 0)
            paged_[at(r)] = 1;
          else
            arrive(r);  // it must have stayed
        } else if (seen_[at(w)] != stamp_) {
          seen_[at(w)] = stamp_;
          found.push_back(w);
          open.push_back(w);
        }
      }
    }
    indexed_ = indexed;
    std::ranges::sort(found);
    return found;
  }

  void run_op(std::int32_t v) {
    work_ += kRunWork;
    const Key run = key_of(now_, v);
    Bytes more = p_.transient[at(v)];
    for (const std::int32_t r : p_.reads[v])
      if (paged_[at(r)] != 0) more += p_.bytes[at(r)];
    for (const std::int32_t s : p_.writes[v])
      if (!here(s)) more += p_.bytes[at(s)];
    make_room(more);
    for (const std::int32_t r : p_.reads[v]) page_in(r, run);
    for (const std::int32_t s : p_.writes[v]) arrive(s);
    if (v != now_) keys_.push_back(run);
    for (const std::int32_t r : p_.reads[v]) touch(r, run);
    for (const std::int32_t s : p_.writes[v]) touch(s, run);
    for (const std::int32_t r : p_.reads[v]) --pending_[at(r)];
    for (const std::int32_t r : p_.reads[v]) drop_if_dead(r);
    for (const std::int32_t s : p_.writes[v]) drop_if_dead(s);
    for (const std::int32_t r : p_.reads[v])  // its next use is another
      if (indexed_ && here(r)) list(r);
  }

  void page_in(std::int32_t s, Key run) {
    if (paged_[at(s)] == 0 && incoming_[at(s)] == 0) return;
    arrive(s);
    incoming_[at(s)] = 0;
    was_paged_[at(s)] = 1;
    swaps_.push_back({.storage = s, .use = run});
  }

  void touch(std::int32_t s, Key run) {
    touched_[at(s)] = run;
    if (!p_.has_windows() || p_.swappable[at(s)] == 0) return;
    const std::int32_t gone = stage_of(p_.gone_from(s, run));
    if (gone < p_.op_count) gone_[at(gone)].push_back(s);
  }

  /// Copying in begins where it is due; what is copied out by now may go.
  void move_pages() {
    for (const std::int32_t s : due_[at(now_)]) {
      if (here(s) || paged_[at(s)] == 0) continue;
      make_room(p_.bytes[at(s)]);
      arrive(s);
      incoming_[at(s)] = 1;
    }
    for (const std::int32_t s : gone_[at(now_)])
      if (indexed_ && here(s)) list(s);
  }

  void drop_if_dead(std::int32_t s) {
    if (here(s) && pending_[at(s)] == 0 && need(s) == kNever) leave(s);
  }

  void make_room(Bytes more) {
    while (memory_ + more > budget_) {
      const std::int32_t best = p_.op_count > kLongOps ? best_of_index() : best_of_samples();
      if (best < 0) {
        is_hopeless_ =
            p_.op_count > kManyOps && static_cast<double>(memory_ + more) > kHopeless * static_cast<double>(budget_);
        return;
      }
      const std::int32_t when = need(best);
      leave(best);
      if (when == kNever) continue;
      if (by_page_[at(best)] == 0) {
        want_inputs(p_.producer[at(best)], when);
        continue;
      }
      paged_[at(best)] = 1;
      if (p_.has_windows()) due_[at(stage_of(p_.back_from(best, key_of(when, when))))].push_back(best);
    }
  }

  std::int32_t best_of_samples() {
    std::int32_t best = -1;
    double best_score = -1;
    const auto count = static_cast<std::int32_t>(residents_.size());
    for (std::int32_t i = 0; i < std::min(count, kSamples); ++i) {
      const std::int32_t s = residents_[at(count <= kSamples ? i : static_cast<std::int32_t>(random_.below(count)))];
      const double score = score_of(s);
      if (score > best_score || (score == best_score && s < best)) {
        best = s;
        best_score = score;
      }
    }
    return best;
  }

  void list(std::int32_t s) {
    const double score = score_of(s);
    listed_[at(s)] = score;
    if (score < 0) return;
    index_.emplace_back(score, s);
    std::ranges::push_heap(index_);
  }

  void list_all() {
    indexed_ = true;
    listed_at_ = now_;
    index_.clear();
    for (const std::int32_t s : residents_) list(s);
  }

  /// Scores fall as time goes by, and rise where a use is over, which lists the storage anew, or what it needs comes
  /// back, which waits for the next refresh: so the first that is still what it was listed as is the best, or nearly.
  std::int32_t best_of_index() {
    if (!indexed_ || listed_at_ + std::max(1, p_.op_count / kRefreshes) <= now_) list_all();
    for (;;) {
      while (!index_.empty()) {
        std::ranges::pop_heap(index_);
        const auto [known, s] = index_.back();
        index_.pop_back();
        if (!here(s) || known != listed_[at(s)]) continue;  // gone, or listed anew
        const double score = score_of(s);
        listed_[at(s)] = score;
        if (score < 0) continue;
        if (index_.empty() || score >= kAlmost * index_.front().first) return s;
        index_.emplace_back(score, s);
        std::ranges::push_heap(index_);
      }
      if (listed_at_ == now_) return -1;
      list_all();
    }
  }

  /// Time by what it is worth to be absent.
  void measure_time() {
    std::vector<Bytes> change(at(p_.op_count) + 1);
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      const Key begin = p_.begin[at(s)], end = p_.uses[at(s)].empty() ? begin : std::max(begin, p_.uses[at(s)].back());
      change[at(stage_of(begin))] += p_.bytes[at(s)];
      change[at(stage_of(end)) + 1] -= p_.bytes[at(s)];
    }
    Bytes kept = 0;
    double time = 0;
    for (std::int32_t v = 0; v < p_.op_count; ++v) {
      time_.push_back(time);
      kept += change[at(v)];
      time += kept + p_.transient[at(v)] > budget_ ? 1 : way_.slack;
    }
  }

  [[nodiscard]] double between(std::int32_t from, std::int32_t until) const {
    if (from >= until) return 0;
    return time_.empty() ? until - from : time_[at(until)] - time_[at(from)];
  }

  /// What keeping an input until then takes that would have gone earlier.
  [[nodiscard]] double held_for(std::int32_t r, std::int32_t when) const {
    const std::int32_t last =
        std::max({now_, wanted_last_[at(r)], p_.uses[at(r)].empty() ? -1 : stage_of(p_.uses[at(r)].back())});
    return static_cast<double>(p_.bytes[at(r)]) * between(last, when);
  }

  /// What its absence is worth, whichever way it comes back; < 0: it must stay.
  double score_of(std::int32_t s) {
    ++work_;
    if (pending_[at(s)] > 0 || incoming_[at(s)] != 0) return -1;
    const std::int32_t when = need(s);
    if (when == kNever) return std::numeric_limits<double>::infinity();
    if (p_.bytes[at(s)] == 0 || stage_of(p_.hold_until[at(s)]) >= now_) return -1;
    if (when == next_use(s) && !std::ranges::binary_search(p_.reads[when], s)) return -1;
    const double page = score_of_page(s, when), run = score_of_run(s, when, page);
    const double best = std::max(run, page);
    if (best < 0) return -1;
    by_page_[at(s)] = page > run ? 1 : 0;
    return way_.weight == nullptr ? best : (*way_.weight)[at(s)] * best;
  }

  /// `rival`: of less no more is asked than that it is less.
  double score_of_run(std::int32_t s, std::int32_t when, double rival) {
    const std::int32_t v = p_.producer[at(s)];
    if (v < 0 || !p_.may_recompute(v, when)) return -1;
    ++stamp_;
    int looked = 0;
    held_ = 0;
    most_cost_ = rival > 0 ? worth(p_.bytes[at(s)], between(now_, when), 0, 0) * 0.01 / rival
                           : std::numeric_limits<double>::infinity();
    spent_ = 0;
    const double cost = cost_of(v, when, looked);
    if (!std::isfinite(cost)) return -1;
    double held = held_;
    for (const std::int32_t r : p_.reads[v])
      if (!way_.deep && here(r)) held += held_for(r, when);
    return worth(p_.bytes[at(s)], between(now_, when), held, cost);
  }

  [[nodiscard]] double score_of_page(std::int32_t s, std::int32_t when) const {
    if (p_.swappable[at(s)] == 0) return -1;
    std::int32_t back = when;
    if (p_.has_windows()) {
      if (stage_of(p_.gone_from(s, touched_[at(s)])) > now_) return -1;
      back = stage_of(p_.back_from(s, key_of(when, when)));
    }
    return back <= now_ ? -1 : worth(p_.bytes[at(s)], between(now_, back), 0, page_cost(s));
  }

  [[nodiscard]] double worth(Bytes bytes, double length, double held, double cost) const {
    const double freed = static_cast<double>(bytes) * length;
    const double left = std::max(freed - way_.hold * held, freed * 1e-6);
    return left * std::pow(length, way_.distance - 1) / (cost + 0.01);
  }

  [[nodiscard]] double page_cost(std::int32_t s) const {
    const bool is_copied = was_paged_[at(s)] != 0 && p_.changed[at(s)] == 0;
    return static_cast<double>(p_.page_in[at(s)] + (is_copied ? 0 : p_.page_out[at(s)]));
  }

  /// Of running an op again with what is missing now; adds to `held_` what that holds.
  double cost_of(std::int32_t v, std::int32_t when, int& looked) {
    if (seen_[at(v)] == stamp_) return 0;
    seen_[at(v)] = stamp_;
    ++work_;
    if (++looked > most_missing_ || !p_.may_recompute(v, when)) return std::numeric_limits<double>::infinity();
    auto cost = static_cast<double>(p_.cost[at(v)]);
    spent_ += cost;
    if (spent_ > most_cost_) return std::numeric_limits<double>::infinity();
    for (const std::int32_t r : p_.reads[v]) {
      if (here(r)) {
        if (way_.deep && std::exchange(counted_[at(r)], stamp_) != stamp_) held_ += held_for(r, when);
        continue;
      }
      if (paged_[at(r)] != 0) {
        cost += page_cost(r);
        continue;
      }
      const std::int32_t w = p_.producer[at(r)];
      if (w < 0) return std::numeric_limits<double>::infinity();
      cost += cost_of(w, when, looked);
    }
    return cost;
  }

  const Problem& p_;
  const EvictionWay way_;
  const Bytes budget_;
  std::int32_t now_ = 0;
  Bytes memory_ = 0;
  std::vector<std::int32_t> residents_, place_;
  std::vector<std::size_t> next_;
  std::vector<std::int32_t> wanted_, wanted_last_, pending_;
  std::vector<std::int64_t> seen_, counted_;
  std::vector<std::uint8_t> paged_;                    ///< per storage: out, and comes back by a page
  std::vector<std::uint8_t> by_page_;                  ///< ... would come back so, when its score was last looked at
  std::vector<std::uint8_t> incoming_;                 ///< ... is on its way in
  std::vector<std::uint8_t> was_paged_;                ///< ... has a copy in host memory
  std::vector<Key> touched_;                           ///< ... last
  std::vector<std::vector<std::int32_t>> gone_, due_;  ///< per op, with windows: copied out by then; to be copied in
  std::int64_t stamp_ = 0, work_ = 0;
  int most_missing_ = p_.op_count > kManyOps ? kMostMissingOfMany : kMostMissing;
  double held_ = 0;
  double most_cost_ = 0, spent_ = 0;                    ///< of what costs more nothing is asked; looked at so far
  std::vector<double> time_;                            ///< per op, from the first on; empty: each counts one
  std::vector<double> listed_;                          ///< per storage: the score that counts in the index
  std::vector<std::pair<double, std::int32_t>> index_;  ///< a heap
  bool indexed_ = false;
  bool is_hopeless_ = false;  ///< of a long list: what fits better comes from a pass for more room
  std::int32_t listed_at_ = 0;
  std::vector<Key> keys_;
  std::vector<Swap> swaps_;
  Random random_{1};
};

}  // namespace

std::optional<Solution> evict_on_the_way(const Problem& problem, Bytes budget, const EvictionWay& way,
                                         std::int64_t most_work, std::int64_t& work,
                                         const std::function<bool()>& should_stop) {
  Pass pass(problem, budget, way);
  std::optional<Solution> solution;
  if (pass.run(most_work, should_stop)) solution = pass.solution();
  work += pass.work();
  return solution;
}

}  // namespace tidemark::decide::flat
