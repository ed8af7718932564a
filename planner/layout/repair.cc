#include "planner/layout/repair.h"

#include <algorithm>
#include <limits>

namespace tidemark::layout {
namespace {

constexpr Bytes kNowhere = -1;
constexpr std::size_t kFewest = 24;        // free blocks of a step, doubled up to
constexpr std::uint64_t kDoublings = 5;    // four times, seldom so often
constexpr std::size_t kMostBlockers = 96;  // that one block may push out
constexpr int kStarts = 2;
constexpr int kPasses = 6;
constexpr int kPatience = 40;  // steps without success before the next ceiling
constexpr Bytes kFinest = 64;

// Where a block of `bytes` could stand below the ceiling, and what it would push out there.
struct Edge {
  Bytes at = 0;
  double weight = 0;
  friend bool operator<(const Edge& a, const Edge& b) { return a.at < b.at; }
};

Bytes lightest_place(std::vector<Edge>& begins, std::vector<Edge>& ends, Bytes bytes, Bytes ceiling) {
  std::vector<Bytes> places{0};
  for (const Edge& end : ends) places.push_back(end.at);
  for (const Edge& begin : begins) places.push_back(std::max<Bytes>(0, begin.at - bytes));
  std::sort(places.begin(), places.end());
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  Bytes lightest = 0;
  double least = std::numeric_limits<double>::max();
  double weight = 0;
  auto begin = begins.begin();
  auto end = ends.begin();
  for (const Bytes place : places) {
    if (place + bytes > ceiling) break;
    for (; begin != begins.end() && begin->at < place + bytes; ++begin) weight += begin->weight;
    for (; end != ends.end() && end->at <= place; ++end) weight -= end->weight;
    if (weight >= least) continue;
    least = weight;
    lightest = place;
  }
  return lightest;
}

}  // namespace

Repair::Repair(const Blocks& blocks, std::span<const Bytes> addresses, std::uint64_t seed)
    : blocks_(blocks),
      standing_(blocks, addresses),
      best_(addresses.begin(), addresses.end()),
      height_(standing_.height()),
      state_(0x9E3779B97F4A7C15ULL * (2 * seed + 1)),
      is_free_(blocks.size(), 0) {
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    ends_.emplace_back(blocks.hulls()[block].begin, block);
    ends_.emplace_back(blocks.hulls()[block].end, block);
  }
  std::sort(ends_.begin(), ends_.end());
}

std::uint64_t Repair::random(std::uint64_t below) {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return (state_ >> 11) % below;
}

// A ceiling half way down to the target. What resists for long has the ceiling raised, what gives way has it lowered.
void Repair::lower_to(Bytes target, Bytes enough, Effort& effort) {
  while (height_ > enough && !effort.over()) {
    if (high_.empty()) {
      ceiling_ = height_ - std::max<Bytes>(1, (height_ - target) / share_);
      failed_ = 0;
      find_high(ceiling_);
    }
    if (step(ceiling_, effort)) {
      failed_ = 0;
      find_high(ceiling_);
      keep_best();
      if (high_.empty()) share_ = std::max<Bytes>(2, share_ / 2);
    } else if (++failed_ >= kPatience) {
      share_ = share_ >= kFinest ? 2 : share_ * 2;
      high_.clear();
    }
  }
}

void Repair::find_high(Bytes ceiling) {
  high_.clear();
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    if (standing_.top(block) > ceiling && blocks_.fixed(block) == kAnywhere) high_.push_back(block);
  }
}

// True if fewer bytes stand above the ceiling afterwards.
bool Repair::step(Bytes ceiling, Effort& effort) {
  if (high_.empty()) {  // only what is fixed stands higher
    effort.spend(effort.left());
    return false;
  }
  const std::size_t count = kFewest << std::min(random(kDoublings), random(kDoublings));
  choose_free(high_[random(high_.size())], count, ceiling);
  find_collisions();
  find_meetings();
  effort.spend(standing_.take_cost() + static_cast<std::int64_t>(free_.size() * free_.size() / 512 + 1));
  const bool better = repack(ceiling, effort);
  if (better) commit();
  for (const std::uint32_t block : free_) is_free_[block] = 0;
  return better;
}

void Repair::free_block(std::uint32_t block) {
  if (is_free_[block] != 0 || blocks_.fixed(block) != kAnywhere) return;
  is_free_[block] = 1;
  free_.push_back(block);
}

