// The race checker against a quadratic oracle that builds happens-before from edges, on thousands of random programs,
// and the words of its reports.

#include "device/race_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tidemark {
namespace {

constexpr std::size_t kMost = 128;  // steps of a random program
using Past = std::bitset<kMost>;

struct Accessed {
  std::size_t step = 0;
  Address begin = 0, end = 0;
  RaceAccess kind = RaceAccess::read;
  std::int64_t view = 0;
  bool retires = false;  // kind free, of one view only
};

/// Steps with edges between them; everything is derived from the edges, in the plainest way.
class Oracle {
 public:
  explicit Oracle(std::size_t streams) : last_(streams + 1, kNoStep) {}

  // Work on a stream comes after the stream's last and after all that the host did so far.
  std::size_t step_on(std::size_t actor) {
    const std::size_t step = past_.size();
    past_.emplace_back();
    follow(step, last_[0]);
    follow(step, last_[actor]);
    last_[actor] = step;
    return step;
  }
  void follow(std::size_t step, std::size_t earlier) {
    if (earlier != kNoStep) past_[step] |= past_[earlier] | Past().set(earlier);
  }
  [[nodiscard]] std::size_t last_of(std::size_t actor) const { return last_[actor]; }
  [[nodiscard]] bool ordered(std::size_t a, std::size_t b) const { return past_[b].test(a); }

  void access(const Accessed& later) {
    for (const Accessed& earlier : accesses_) {
      const bool overlap = earlier.begin < later.end && later.begin < earlier.end;
      const bool conflict = earlier.kind != RaceAccess::read || later.kind != RaceAccess::read;
      const bool other_view = later.retires && earlier.view != later.view;
      if (overlap && conflict && !other_view && earlier.step != later.step && !ordered(earlier.step, later.step))
        pairs_.insert({earlier.step, later.step});
    }
    if (!later.retires) accesses_.push_back(later);
  }
  [[nodiscard]] const std::set<std::pair<std::size_t, std::size_t>>& pairs() const { return pairs_; }

  static constexpr std::size_t kNoStep = SIZE_MAX;

 private:
  std::vector<std::size_t> last_;
  std::vector<Past> past_;
  std::vector<Accessed> accesses_;
  std::set<std::pair<std::size_t, std::size_t>> pairs_;
};

/// A random program, told to the checker and to the oracle step by step.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed)
      : random_(seed), streams_(1 + below(4)), events_(1 + below(4)), oracle_(streams_), recorded_(events_, SIZE_MAX) {
    for (std::size_t s = 0; s < streams_; ++s) actors_.push_back(checker_.add_stream("s" + std::to_string(s)));
    for (std::size_t e = 0; e < events_; ++e) checker_events_.push_back(checker_.add_event());
    checker_.allocate({.begin = 0, .bytes = kBytes});
    allocated_.set();
    what_ = checker_.intern("step");
    // Some programs synchronise a lot and are often free of races, some hardly ever.
    eagerness_ = below(10);
  }

