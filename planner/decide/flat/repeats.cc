#include "planner/decide/flat/repeats.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "planner/decide/flat/recompute.h"

namespace tidemark::decide::flat {
namespace {

constexpr std::int32_t kLongestLayer = 3000;  // ops
constexpr std::int32_t kFewestRepeats = 3;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
  hash *= 0xbf58476d1ce4e5b9U;
  return hash ^ (hash >> 29);
}

/// Ops that are alike to a search have the same.
std::vector<std::uint64_t> labels_of(const Problem& p) {
  std::vector<std::uint64_t> labels;
  std::vector<std::uint64_t> seen;
  for (std::int32_t v = 0; v < p.op_count; ++v) {
    std::uint64_t hash =
        mixed(static_cast<std::uint64_t>(p.cost[at(v)]), static_cast<std::uint64_t>(p.transient[at(v)]));
    hash = mixed(hash, p.rerun_until[at(v)] >= 0 ? 1 : 0);
    const auto add = [&](std::span<const std::int32_t> storages) {
      seen.clear();
      for (const std::int32_t s : storages)
        seen.push_back(2 * static_cast<std::uint64_t>(p.bytes[at(s)]) + (p.swappable[at(s)] != 0 ? 1 : 0));
      std::ranges::sort(seen);
      for (const std::uint64_t one : seen) hash = mixed(hash, one);
      hash = mixed(hash, storages.size());
    };
    add(p.reads[v]);
    add(p.writes[v]);
    labels.push_back(hash);
  }
  return labels;
}

}  // namespace

Repeats::Repeats(const Problem& problem) : p_(problem), place_(at(problem.op_count)) {
  find_stretches(labels_of(problem));
  number_layers();
}

/// Those that cover most, none over another; of the same ops the shortest layer.
void Repeats::find_stretches(const std::vector<std::uint64_t>& labels) {
  const std::int32_t n = p_.op_count;
  std::vector<Stretch> all;
  for (std::int32_t length = 1; length <= std::min(kLongestLayer, n / kFewestRepeats); ++length)
    for (std::int32_t i = 0, run = 0; i + length <= n; ++i) {
      if (i + length < n && labels[at(i)] == labels[at(i + length)]) {
        ++run;
        continue;
      }
      const std::int32_t count = run / length + 1;
      if (count >= kFewestRepeats) all.push_back({.begin = i - run, .length = length, .count = count});
      run = 0;
    }
  std::ranges::stable_sort(all, std::greater<>(), [](const Stretch& s) { return s.length * s.count; });
  std::map<std::int32_t, std::int32_t> taken;  // ends of stretches, by where they begin
  for (Stretch& s : all) {
    const std::int32_t end = s.begin + s.length * s.count;
    const auto behind = taken.lower_bound(end);
    if (behind != taken.begin() && std::prev(behind)->second > s.begin) continue;
    taken.emplace(s.begin, end);
    for (std::int32_t v = s.begin; v < end; ++v)
      place_[at(v)] = {.stretch = static_cast<std::int32_t>(stretches_.size()),
                       .layer = (v - s.begin) / s.length,
                       .offset = (v - s.begin) % s.length};
    stretches_.push_back(std::move(s));
  }
}

std::int32_t Repeats::Stretch::repeat_of(std::int32_t layer) const {
  const auto found = std::ranges::lower_bound(repeats, std::pair(layer, std::int32_t{0}));
  return found != repeats.end() && found->first == layer ? found->second : -1;
}

/// The layer of the counting stretch of which these ops read most, of equals the first; -1: they read of none.
std::int32_t Repeats::most_read_layer(std::int32_t begin, std::int32_t end, std::int32_t counting) const {
  const Stretch& layers = stretches_[at(counting)];
  std::vector<std::int32_t> votes;  // a layer each
  for (std::int32_t v = begin; v < end; ++v)
    for (const std::int32_t in : p_.reads[v])
      if (const std::int32_t w = p_.producer[at(in)]; w >= 0 && place_[at(w)].stretch == counting && w != v)
        votes.push_back((w - layers.begin) / layers.length);
  std::ranges::sort(votes);
  std::int32_t best = -1;
  for (std::ptrdiff_t i = 0, most = 0; i < std::ssize(votes);) {
    const auto same = std::upper_bound(votes.begin() + i, votes.end(), votes[static_cast<std::size_t>(i)]);
    const std::ptrdiff_t next = same - votes.begin();
    if (next - i > most) {
      most = next - i;
      best = votes[static_cast<std::size_t>(i)];
    }
    i = next;
  }
  return best;
}