// Half of the time what it is cheapest to push out; then those whose lives begin or end nearest to a moment of its own.
void Repair::choose_free(std::uint32_t block, std::size_t count, Bytes ceiling) {
  free_.clear();
  free_block(block);
  const PackItem& life = blocks_.hulls()[block];
  const auto length = static_cast<std::uint64_t>(life.life());
  const auto moment = static_cast<std::int32_t>(life.begin + static_cast<std::int64_t>(random(length)));
  if (random(2) == 0) free_blockers(block, ceiling);
  auto up = std::lower_bound(ends_.begin(), ends_.end(), std::pair{moment, std::uint32_t{0}});
  auto down = up;
  const auto above = [&] { return std::int64_t{up->first} - moment; };
  const auto below = [&] { return std::int64_t{moment} - (down - 1)->first; };
  while (free_.size() < count && (up != ends_.end() || down != ends_.begin())) {
    const bool go_up = down == ends_.begin() || (up != ends_.end() && above() <= below());
    free_block(go_up ? (up++)->second : (--down)->second);
  }
}

void Repair::free_blockers(std::uint32_t block, Bytes ceiling) {
  const PackItem& life = blocks_.hulls()[block];
  std::vector<std::uint32_t> others;
  standing_.for_each(life.begin, life.end, [&](const Standing::Entry& entry) { others.push_back(entry.block); });
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  std::erase(others, block);
  std::vector<Edge> begins;
  std::vector<Edge> ends;
  for (const std::uint32_t other : others) {
    const PackItem& hull = blocks_.hulls()[other];
    const double area = static_cast<double>(hull.bytes) * static_cast<double>(hull.life());
    const double shake = 0.5 + static_cast<double>(random(1024)) / 1024.0;
    const double weight = blocks_.fixed(other) == kAnywhere ? area * shake : 1e40;
    begins.push_back({standing_.address(other), weight});
    ends.push_back({standing_.top(other), weight});
  }
  const Bytes place = lightest_place(begins, ends, life.bytes, ceiling);
  for (const std::uint32_t other : others) {
    if (free_.size() >= kMostBlockers) break;
    if (standing_.address(other) < place + life.bytes && standing_.top(other) > place) free_block(other);
  }
}

void Repair::collide(std::vector<ByteRange>& list, ByteRange other, Bytes shift, Bytes bytes) const {
  const ByteRange c{other.begin - shift - bytes, other.end - shift};
  if (!list.empty() && list.back().begin <= c.begin && c.begin < list.back().end) {
    list.back().end = std::max(list.back().end, c.end);
  } else {
    list.push_back(c);
  }
}