  void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) step();
  }
  [[nodiscard]] const RaceChecker& checker() const { return checker_; }
  [[nodiscard]] const Oracle& oracle() const { return oracle_; }
  [[nodiscard]] std::int64_t unallocated() const { return unallocated_; }

 private:
  static constexpr Bytes kBytes = 32;
  std::size_t below(std::size_t n) { return random_() % n; }

  RaceRange range() {
    const Address begin = below(kBytes);
    const auto bytes = static_cast<Bytes>(1 + below(std::min<std::size_t>(12, kBytes - begin)));
    return {.begin = begin, .bytes = bytes, .view = below(4) == 0 ? 1000 : 0};
  }
  // The oracle hears of the allocated runs; gaps are counted, one a run.
  void told(std::size_t step, const RaceRange& r, RaceAccess kind, bool retires = false) {
    const Address end = r.begin + static_cast<Address>(r.bytes);
    for (Address at = r.begin; at < end;) {
      const bool here = allocated_.test(at);
      Address until = at;
      while (until < end && allocated_.test(until) == here) ++until;
      if (here) {
        oracle_.access({.step = step, .begin = at, .end = until, .kind = kind, .view = r.view, .retires = retires});
      } else {
        ++unallocated_;
      }
      at = until;
    }
  }

  void step() {
    if (below(10) < eagerness_) {
      order();
    } else if (below(12) == 0) {
      host();
    } else {
      work();
    }
  }
  void work() {
    const std::size_t s = below(streams_);
    const std::size_t step = oracle_.step_on(s + 1);
    checker_.begin_work(actors_[s]);
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const RaceRange r = range();
      const RaceAccess kind = below(2) == 0 ? RaceAccess::read : RaceAccess::write;
      checker_.access(actors_[s], r, kind, {.what = what_, .id = static_cast<std::int64_t>(step)});
      told(step, r, kind);
    }
  }
  void order() {
    const std::size_t s = below(streams_), e = below(events_);
    switch (below(7)) {
      case 0:
      case 1:
      case 2:
        recorded_[e] = oracle_.step_on(s + 1);
        checker_.record(checker_events_[e], actors_[s]);
        break;
      case 3:
      case 4: {
        const std::size_t step = oracle_.step_on(s + 1);
        oracle_.follow(step, recorded_[e]);
        checker_.wait(actors_[s], checker_events_[e]);
        break;
      }
      case 5: {
        const std::size_t step = oracle_.step_on(0);
        oracle_.follow(step, recorded_[e]);
        checker_.host_knows_event(checker_events_[e]);
        break;
      }
      default: {
        const std::size_t step = oracle_.step_on(0);
        oracle_.follow(step, oracle_.last_of(s + 1));
        checker_.host_knows_stream(actors_[s]);
      }
    }
  }
  void host() {
    const RaceRange r = range();
    const std::size_t step = oracle_.step_on(0);
    const RaceLabel label{.what = what_, .id = static_cast<std::int64_t>(step)};
    switch (below(4)) {
      case 0:
        checker_.free(r, label);
        told(step, r, RaceAccess::free);
        for (Address at = r.begin; at < r.begin + static_cast<Address>(r.bytes); ++at) allocated_.reset(at);
        break;
      case 1:
        give_back_all();
        break;
      case 2:
        checker_.retire_view(r, label);
        told(step, r, RaceAccess::free, true);
        break;
      default: {
        const RaceAccess kind = below(2) == 0 ? RaceAccess::read : RaceAccess::write;
        checker_.access(RaceActor::host, r, kind, label);
        told(step, r, kind);
      }
    }
  }
  void give_back_all() {
    for (Address at = 0; at < kBytes; ++at) {
      if (allocated_.test(at)) continue;
      checker_.allocate({.begin = at, .bytes = 1});
      allocated_.set(at);
    }
  }

  std::mt19937 random_;
  std::size_t streams_, events_;
  RaceChecker checker_{100'000};
  Oracle oracle_;
  std::vector<std::size_t> recorded_;
  std::vector<RaceActor> actors_;
  std::vector<std::int32_t> checker_events_;
  std::bitset<kBytes> allocated_;
  std::int64_t unallocated_ = 0;
  std::uint16_t what_ = 0;
  std::size_t eagerness_ = 0;
};

using Pair = std::pair<std::size_t, std::size_t>;

std::vector<Pair> conflicts_of(const RaceChecker& checker) {
  std::vector<Pair> pairs;
  for (const RaceReport& report : checker.reports())
    if (report.kind == RaceReport::Kind::conflict)
      pairs.emplace_back(static_cast<std::size_t>(report.earlier.id), static_cast<std::size_t>(report.later.id));
  return pairs;
}

std::size_t first_later(const std::set<Pair>& pairs) {
  std::size_t first = SIZE_MAX;
  for (const Pair& pair : pairs) first = std::min(first, pair.second);
  return first;
}

