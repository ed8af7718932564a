#include "allocator/stream_order.h"

#include <gtest/gtest.h>

#include <new>
#include <random>
#include <set>
#include <vector>

namespace tidemark::allocator {
namespace {

constexpr StreamHandle stream(std::uint64_t n) {
  return static_cast<StreamHandle>(100 + n);
}
constexpr EventHandle event(std::uint64_t n) {
  return static_cast<EventHandle>(n);
}

class StreamOrderTest : public testing::Test {
 protected:
  Frontier death_now(std::initializer_list<std::uint64_t> streams) {
    Frontier frontier;
    for (const std::uint64_t s : streams) {
      const StreamSlot slot = order_.slot_of(stream(s));
      frontier.add({.stream = slot, .epoch = order_.death_epoch(slot)}, order_.tick());
    }
    return frontier;
  }
  bool dominated(const Frontier& frontier, std::uint64_t by) {
    return order_.dominated(frontier, order_.slot_of(stream(by)));
  }
  StreamOrder order_;
};

TEST_F(StreamOrderTest, TheSameStreamAtOnceOthersAfterRecordAndWait) {
  const Frontier death = death_now({0});
  EXPECT_TRUE(dominated(death, 0));
  EXPECT_FALSE(dominated(death, 1));
  order_.note_record(event(1), stream(0));
  EXPECT_FALSE(dominated(death, 1)) << "a record alone orders nothing";
  order_.note_wait(stream(1), event(1));
  EXPECT_TRUE(dominated(death, 1));
  EXPECT_FALSE(order_.completed(death)) << "ordered on the device, unknown to the host";
}

TEST_F(StreamOrderTest, WhatDiesAfterTheRecordIsNotCovered) {
  (void)death_now({0});
  order_.note_record(event(1), stream(0));
  const Frontier later = death_now({0});
  order_.note_wait(stream(1), event(1));
  order_.note_synchronized(event(1));
  EXPECT_FALSE(dominated(later, 1));
  EXPECT_FALSE(order_.completed(later));
}

TEST_F(StreamOrderTest, OrderIsTransitiveThroughRecords) {
  const Frontier death = death_now({0});
  order_.note_record(event(1), stream(0));
  order_.note_wait(stream(1), event(1));
  order_.note_record(event(2), stream(1));
  order_.note_wait(stream(2), event(2));
  EXPECT_TRUE(dominated(death, 2));
  order_.note_synchronized(event(2));
  EXPECT_TRUE(order_.completed(death)) << "what the event was ordered after is complete as well";
}

TEST_F(StreamOrderTest, AWaitTakesTheRecordAsItWas) {
  order_.note_record(event(1), stream(0));
  const Frontier death = death_now({0});
  order_.note_wait(stream(1), event(1));
  EXPECT_FALSE(dominated(death, 1));
  order_.note_record(event(1), stream(0));
  EXPECT_FALSE(dominated(death, 1)) << "recording again does not move an earlier wait";
  order_.note_wait(stream(1), event(1));
  EXPECT_TRUE(dominated(death, 1));
}

TEST_F(StreamOrderTest, AFailedRecordClaimsNothing) {
  const Frontier death = death_now({0});
  order_.note_record(event(1), stream(0));
  order_.note_record_failed(event(1));
  order_.note_wait(stream(1), event(1));
  EXPECT_FALSE(dominated(death, 1));
}

TEST_F(StreamOrderTest, OneStreamTooManyTaintsAndHealsWhenAllHavePassed) {
  Frontier death = death_now({0, 1, 2, 3});
  EXPECT_FALSE(death.tainted());
  death = death_now({0, 1, 2, 3, 4});
  ASSERT_TRUE(death.tainted());
  for (std::uint64_t s = 0; s < 4; ++s) order_.note_synchronized(stream(s));
  EXPECT_FALSE(order_.completed(death));
  EXPECT_TRUE(dominated(death, 4)) << "all the others have passed";
  EXPECT_FALSE(dominated(death, 0));
  order_.note_synchronized(stream(4));
  EXPECT_TRUE(order_.completed(death));
}

TEST_F(StreamOrderTest, ATaintIsNotLiftedByAnOlderRecord) {
  for (std::uint64_t s = 0; s < 5; ++s) order_.note_record(event(s), stream(s));
  const Frontier death = death_now({0, 1, 2, 3, 4});
  for (std::uint64_t s = 0; s < 5; ++s) order_.note_synchronized(event(s));
  EXPECT_FALSE(order_.completed(death));
  order_.note_device_synchronized();
  EXPECT_TRUE(order_.completed(death));
}

TEST_F(StreamOrderTest, AStreamThatIsGoneHoldsNothingBackAndItsHandleStartsAnew) {
  const StreamSlot before = order_.slot_of(stream(0));
  const Frontier death = death_now({0});
  order_.note_stream_destroyed(stream(0));
  EXPECT_TRUE(order_.completed(death));
  const Death afterwards{.stream = before, .epoch = order_.death_epoch(before)};  // a block of it freed too late
  EXPECT_TRUE(order_.completed(afterwards));
  EXPECT_EQ(order_.slot_of(stream(0)), before) << "the slot is used again";
  EXPECT_FALSE(order_.completed(death_now({0})));
  EXPECT_TRUE(order_.completed(death)) << "and what died on the old stream stays over";
  EXPECT_TRUE(order_.completed(afterwards));
}

TEST_F(StreamOrderTest, SlotsAreAsManyAsStreamsWereAliveAtOnce) {
  for (std::uint64_t n = 0; n < 10'000; ++n) {
    const Frontier death = death_now({n});
    const StreamHandle older = stream(n - 1);
    EXPECT_FALSE(order_.completed(death));
    if (n == 0) continue;
    EXPECT_FALSE(dominated(death, n - 1));
    order_.note_stream_destroyed(older);
    EXPECT_FALSE(order_.completed(death)) << "the other stream's end says nothing of this one";
  }
  EXPECT_EQ(order_.stream_count(), 2U);
}

TEST_F(StreamOrderTest, TooManyStreamsAtOnceAreRefusedAndNothingChanges) {
  for (std::uint64_t n = 0; n < StreamOrder::kMaxStreams; ++n) (void)order_.slot_of(stream(n));
  EXPECT_THROW((void)order_.slot_of(stream(StreamOrder::kMaxStreams)), TooManyStreams);
  EXPECT_EQ(order_.stream_count(), StreamOrder::kMaxStreams);
  order_.note_stream_destroyed(stream(7));
  EXPECT_EQ(order_.handle_of(order_.slot_of(stream(StreamOrder::kMaxStreams))), stream(StreamOrder::kMaxStreams));
}

// The truth by sets: what each stream's next work runs after, as the set of all pieces of work submitted so far.
TEST_F(StreamOrderTest, AgreesWithSetsOfWorkOverRandomHistories) {
  constexpr std::uint64_t kStreams = 4, kEvents = 5;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    StreamOrder order;
    int works = 0;
    std::vector<std::set<int>> past(kStreams), recorded(kEvents);
    std::set<int> known_to_host;
    struct Dead {
      Frontier frontier;
      std::set<int> work;
    };
    std::vector<Dead> dead;
    for (int step = 0; step < 150; ++step) {
      const std::uint64_t s = random() % kStreams, e = random() % kEvents;
      switch (random() % 7) {
        case 0:
        case 1: {  // work whose bytes die at once, on one or two streams
          Dead one;
          for (const std::uint64_t of : {s, random() % kStreams}) {
            past[of].insert(++works);
            one.work.insert(works);
            const StreamSlot slot = order.slot_of(stream(of));
            one.frontier.add({.stream = slot, .epoch = order.death_epoch(slot)}, order.tick());
          }
          dead.push_back(one);
          break;
        }
        case 2:
        case 3:
          order.note_record(event(e), stream(s));
          recorded[e] = past[s];
          break;
        case 4:
          order.note_wait(stream(s), event(e));
          past[s].insert(recorded[e].begin(), recorded[e].end());
          break;
        case 5:  // two streams end; new ones of the same names take over their slots, perhaps crosswise
          for (const std::uint64_t of : {s, (s + 1) % kStreams}) {
            order.note_stream_destroyed(stream(of));
            known_to_host.insert(past[of].begin(), past[of].end());
            past[of].clear();
          }
          break;
        default:
          order.note_synchronized(event(e));
          known_to_host.insert(recorded[e].begin(), recorded[e].end());
      }
      for (const Dead& one : dead) {
        const auto in = [&](const std::set<int>& set, int work) {
          return set.contains(work) || known_to_host.contains(work);
        };
        for (std::uint64_t t = 0; t < kStreams; ++t) {
          bool safe = true;
          for (const int work : one.work) safe &= in(past[t], work);
          ASSERT_EQ(order.dominated(one.frontier, order.slot_of(stream(t))), safe) << seed << " " << step;
        }
        bool complete = true;
        for (const int work : one.work) complete &= known_to_host.contains(work);
        ASSERT_EQ(order.completed(one.frontier), complete) << seed << " " << step;
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::allocator