void Repair::find_collisions() {
  standing_.take_out(free_);
  collisions_.resize(std::max(collisions_.size(), free_.size()));
  for (std::size_t f = 0; f < free_.size(); ++f) {
    auto& list = collisions_[f];
    list.clear();
    const auto parts = blocks_.parts(free_[f]);
    for (const BlockPart& part : parts) {
      for (const ByteRange& used : standing_.used(part.begin, part.end)) collide(list, used, part.shift, part.bytes);
    }
    const auto apart = blocks_.apart(free_[f]);
    for (const std::uint32_t other : apart) {
      if (!standing_.is_out(other)) collide(list, {standing_.address(other), standing_.top(other)}, 0, hull(f).bytes);
    }
    if (parts.size() == 1 && apart.empty()) continue;
    std::sort(list.begin(), list.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    std::vector<ByteRange> united;
    for (const ByteRange& range : list) collide(united, range, 0, 0);
    list = std::move(united);
  }
}

void Repair::find_meetings() {
  meetings_.resize(std::max(meetings_.size(), free_.size()));
  for (std::uint32_t f = 0; f < free_.size(); ++f) {
    meetings_[f].clear();
    for (std::uint32_t g = 0; g < free_.size(); ++g) {
      if (f != g && hull(f).begin < hull(g).end && hull(g).begin < hull(f).end) meet(f, g);
    }
    for (const std::uint32_t other : blocks_.apart(free_[f])) {
      if (is_free_[other] == 0) continue;
      const auto g = static_cast<std::uint32_t>(std::find(free_.begin(), free_.end(), other) - free_.begin());
      meetings_[f].push_back({g, -hull(f).bytes, hull(g).bytes});
    }
  }
}

void Repair::meet(std::uint32_t one, std::uint32_t other) {
  for (const BlockPart& a : blocks_.parts(free_[one])) {
    for (const BlockPart& b : blocks_.parts(free_[other])) {
      if (a.begin < b.end && b.begin < a.end)
        meetings_[one].push_back({other, b.shift - a.shift - a.bytes, b.shift + b.bytes - a.shift});
    }
  }
}

Bytes Repair::lowest_fit(std::size_t free) const {
  const auto& fixed = collisions_[free];
  const Bytes alignment = blocks_.alignment(free_[free]);
  Bytes address = 0;
  auto next = fixed.begin();
  for (bool moved = true; moved;) {
    const Bytes before = address;
    while (next != fixed.end() && next->end <= address) ++next;
    if (next != fixed.end() && next->begin < address) address = next->end;
    for (const Meeting& meeting : meetings_[free]) {
      const Bytes other = trial_[meeting.other];
      if (other != kNowhere && other + meeting.from < address && address < other + meeting.to)
        address = other + meeting.to;
    }
    if (alignment > 1) address = round_up(address, alignment);
    moved = address != before;
  }
  return address;
}

// By how much blocks stand above the ceiling, in sum; gives up beyond `most`.
Bytes Repair::place_all(Bytes ceiling, Bytes most) {
  std::fill(trial_.begin(), trial_.end(), kNowhere);
  Bytes excess = 0;
  for (const std::uint32_t f : order_) {
    trial_[f] = lowest_fit(f);
    excess += std::max<Bytes>(0, trial_[f] + hull(f).bytes - ceiling);
    if (excess > most) break;
  }
  return excess;
}

bool Repair::repack(Bytes ceiling, Effort& effort) {
  Bytes least = 0;
  for (const std::uint32_t block : free_) least += std::max<Bytes>(0, standing_.top(block) - ceiling);
  trial_.assign(free_.size(), kNowhere);
  bool better = false;
  const std::uint64_t first = random(4);
  for (std::uint64_t start = first; start < first + kStarts; ++start) {
    order_by(static_cast<Start>(start % 4));
    for (int pass = 0; pass < kPasses; ++pass) {
      if (least == 0) return better;
      if (effort.over()) return false;  // the same steps are taken whatever the work
      const Bytes excess = place_all(ceiling, 2 * least);
      effort.spend(static_cast<std::int64_t>(free_.size() / 2 + 1));
      if (excess < least) {
        least = excess;
        best_trial_ = trial_;
        better = true;
      }
      bring_forward(ceiling);
    }
  }
  return better && !effort.over();
}

void Repair::order_by(Start start) {
  priority_.resize(free_.size());
  order_.resize(free_.size());
  for (std::uint32_t f = 0; f < free_.size(); ++f) {
    const auto life = static_cast<double>(hull(f).life());
    const auto bytes = static_cast<double>(hull(f).bytes);
    const auto address = static_cast<double>(standing_.address(free_[f]));
    order_[f] = f;
    priority_[f] = start == Start::life      ? -life
                   : start == Start::address ? address
                   : start == Start::bytes   ? -bytes
                                             : -bytes * life;
  }
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return priority_[a] != priority_[b] ? priority_[a] < priority_[b] : a < b;
  };
  std::sort(order_.begin(), order_.end(), before);
  for (std::size_t k = 0; k < order_.size(); ++k) priority_[order_[k]] = static_cast<double>(k);
}

// What came to stand too high is placed earlier next time.
void Repair::bring_forward(Bytes ceiling) {
  for (std::uint32_t f = 0; f < free_.size(); ++f) {
    if (trial_[f] != kNowhere && trial_[f] + hull(f).bytes > ceiling)
      priority_[f] -= static_cast<double>(free_.size()) * static_cast<double>(random(1024)) / 1024.0;
  }
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return priority_[a] != priority_[b] ? priority_[a] < priority_[b] : a < b;
  });
}

void Repair::commit() {
  for (std::size_t f = 0; f < free_.size(); ++f) {
    if (standing_.address(free_[f]) != best_trial_[f]) standing_.move(free_[f], best_trial_[f]);
  }
}

// While blocks are on their way below the ceiling, others may stand higher than the height so far.
void Repair::keep_best() {
  const Bytes height = standing_.height();
  if (height >= height_) return;
  height_ = height;
  best_.assign(standing_.addresses().begin(), standing_.addresses().end());
}

}  // namespace tidemark::layout
