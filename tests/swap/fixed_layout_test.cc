// Layouts for captured graphs: what they must say in small cases, that random ones pass the judge and take no more
// memory than an exhaustive search finds, and that the judge finds each action that is missing or out of place.

#include "swap/fixed_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "swap/verify_fixed_layout.h"
#include "tests/swap/random_pieces.h"

namespace tidemark::swap {
namespace {

constexpr FixedUnits kUnits{.granule_bytes = 1024, .alignment_bytes = 64, .tail_pad_bytes = 0};

PieceTouch reads(std::int32_t piece) {
  return {.piece = PieceId{piece}, .reads = true, .writes = false};
}
PieceTouch writes(std::int32_t piece) {
  return {.piece = PieceId{piece}, .reads = false, .writes = true};
}
PieceTouch changes(std::int32_t piece) {
  return {.piece = PieceId{piece}, .reads = true, .writes = true};
}
PieceSpan span(std::int32_t first, std::int32_t last) {
  return {PieceId{first}, PieceId{last}};
}

FixedLayout laid_out(const CapturedPieces& step, const FixedUnits& units = kUnits, std::int64_t spare = 0) {
  Result<FixedLayout> layout = lay_out_fixed(step, units, spare);
  EXPECT_TRUE(layout.ok()) << (layout.ok() ? "" : layout.error().message);
  const Status judged = verify_fixed_layout(step, layout.value());
  EXPECT_TRUE(judged.ok()) << (judged.ok() ? "" : judged.error().message);
  return std::move(layout).value();
}

/// Why the judge refuses it; empty: it does not.
std::string refusal(const CapturedPieces& step, const FixedLayout& layout) {
  const Status judged = verify_fixed_layout(step, layout);
  return judged.ok() ? "" : judged.error().message;
}

std::string text_of(const FixedAction& action) {
  constexpr const char* kLanes[] = {"host", "pieces", "d2h", "h2d"};
  constexpr const char* kPoints[] = {"piece", "out", "in"};
  if (const auto* const wait = std::get_if<LaneWait>(&action))
    return std::string(kLanes[static_cast<std::size_t>(wait->lane)]) + " waits for " +
           kPoints[static_cast<std::size_t>(wait->point.what)] + " " + std::to_string(wait->point.index);
  if (const auto* const copy = std::get_if<RangeCopy>(&action))
    return std::string(copy->out ? "out " : "in ") + std::to_string(row(copy->range));
  const auto& move = std::get<GranuleMove>(action);
  return "move " + std::to_string(move.from) + " to " + std::to_string(move.to) + " x " + std::to_string(move.granules);
}

std::vector<std::string> texts_of(const FixedLayout& layout, std::size_t boundary) {
  std::vector<std::string> texts;
  for (const FixedAction& action : layout.before[boundary]) texts.push_back(text_of(action));
  return texts;
}

using Texts = std::vector<std::string>;

/// Two activations of a forward and a backward: A is away while B is at work in the middle.
CapturedPieces lender() {
  return {.pieces = 6,
          .storages = {{.bytes = 2000, .touches = {writes(0), reads(5)}, .away = {span(2, 3)}},
                       {.bytes = 2040, .touches = {writes(2), changes(3)}}}};
}

TEST(FixedLayout, AGapLendsItsGranulesAndOnlyAnUnmapWaitsOnTheHost) {
  const FixedLayout layout = laid_out(lender());
  EXPECT_EQ(layout.peak_granules, 2);
  EXPECT_EQ(layout.space_granules, 4);
  EXPECT_EQ(layout.opening, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(texts_of(layout, 0), (Texts{}));
  EXPECT_EQ(texts_of(layout, 1), (Texts{"d2h waits for piece 0", "out 0"}));
  EXPECT_EQ(texts_of(layout, 2), (Texts{"host waits for out 0", "move 0 to 2 x 2"}));
  EXPECT_EQ(texts_of(layout, 3), (Texts{}));
  EXPECT_EQ(texts_of(layout, 4), (Texts{"host waits for piece 3", "move 2 to 0 x 2", "in 0"}));
  EXPECT_EQ(texts_of(layout, 5), (Texts{"pieces waits for in 0"}));
  EXPECT_EQ(texts_of(layout, 6), (Texts{}));
  EXPECT_EQ(layout.host_waits(), 2);
  EXPECT_EQ(layout.moved_granules(), 4);
}

TEST(FixedLayout, StoragesThatLeaveTogetherShareGranules) {
  CapturedPieces step = lender();
  for (PieceStorage& storage : step.storages) storage.bytes = 400;
  const PieceStorage first = step.storages[0];
  step.storages.push_back(first);
  step.storages.push_back(first);
  const FixedLayout layout = laid_out(step, {.granule_bytes = 1024, .alignment_bytes = 64, .tail_pad_bytes = 32});
  EXPECT_EQ(layout.ranges.size(), 2U);
  EXPECT_EQ(layout.ranges[0].granules, 2) << "three of 400 bytes do not fit in one granule";
  EXPECT_EQ(layout.offset_of, (std::vector<Bytes>{0, 2048, 448, 896}));
  EXPECT_EQ(layout.ranges[0].bytes, 896 + 400);
}

TEST(FixedLayout, WhatTheHostStillHoldsIsNotCopiedOutAgain) {
  // A weight that comes for each of two pieces and is changed by none, beside one that the second piece changes.
  const auto weight = [](PieceTouch last) {
    return PieceStorage{.bytes = 1000,
                        .between = BetweenSteps::in_host,
                        .touches = {reads(1), last},
                        .away = {span(0, 0), span(2, 3), span(5, 5)}};
  };
  const FixedLayout same = laid_out({.pieces = 6, .storages = {weight(reads(4))}});
  const FixedLayout other = laid_out({.pieces = 6, .storages = {weight(changes(4))}});
  const auto copies_out = [](const FixedLayout& layout) {
    int copies = 0;
    for (const auto& actions : layout.before)
      for (const FixedAction& action : actions)
        if (const auto* const copy = std::get_if<RangeCopy>(&action)) copies += copy->out ? 1 : 0;
    return copies;
  };
  EXPECT_EQ(copies_out(same), 0);
  EXPECT_EQ(copies_out(other), 1);
  EXPECT_EQ(same.moved_granules(), 0) << "nobody wants its granule meanwhile";
}

TEST(FixedLayout, TheGranulesLongestOutOfUseAreTaken) {
  // X is done in piece 0, Y in piece 2; Z comes in piece 3, where the host need not wait for piece 2.
  const CapturedPieces step{.pieces = 5,
                            .storages = {{.bytes = 1000, .touches = {writes(0)}},
                                         {.bytes = 1000, .touches = {writes(0), reads(2)}},
                                         {.bytes = 1000, .touches = {writes(3), reads(4)}}}};
  const FixedLayout layout = laid_out(step);
  EXPECT_EQ(texts_of(layout, 3), (Texts{"host waits for piece 0", "move 0 to 2 x 1"}));
}

TEST(FixedLayout, GranulesToSpareLetTheHostGoAhead) {
  // A forward and a backward of 24 layers: activations are away from the second piece behind their layer's to the
  // second before they are read, and each piece has working memory that the next one reads.
  constexpr std::int32_t kLayers = 24;
  CapturedPieces step{.pieces = 2 * kLayers, .storages = {}};
  for (std::int32_t layer = 0; layer < kLayers; ++layer) {
    const std::int32_t read = 2 * kLayers - 1 - layer;
    PieceStorage activation{.bytes = 48 * 1024, .touches = {writes(layer), reads(read)}};
    if (layer + 2 <= read - 2) activation.away = {span(layer + 2, read - 2)};
    step.storages.push_back(activation);
    step.storages.push_back({.bytes = 16 * 1024, .touches = {writes(layer), reads(layer + 1)}});
  }
  const FixedLayout tight = laid_out(step), loose = laid_out(step, kUnits, 48 + 16);
  EXPECT_GT(tight.late_waits(), kLayers);
  EXPECT_EQ(loose.late_waits(), 0);
  EXPECT_GT(loose.host_waits(), 0);
  EXPECT_EQ(loose.peak_granules, tight.peak_granules + 64);
  EXPECT_EQ(laid_out(step, kUnits, 1'000'000).moved_granules(), 0) << "memory behind every address";
}

TEST(FixedLayout, BadStepsAreRefusedInWords) {
  const auto message = [](PieceStorage storage) {
    storage.bytes = storage.bytes == 0 ? 100 : storage.bytes;
    const Result<FixedLayout> layout = lay_out_fixed({.pieces = 6, .storages = {std::move(storage)}}, kUnits);
    return layout.ok() ? std::string() : layout.error().message;
  };
  EXPECT_EQ(message({.bytes = -1, .touches = {writes(0)}}), "storage 0: it must have a byte or more");
  EXPECT_EQ(message({}), "storage 0: no piece touches it; leave it out");
  EXPECT_EQ(message({.touches = {writes(2), reads(2)}}),
            "storage 0: touches must be by piece, one a piece, from 0 to 5");
  EXPECT_EQ(message({.touches = {writes(6)}}), "storage 0: touches must be by piece, one a piece, from 0 to 5");
  EXPECT_EQ(message({.touches = {{.piece = PieceId{1}}}}), "storage 0: the touch of piece 1 must read, write or both");
  EXPECT_EQ(message({.touches = {changes(1)}}),
            "storage 0: piece 1 reads it before any writes it; say where its content is between steps");
  EXPECT_EQ(message({.touches = {writes(0), reads(3)}, .away = {span(2, 3)}}),
            "storage 0: a piece touches it while it is away in pieces 2 to 3");
  EXPECT_EQ(message({.touches = {writes(0), reads(5)}, .away = {span(1, 1), span(2, 2)}}),
            "storage 0: gaps must be by piece, a piece or more apart, within 0 to 5");
  EXPECT_EQ(
      message({.touches = {writes(1), reads(3)}, .away = {span(4, 5)}}),
      "storage 0: it is away before its first or after its last touch, where it has no content; leave that gap out");
  EXPECT_EQ(message({.between = BetweenSteps::on_device, .touches = {reads(1)}, .away = {span(3, 5)}}),
            "storage 0: it is away at an end of the step; its content then is in host memory between steps");
  EXPECT_EQ(message({.between = BetweenSteps::in_host, .touches = {reads(0)}, .away = {span(1, 2)}}),
            "storage 0: nothing touches it in pieces 3 to 5, for which it is brought back; make it one gap");
  const PieceStorage quarter{.bytes = Bytes{1} << 62, .touches = {writes(0), reads(1)}};  // two overflow
  EXPECT_EQ(message(quarter), "storage 0: its bytes and those of the storages before it must be 2^47 at most together");
  PieceStorage half{.bytes = Bytes{1} << 46, .touches = {writes(0), reads(1)}}, byte = half;
  byte.bytes = 1;
  EXPECT_TRUE(find_problem({.pieces = 2, .storages = {half, half}}));
  EXPECT_EQ(find_problem({.pieces = 2, .storages = {half, half, byte}}).error().message,
            "storage 2: its bytes and those of the storages before it must be 2^47 at most together");
  EXPECT_EQ(lay_out_fixed({}, kUnits).error().message, "a step of captured graphs has one piece or more");
}

/// The least peak of any way to put storages that have memory in the same pieces into ranges.
class SmallestPeak {
 public:
  explicit SmallestPeak(const CapturedPieces& step) : step_(step) {
    for (const PieceStorage& storage : step.storages) {
      std::vector<bool> pieces;
      for (std::int32_t piece = 0; piece < step.pieces; ++piece) pieces.push_back(has_memory(storage, piece));
      memory_.push_back(std::move(pieces));
    }
  }

  std::int64_t find() {
    put(0);
    return *best_;
  }

 private:
  static bool has_memory(const PieceStorage& storage, std::int32_t piece) {
    for (const PieceSpan& gap : storage.away)
      if (static_cast<std::int32_t>(gap.first) <= piece && piece <= static_cast<std::int32_t>(gap.last)) return false;
    return storage.between != BetweenSteps::nowhere ||
           (static_cast<std::int32_t>(storage.touches.front().piece) <= piece &&
            piece <= static_cast<std::int32_t>(storage.touches.back().piece));
  }

  void put(std::size_t s) {
    if (s == step_.storages.size()) return weigh();
    for (std::size_t range = 0; range <= ranges_.size(); ++range) {
      if (range == ranges_.size()) {
        ranges_.push_back({s});
      } else {
        const std::size_t other = ranges_[range].front();
        if (memory_[other] != memory_[s] || step_.storages[other].between != step_.storages[s].between) continue;
        ranges_[range].push_back(s);
      }
      put(s + 1);
      ranges_[range].pop_back();
      if (ranges_[range].empty()) {
        ranges_.pop_back();
        return;
      }
    }
  }

  void weigh() {
    std::int64_t peak = 0;
    for (std::size_t piece = 0; piece < static_cast<std::size_t>(step_.pieces); ++piece) {
      std::int64_t granules = 0;
      for (const std::vector<std::size_t>& range : ranges_) {
        Bytes bytes = 0;
        for (const std::size_t s : range) bytes = round_up(bytes, kUnits.alignment_bytes) + step_.storages[s].bytes;
        if (memory_[range.front()][piece]) granules += (bytes + kUnits.granule_bytes - 1) / kUnits.granule_bytes;
      }
      peak = std::max(peak, granules);
    }
    best_ = best_ ? std::min(*best_, peak) : peak;
  }

  const CapturedPieces& step_;
  std::vector<std::vector<bool>> memory_;
  std::vector<std::vector<std::size_t>> ranges_;
  std::optional<std::int64_t> best_;
};

TEST(FixedLayout, NoWayOfPuttingStoragesTogetherNeedsLess) {
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    const CapturedPieces step = RandomPieces(seed, {.pieces = 6, .storages = 6, .bytes = 1500}).make();
    SCOPED_TRACE(seed);
    const FixedLayout layout = laid_out(step);
    ASSERT_EQ(layout.peak_granules, SmallestPeak(step).find());
    if (HasFailure()) return;
  }
}

TEST(FixedLayout, RandomStepsPassTheJudge) {
  int moved = 0;
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    const CapturedPieces step = RandomPieces(seed, {.pieces = 16, .storages = 20}).make();
    const FixedLayout layout =
        laid_out(step, {.granule_bytes = 1024, .alignment_bytes = 64, .tail_pad_bytes = seed % 2 == 0 ? 0 : 32},
                 seed % 3 == 0 ? seed % 8 : 0);
    moved += layout.moved_granules() > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(moved, 1500);
}

TEST(FixedLayoutJudge, FindsEveryActionOfASmallStepMissing) {
  const CapturedPieces step = lender();
  const FixedLayout layout = laid_out(step);
  const std::map<std::string, std::string> expected = {
      {"d2h waits for piece 0", "range 0 is copied out while its memory may be in use"},
      {"out 0", "granule 0 moves while it may be in use"},
      {"host waits for out 0", "granule 0 moves while it may be in use"},
      {"move 0 to 2 x 2", "piece 2 touches storage 1 where it has no memory"},
      {"host waits for piece 3", "granule 2 moves while it may be in use"},
      {"move 2 to 0 x 2", "range 0 is copied in where it has no memory"},
      {"in 0", "piece 5 touches storage 0 without its content"},
      {"pieces waits for in 0", "piece 5 touches storage 0 while it may be written"},
  };
  std::size_t tried = 0;
  for (std::size_t boundary = 0; boundary < layout.before.size(); ++boundary)
    for (std::size_t i = 0; i < layout.before[boundary].size(); ++i, ++tried) {
      FixedLayout broken = layout;
      broken.before[boundary].erase(broken.before[boundary].begin() + static_cast<std::ptrdiff_t>(i));
      const std::string action = text_of(layout.before[boundary][i]);
      ASSERT_TRUE(expected.contains(action)) << action;
      EXPECT_NE(refusal(step, broken).find(expected.at(action)), std::string::npos) << refusal(step, broken);
    }
  EXPECT_EQ(tried, expected.size());
}

TEST(FixedLayoutJudge, FindsWrongPlaces) {
  const CapturedPieces step = lender();
  const FixedLayout layout = laid_out(step);
  const auto refused = [&](auto&& change) {
    FixedLayout broken = layout;
    change(broken);
    return refusal(step, broken);
  };
  EXPECT_EQ(refused([](FixedLayout& l) { l.ranges[1].first_granule = 1; }),
            "fixed layout: range 1 overlaps the one before");
  EXPECT_EQ(refused([](FixedLayout& l) { l.space_granules = 3; }),
            "fixed layout: a range lies outside the address space");
  EXPECT_EQ(refused([](FixedLayout& l) { l.offset_of[1] = 0; }), "fixed layout: storage 1 lies outside its range");
  EXPECT_EQ(refused([](FixedLayout& l) { l.offset_of[1] += 8; }), "fixed layout: storage 1 is not aligned");
  EXPECT_EQ(refused([](FixedLayout& l) {
              l.range_of[1] = RangeId{0};
              l.offset_of[1] = 0;
              l.ranges[0].bytes = 2048;
            }),
            "fixed layout: storages 0 and 1 overlap");
  EXPECT_EQ(refused([](FixedLayout& l) {
              l.opening = {0, 1, 3};
            }),
            "fixed layout: the fullest piece needs 2 granules, 0 are to spare, it takes 3");
  EXPECT_EQ(refused([](FixedLayout& l) { l.opening = {0, 0}; }), "fixed layout: a granule is opened twice");
  EXPECT_EQ(refused([](FixedLayout& l) {
              l.opening = {2, 3};
            }),
            "fixed layout: piece 0 touches storage 0 where it has no memory");
  EXPECT_EQ(refused([](FixedLayout& l) { std::get<GranuleMove>(l.before[2][1]).to = 1; }),
            "fixed layout: before piece 2: granule 1 has memory");
  EXPECT_EQ(refused([](FixedLayout& l) { std::get<GranuleMove>(l.before[2][1]).from = 3; }),
            "fixed layout: before piece 2: no memory at granule 3");
  EXPECT_EQ(refused([](FixedLayout& l) { std::swap(l.before[2][0], l.before[2][1]); }),
            "fixed layout: before piece 2: granule 0 moves while it may be in use");
  EXPECT_EQ(refused([](FixedLayout& l) {
              std::swap(l.before[4], l.before[6]);
              l.before[5].clear();
            }),
            "fixed layout: piece 5 touches storage 0 where it has no memory");
  EXPECT_EQ(refused([](FixedLayout& l) {
              l.before[6].emplace_back(LaneWait{FixedLane::host, {FixedPoint::What::piece, 5}});
              l.before[6].emplace_back(GranuleMove{.to = 2, .from = 0, .granules = 1});
            }),
            "fixed layout: a step ends with other granules than it began with");
}

TEST(FixedLayoutJudge, FindsMissingActionsOfRandomSteps) {
  struct Tally {
    int found = 0, tried = 0;
  };
  std::map<std::string, Tally> tallies;  // by the first word of the action
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const CapturedPieces step =
        RandomPieces(seed, {.pieces = 8, .storages = 8, .bytes = 3000, .reads_always = true}).make();
    const FixedLayout layout = laid_out(step);
    for (std::size_t boundary = 0; boundary < layout.before.size(); ++boundary)
      for (std::size_t i = 0; i < layout.before[boundary].size(); ++i) {
        FixedLayout broken = layout;
        broken.before[boundary].erase(broken.before[boundary].begin() + static_cast<std::ptrdiff_t>(i));
        const std::string action = text_of(layout.before[boundary][i]);
        Tally& tally = tallies[action.substr(0, action.find(' '))];
        ++tally.tried;
        tally.found += refusal(step, broken).empty() ? 0 : 1;
      }
  }
  for (const char* const kind : {"move", "out", "pieces"}) {
    EXPECT_GT(tallies[kind].tried, 200) << kind;
    EXPECT_EQ(tallies[kind].found, tallies[kind].tried) << kind;
  }
  // The step before may have had the host wait for the same; a copy out may follow pieces that only read.
  for (const char* const kind : {"host", "d2h", "h2d"}) {
    EXPECT_GT(tallies[kind].tried, 200) << kind;
    EXPECT_GT(tallies[kind].found, tallies[kind].tried * 9 / 10) << kind;
  }
  // Where no other range took the granules, the content is still there.
  EXPECT_GT(tallies["in"].tried, 500);
  EXPECT_GT(tallies["in"].found, tallies["in"].tried * 3 / 4);
}

}  // namespace
}  // namespace tidemark::swap