// Every pair reported is a race, the first racy step is found, nothing is found where there is none, and every touch of
// bytes that are not allocated is.
TEST(RaceChecker, AgreesWithAQuadraticOracleOnRandomPrograms) {
  std::int64_t clean = 0, racy = 0;
  for (std::uint32_t seed = 1; seed <= 6000; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed);
    program.run(seed % 2 == 0 ? 20 : 90);
    const std::vector<Pair> found = conflicts_of(program.checker());
    const std::set<Pair>& races = program.oracle().pairs();
    for (const Pair& pair : found) ASSERT_TRUE(races.contains(pair)) << pair.first << " and " << pair.second;
    ASSERT_EQ(found.empty(), races.empty());
    if (!races.empty()) {
      ASSERT_EQ(found.front().second, first_later(races));
    }
    ASSERT_EQ(program.checker().count(), static_cast<std::int64_t>(found.size()) + program.unallocated());
    (races.empty() ? clean : racy) += 1;
  }
  EXPECT_GT(clean, 500);  // both answers are met often
  EXPECT_GT(racy, 500);
}

struct TwoStreams {
  RaceChecker checker;
  RaceActor compute = checker.add_stream("compute");
  RaceActor h2d = checker.add_stream("h2d");
  std::int32_t event = checker.add_event();
  std::uint16_t launch = checker.intern("launch"), copy = checker.intern("copy"), unmap = checker.intern("unmap");

  void work(RaceActor stream, Address begin, Bytes bytes, RaceAccess access, std::uint16_t what, std::int64_t id) {
    checker.begin_work(stream);
    checker.access(stream, {.begin = begin, .bytes = bytes}, access, {.what = what, .id = id});
  }
};

TEST(RaceChecker, NamesBothSidesAndTheMissingEdge) {
  TwoStreams t;
  t.checker.allocate({.begin = 0x1000, .bytes = 4096});
  t.work(t.h2d, 0x1000, 4096, RaceAccess::write, t.copy, 17);
  t.work(t.compute, 0x1800, 1024, RaceAccess::read, t.launch, 42);
  ASSERT_EQ(t.checker.count(), 1);
  const RaceReport& report = t.checker.reports()[0];
  EXPECT_EQ(report.missing_edge, "compute must wait for an event recorded on h2d after copy 17");
  EXPECT_EQ(report.begin, 0x1800U);
  EXPECT_EQ(report.bytes, 1024);
  EXPECT_EQ(to_string(report),
            "race over 1.00 KiB at 0x1800: copy 17 on h2d writes 1.00 KiB at 0x1800; launch 42 on compute reads "
            "1.00 KiB at 0x1800, unordered with it; missing: compute must wait for an event recorded on h2d after "
            "copy 17");
}

TEST(RaceChecker, FreeingUnderACopyNamesWhatTheHostMustWaitFor) {
  TwoStreams t;
  t.checker.allocate({.begin = 0x1000, .bytes = 4096});
  t.work(t.h2d, 0x1000, 4096, RaceAccess::write, t.copy, 3);
  t.checker.free({.begin = 0x1000, .bytes = 4096}, {.what = t.unmap});
  t.work(t.compute, 0x1000, 64, RaceAccess::read, t.launch, 4);
  ASSERT_EQ(t.checker.count(), 2);
  EXPECT_EQ(t.checker.reports()[0].missing_edge,
            "the host must synchronise with an event recorded on h2d after copy 3 before unmap");
  EXPECT_EQ(t.checker.reports()[1].kind, RaceReport::Kind::not_allocated);
  EXPECT_EQ(t.checker.reports()[1].missing_edge, "unmap must come after launch 4 has completed");
}

TEST(RaceChecker, AnEventRecordedAnewOrdersByItsLatestRecord) {
  TwoStreams t;
  t.checker.allocate({.begin = 0, .bytes = 256});
  t.checker.record(t.event, t.h2d);
  t.checker.wait(t.compute, t.event);  // before the copy: orders nothing
  t.work(t.h2d, 0, 256, RaceAccess::write, t.copy, 1);
  t.checker.record(t.event, t.h2d);
  t.work(t.compute, 0, 128, RaceAccess::read, t.launch, 2);
  EXPECT_EQ(t.checker.count(), 1);
  t.checker.clear_reports();
  t.checker.wait(t.compute, t.event);
  t.work(t.compute, 128, 128, RaceAccess::write, t.launch, 3);
  EXPECT_EQ(t.checker.count(), 0);
}

