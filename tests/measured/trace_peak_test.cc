// Peaks of random traces against the obvious count, and what is live there.

#include "integrations/measured/trace_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "integrations/measured/rank_measure.h"
#include "integrations/measured/trace_storages.h"

namespace tidemark::measured {
namespace {

using formats::AllocationTrace;
using formats::AttributedTrace;

AttributedTrace random_run(std::mt19937& random) {
  AttributedTrace run;
  std::vector<std::int32_t> live;
  const auto add_block = [&] {
    live.push_back(static_cast<std::int32_t>(run.trace.blocks.size()));
    run.trace.blocks.push_back({.bytes = static_cast<Bytes>(1 + random() % 100)});
    run.origin_of.push_back(static_cast<std::int32_t>(random() % 4) - 1);
    return live.back();
  };
  run.origins = {{.label = "a"}, {.label = "b", .category = "gradient"}, {.label = "parameters: c"}};
  for (auto count = random() % 4; count > 0; --count) add_block();
  run.trace.live_at_start = static_cast<std::int32_t>(run.trace.blocks.size());
  for (auto count = random() % 40; count > 0; --count) {
    if (!live.empty() && random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      run.trace.events.push_back({.action = AllocationTrace::Action::free, .block = live.back()});
      live.pop_back();
    } else {
      run.trace.events.push_back({.action = AllocationTrace::Action::alloc, .block = add_block()});
    }
    if (random() % 5 == 0)
      run.reserved.push_back({.event = run.trace.events.size(), .bytes = static_cast<Bytes>(random() % 400)});
  }
  return run;
}

/// Live blocks after so many events, counted from the beginning.
std::set<std::int32_t> live_after(const AllocationTrace& trace, std::size_t events) {
  std::set<std::int32_t> live;
  for (std::int32_t block = 0; block < trace.live_at_start; ++block) live.insert(block);
  for (std::size_t i = 0; i < events; ++i)
    if (trace.events[i].action == AllocationTrace::Action::alloc)
      live.insert(trace.events[i].block);
    else
      live.erase(trace.events[i].block);
  return live;
}

Bytes bytes_of(const AllocationTrace& trace, const std::set<std::int32_t>& blocks) {
  Bytes sum = 0;
  for (const std::int32_t block : blocks) sum += trace.blocks[static_cast<std::size_t>(block)].bytes;
  return sum;
}

TEST(TracePeak, IsThatOfTheObviousCount) {
  std::mt19937 random(3);
  for (int round = 0; round < 2'000; ++round) {
    const AttributedTrace run = random_run(random);
    ASSERT_EQ(formats::find_fault(run.trace), std::nullopt);
    std::size_t highest = 0;
    Bytes most = -1, least = std::numeric_limits<Bytes>::max();
    for (std::size_t events = 0; events <= run.trace.events.size(); ++events) {
      const Bytes live = bytes_of(run.trace, live_after(run.trace, events));
      if (live > most) most = live, highest = events;
      least = std::min(least, live);
    }
    const TracePeak peak = peak_of(run);
    EXPECT_EQ(peak.allocated_bytes, most);
    EXPECT_EQ(peak.events, highest);
    EXPECT_EQ(peak.lowest_bytes, least);
    EXPECT_EQ(peak.start_bytes, bytes_of(run.trace, live_after(run.trace, 0)));
    const auto live = live_after(run.trace, highest);
    EXPECT_EQ(std::set(peak.blocks.begin(), peak.blocks.end()), live);
    EXPECT_EQ(peak.allocated_bytes, formats::figures_of(run.trace).peak_bytes);
    EXPECT_GE(peak.reserved_bytes, peak.allocated_bytes);
    for (const formats::ReservedMark& mark : run.reserved) EXPECT_GE(peak.reserved_bytes, mark.bytes);
  }
}

TEST(TracePeak, StoragesAddUpToItAndNoNameIsThereTwice) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const AttributedTrace run = random_run(random);
    const TracePeak peak = peak_of(run);
    Bytes sum = 0;
    std::int64_t count = 0;
    std::set<std::string> names;
    for (const budget::HeldStorage& held : attribute(run, peak).storages) {
      sum += held.bytes;
      count += held.count;
      EXPECT_TRUE(names.insert(held.name).second) << held.name;
    }
    EXPECT_EQ(sum, peak.allocated_bytes);
    EXPECT_EQ(count, static_cast<std::int64_t>(peak.blocks.size()));
  }
}

TEST(TracePeak, HoldingsOfARankAddUpToItsPeak) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const AttributedTrace run = random_run(random);
    if (run.trace.blocks.empty()) continue;
    RankMeasure measure = measure_of(run);
    if (random() % 2 == 0) measure.outside_bytes = static_cast<Bytes>(random() % 100);
    const budget::RankHoldings rank = holdings_of(0, "", measure);
    Bytes by_category = 0, by_storage = 0;
    for (const Bytes bytes : rank.by_category) by_category += bytes;
    for (const budget::HeldStorage& held : rank.storages) by_storage += held.bytes;
    EXPECT_EQ(by_category, rank.peak_bytes);
    EXPECT_EQ(by_storage, rank.peak_bytes);
    EXPECT_EQ(rank.peak_bytes, peak_of(run).reserved_bytes + measure.outside_bytes.value_or(0));
  }
}

}  // namespace
}  // namespace tidemark::measured