/// The stretch with most ops that may be recomputed counts the layers; a repeat of another belongs to the layer of
/// which it reads most.
void Repeats::number_layers() {
  const auto recomputable = [&](const Stretch& s) {
    std::int32_t count = 0;
    for (std::int32_t v = s.begin; v < s.begin + s.length * s.count; ++v) count += p_.rerun_until[at(v)] >= 0 ? 1 : 0;
    return count;
  };
  const auto most = std::ranges::max_element(stretches_, {}, recomputable);
  if (most == stretches_.end() || recomputable(*most) == 0) {
    std::ranges::fill(place_, Place{});
    return;
  }
  const auto counting = static_cast<std::int32_t>(most - stretches_.begin());
  layers_ = most->count;
  std::vector<std::int32_t> given_by(at(layers_), -1);  // per layer: the last stretch that has a repeat of it
  for (std::int32_t s = 0; s < std::ssize(stretches_); ++s) {
    Stretch& stretch = stretches_[at(s)];
    stretch.layer_of.assign(at(stretch.count), -1);
    for (std::int32_t r = 0; r < stretch.count; ++r) {
      const std::int32_t begin = stretch.begin + r * stretch.length;
      const std::int32_t layer = s == counting ? r : most_read_layer(begin, begin + stretch.length, counting);
      if (layer < 0 || std::exchange(given_by[at(layer)], s) == s) continue;
      stretch.layer_of[at(r)] = layer;
      stretch.repeats.emplace_back(layer, r);
    }
    std::ranges::sort(stretch.repeats);
  }
  for (Place& place : place_)
    if (place.stretch >= 0) place.layer = stretches_[at(place.stretch)].layer_of[at(place.layer)];
}

std::int32_t Repeats::moved(std::int32_t op, std::int32_t layers) const {
  const Place& place = place_[at(op)];
  if (place.layer < 0) return -1;
  const std::int32_t to = place.layer + layers;
  if (to < 0 || to >= layers_) return -1;
  const Stretch& stretch = stretches_[at(place.stretch)];
  const std::int32_t repeat = stretch.repeat_of(to);
  return repeat < 0 ? -1 : stretch.begin + repeat * stretch.length + place.offset;
}

Key Repeats::moved(Key key, std::int32_t layers) const {
  const std::int32_t op = moved(op_of(key), layers), stage = moved(stage_of(key), layers);
  if (op < 0 || stage < 0 || op > stage) return 0;
  return op == stage || !is_first_run(key) ? key_of(stage, op, round_of(key)) : 0;
}

/// By its place among what its writer writes.
std::int32_t Repeats::moved_storage(std::int32_t storage, std::int32_t layers) const {
  const std::int32_t v = p_.producer[at(storage)];
  if (v < 0) return -1;
  const std::int32_t w = moved(v, layers);
  if (w < 0 || p_.writes[v].size() != p_.writes[w].size()) return -1;
  for (std::size_t i = 0; i < p_.writes[v].size(); ++i)
    if (p_.writes[v][i] == storage && p_.bytes[at(p_.writes[w][i])] == p_.bytes[at(storage)]) return p_.writes[w][i];
  return -1;
}

void Repeats::replicate(const Solution& solution, std::int32_t from, std::int32_t first, std::int32_t last,
                        State& state) const {
  Solution other;
  const auto is_target = [&](std::int32_t layer) { return first <= layer && layer <= last && layer != from; };
  for (const Key key : solution.reruns) {
    const std::int32_t layer = layer_of(op_of(key));
    if (layer == from)
      for (std::int32_t to = first; to <= last; ++to) {
        if (to == from) continue;
        const Key there = moved(key, to - from);
        if (there != 0 && !is_first_run(there) && p_.may_recompute(op_of(there), stage_of(there)))
          other.reruns.push_back(there);
      }
    if (layer < 0 || !is_target(layer)) other.reruns.push_back(key);
  }
  std::ranges::sort(other.reruns);
  other.reruns.erase(std::unique(other.reruns.begin(), other.reruns.end()), other.reruns.end());
  const auto layer_of_storage = [&](std::int32_t s) {
    return p_.producer[at(s)] < 0 ? -1 : layer_of(p_.producer[at(s)]);
  };
  state.load(other);
  const auto add = [&](const Swap& swap) {
    const bool runs = is_first_run(swap.use) || state.runs_at(swap.use);
    if (runs && state.may_swap(swap)) state.insert_swap(swap);
  };
  for (const Swap& swap : solution.swaps) {
    const std::int32_t layer = layer_of_storage(swap.storage);
    if (layer == from)
      for (std::int32_t to = first; to <= last; ++to) {
        const std::int32_t storage = moved_storage(swap.storage, to - from);
        const Key use = moved(swap.use, to - from);
        if (to != from && storage >= 0 && use != 0) add({.storage = storage, .use = use});
      }
    if (layer < 0 || !is_target(layer)) add(swap);
  }
  erase_useless(state);
  state.mark();
}

}  // namespace tidemark::decide::flat
