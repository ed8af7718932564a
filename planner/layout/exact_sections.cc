#include "planner/layout/exact_sections.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace tidemark::layout {
namespace {

struct Moment {
  std::int32_t time = 0;
  bool begins = false;  // what ends comes first
  std::uint32_t part = 0;
  [[nodiscard]] auto key() const { return std::tuple(time, begins, part); }
};

// What lives, without order: parts by their rows.
class Alive {
 public:
  explicit Alive(std::size_t parts) : place_(parts) {}
  void add(std::uint32_t part) {
    place_[part] = parts_.size();
    parts_.push_back(part);
  }
  void remove(std::uint32_t part) {
    place_[parts_.back()] = place_[part];
    parts_[place_[part]] = parts_.back();
    parts_.pop_back();
  }
  [[nodiscard]] const std::vector<std::uint32_t>& parts() const { return parts_; }

 private:
  std::vector<std::size_t> place_;
  std::vector<std::uint32_t> parts_;
};

bool alike(std::span<const BlockPart> parts) {
  return std::ranges::all_of(parts, [&](const BlockPart& part) { return part.bytes == parts.front().bytes; });
}

}  // namespace

ExactSections::ExactSections(const Blocks& blocks, std::span<const std::uint32_t> rows) {
  Bytes sizes = 0;
  Bytes alignments = 0;
  for (const std::uint32_t row : rows) {
    height_.push_back(blocks.hulls()[row].bytes);
    alignment_.push_back(blocks.alignment(row));
    fixed_.push_back(blocks.fixed(row));
    alignments = std::gcd(alignments, alignment_.back());
    if (fixed_.back() != kAnywhere) sizes = std::gcd(sizes, fixed_.back());
    for (const BlockPart& part : blocks.parts(row)) sizes = std::gcd(sizes, part.shift + part.bytes);
  }
  // Addresses are sums of sizes where rounding up never changes one.
  const bool never_rounds = std::ranges::all_of(alignment_, [&](Bytes alignment) { return sizes % alignment == 0; });
  unit_ = never_rounds ? sizes : std::gcd(sizes, alignments);
  add_sections(blocks, rows);
  add_pairs(blocks, rows);
  add_runs();
  add_conflicts();
  add_twins();
}

// A moment matters if something has begun since the last one that did and something ends right after it: what lives at
// any other moment lives together at one of these.
void ExactSections::add_sections(const Blocks& blocks, std::span<const std::uint32_t> rows) {
  std::vector<Moment> moments;
  std::vector<Member> parts;
  for (std::uint32_t block = 0; block < rows.size(); ++block) {
    for (const BlockPart& part : blocks.parts(rows[block])) {
      if (part.shift != 0) complete_ = false;
      const auto row = static_cast<std::uint32_t>(parts.size());
      parts.push_back({block, part.shift + part.bytes});
      moments.push_back({part.begin, true, row});
      moments.push_back({part.end, false, row});
    }
  }
  std::ranges::sort(moments, {}, &Moment::key);
  Alive alive(parts.size());
  bool grown = false;
  for (const Moment& moment : moments) {
    if (moment.begins) {
      alive.add(moment.part);
      grown = true;
      continue;
    }
    if (grown) {
      std::vector<Member> members;
      for (const std::uint32_t part : alive.parts()) members.push_back(parts[part]);
      add_section(std::move(members));
      grown = false;
    }
    alive.remove(moment.part);
  }
}

// Bytes of one block that live together may be the same bytes: the most of them count.
void ExactSections::add_section(std::vector<Member> members) {
  std::ranges::sort(members, {}, [](const Member& m) { return std::pair(m.block, -m.bytes); });
  const auto same = [](const Member& a, const Member& b) { return a.block == b.block; };
  members.erase(std::unique(members.begin(), members.end(), same), members.end());
  members_.insert(members_.end(), members.begin(), members.end());
  first_member_.push_back(static_cast<std::uint32_t>(members_.size()));
}

void ExactSections::add_pairs(const Blocks& blocks, std::span<const std::uint32_t> rows) {
  if (blocks.plain()) return;
  std::map<std::uint32_t, std::uint32_t> block_of;
  for (std::uint32_t block = 0; block < rows.size(); ++block) block_of.emplace(rows[block], block);
  for (std::uint32_t block = 0; block < rows.size(); ++block) {
    for (const std::uint32_t row : blocks.apart(rows[block])) {
      const auto other = block_of.find(row);
      // The pair names items, and blocks no longer know which: where those are not all alike, this keeps too much
      // apart.
      if (!alike(blocks.parts(rows[block])) || !alike(blocks.parts(row))) complete_ = false;
      if (other != block_of.end() && block < other->second)
        add_section({{block, height_[block]}, {other->second, height_[other->second]}});
    }
  }
}

void ExactSections::add_runs() {
  std::vector<std::vector<Run>> runs(blocks());
  for (std::uint32_t s = 0; s < sections(); ++s) {
    for (const Member& member : members(s)) {
      auto& own = runs[member.block];
      if (!own.empty() && own.back().last == s && own.back().bytes == member.bytes) {
        ++own.back().last;
      } else {
        own.push_back({s, s + 1, member.bytes});
      }
    }
  }
  for (const auto& own : runs) {
    runs_.insert(runs_.end(), own.begin(), own.end());
    first_run_.push_back(static_cast<std::uint32_t>(runs_.size()));
  }
}

void ExactSections::add_conflicts() {
  for (std::uint32_t a = 0; a < blocks(); ++a) {
    for (std::uint32_t b = 0; b < blocks(); ++b) {
      if (a == b || runs(b).front().first >= runs(a).back().last || runs(a).front().first >= runs(b).back().last)
        continue;
      Conflict conflict{.other = b};
      for (auto one = runs(a).begin(), other = runs(b).begin(); one != runs(a).end() && other != runs(b).end();) {
        if (one->first < other->last && other->first < one->last) {
          conflict.other_above = std::max(conflict.other_above, one->bytes);
          conflict.other_below = std::max(conflict.other_below, other->bytes);
        }
        if (one->last < other->last) {
          ++one;
        } else {
          ++other;
        }
      }
      if (conflict.other_above > 0) conflicts_.push_back(conflict);
    }
    first_conflict_.push_back(static_cast<std::uint32_t>(conflicts_.size()));
  }
}

void ExactSections::add_twins() {
  twin_before_.assign(blocks(), kNone);
  twin_behind_.assign(blocks(), kNone);
  const auto looks = [&](std::uint32_t block) {
    std::vector<Bytes> look{alignment_[block]};
    for (const Run& run : runs(block)) look.insert(look.end(), {run.first, run.last, run.bytes});
    return look;
  };
  std::map<std::vector<Bytes>, std::uint32_t> seen;
  for (std::uint32_t block = 0; block < blocks(); ++block) {
    if (fixed_[block] != kAnywhere) continue;
    const auto [at, first] = seen.try_emplace(looks(block), block);
    if (first) continue;
    twin_before_[block] = at->second;
    twin_behind_[at->second] = block;
    at->second = block;
  }
}

Bytes ExactSections::load() const {
  Bytes load = 0;
  for (std::size_t s = 0; s < sections(); ++s) {
    Bytes bytes = 0;
    for (const Member& member : members(s)) bytes += member.bytes;
    load = std::max(load, bytes);
  }
  return load;
}

}  // namespace tidemark::layout