// An address that goes away needs only what was done through it, and needs that even when later work through the
// other address has taken its place in the shadow.
TEST(RaceChecker, RetiringAViewChecksThatViewOnly) {
  TwoStreams t;
  t.checker.allocate({.begin = 0, .bytes = 256});
  const auto through = [&](std::int64_t view, RaceAccess access, std::int64_t id) {
    t.checker.begin_work(t.compute);
    t.checker.access(t.compute, {.begin = 0, .bytes = 256, .view = view}, access, {.what = t.launch, .id = id});
  };
  through(0x5000, RaceAccess::read, 1);
  t.checker.retire_view({.begin = 0, .bytes = 256, .view = 0x9000}, {.what = t.unmap});
  EXPECT_EQ(t.checker.count(), 0);
  through(0x9000, RaceAccess::write, 2);
  t.checker.retire_view({.begin = 0, .bytes = 256, .view = 0x5000}, {.what = t.unmap});
  ASSERT_EQ(t.checker.count(), 1);
  EXPECT_EQ(t.checker.reports()[0].earlier.id, 1);
  EXPECT_EQ(t.checker.reports()[0].begin, 0x5000U);
}

/// Told once a read, for the part that nothing wrote; by default it may be read.
TEST(RaceChecker, NamesAReadOfWhatNothingWrote) {
  for (const bool reported : {false, true}) {
    RaceChecker checker(64, reported ? RaceChecker::Unwritten::is_reported : RaceChecker::Unwritten::may_be_read);
    const RaceActor stream = checker.add_stream("compute");
    const std::uint16_t kernel = checker.intern("launch");
    const auto touch = [&](Address begin, Bytes bytes, RaceAccess access, std::int64_t id) {
      checker.begin_work(stream);
      checker.access(stream, {.begin = begin, .bytes = bytes}, access, {.what = kernel, .id = id});
    };
    checker.allocate({.begin = 0x1000, .bytes = 0x1000});
    touch(0x1400, 0x400, RaceAccess::write, 1);
    touch(0x1400, 0x400, RaceAccess::read, 2);
    EXPECT_EQ(checker.count(), 0);
    touch(0x1000, 0x1000, RaceAccess::read, 3);  // in front of what is written, and behind
    ASSERT_EQ(checker.count(), reported ? 1 : 0);
    if (!reported) continue;
    const RaceReport& report = checker.reports().front();
    EXPECT_EQ(report.kind, RaceReport::Kind::unwritten);
    EXPECT_EQ(report.begin, 0x1000U);
    EXPECT_EQ(report.bytes, 0x400);
    EXPECT_NE(to_string(report).find("launch 3 on compute reads 4.00 KiB"), std::string::npos) << to_string(report);
  }
}

TEST(RaceChecker, KeepsTheFirstReportsAndCountsAll) {
  RaceChecker checker(2);
  const RaceActor a = checker.add_stream("a"), b = checker.add_stream("b");
  checker.allocate({.begin = 0, .bytes = 64});
  for (std::int64_t i = 0; i < 6; ++i) {
    const RaceActor stream = i % 2 == 0 ? a : b;
    checker.begin_work(stream);
    checker.access(stream, {.begin = 0, .bytes = 64}, RaceAccess::write, {.id = i});
  }
  EXPECT_EQ(checker.count(), 5);
  ASSERT_EQ(checker.reports().size(), 2U);
  EXPECT_EQ(checker.reports()[1].later.id, 2);
}

// A planned program touches the same ranges again and again: the shadow must not grow with time.
TEST(RaceChecker, ShadowStaysAsFineAsTheRangesInUse) {
  TwoStreams t;
  t.checker.allocate({.begin = 0, .bytes = 1 << 20});
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const auto slot = static_cast<Address>(i * 7 % 64);
    t.work(t.compute, slot << 14, (i % 3 + 1) << 12, i % 2 == 0 ? RaceAccess::write : RaceAccess::read, t.launch, i);
  }
  EXPECT_LE(t.checker.segment_count(), 4 * 64 + 1);
}

}  // namespace
}  // namespace tidemark
