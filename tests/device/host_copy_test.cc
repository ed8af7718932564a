#include "device/host_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "device/pattern.h"

namespace tidemark {
namespace {

using namespace literals;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The rate is tested on a clock that the test moves: bookings are arithmetic.
const HostLink::Clock::time_point kStart{seconds(1000)};

TEST(HostLink, BookingsFollowEachOtherAtTheRate) {
  HostLink link(1'000'000'000);
  HostLink::Clock::time_point end = link.book(10'000'000, kStart);
  for (int i = 0; i < 99; ++i) end = link.book(10'000'000, kStart);
  EXPECT_EQ(end, kStart + seconds(1));  // a thousand million bytes
}

TEST(HostLink, LateWakeUpsAreMadeUpForAndIdleTimeIsNotSaved) {
  HostLink link(1'000'000'000);
  HostLink::Clock::time_point now = kStart;
  for (int i = 0; i < 100; ++i) now = link.book(10'000'000, now) + milliseconds(1);  // each wakes up a millisecond late
  EXPECT_LE(now - kStart, seconds(1) + milliseconds(2));
  EXPECT_GE(now - kStart, seconds(1) - milliseconds(2));
  const HostLink::Clock::time_point later = now + seconds(50);
  EXPECT_EQ(link.book(10'000'000, later), later + milliseconds(10));
}

TEST(HostLink, PiecesAreAboutAMillisecond) {
  EXPECT_EQ(HostLink(10'000'000'000).piece_bytes(), 10'000'000);
  EXPECT_EQ(HostLink(1).piece_bytes(), 4_KiB);
  EXPECT_FALSE(HostLink(0).limited());
}

/// Returns when the bytes are there.
void copy(HostCopyEngine& engine, void* to, const void* from, Bytes bytes) {
  std::promise<void> done;
  engine.begin(to, from, bytes, [&done] { done.set_value(); });
  done.get_future().wait();
}

class HostCopies : public ::testing::TestWithParam<int> {};

TEST_P(HostCopies, AreExactAtEverySize) {
  std::vector<unsigned char> from(13_MiB), to(13_MiB + 2);
  fill_pattern(from.data(), 13_MiB, 1);
  for (const Bytes rate : {0_B, 4 * kGiB}) {
    HostCopyEngine engine(GetParam(), rate);
    for (const Bytes bytes : {0_B, 1_B, 63_B, 4_MiB - 1, 4_MiB, 4_MiB + 65'537, 13_MiB - 7}) {
      std::memset(to.data(), 0x77, to.size());
      copy(engine, to.data() + 1, from.data(), bytes);
      EXPECT_TRUE(std::memcmp(to.data() + 1, from.data(), static_cast<std::size_t>(bytes)) == 0) << bytes;
      EXPECT_EQ(to[0], 0x77);
      EXPECT_EQ(to[static_cast<std::size_t>(bytes) + 1], 0x77) << bytes;
    }
  }
}

TEST_P(HostCopies, MayRunAtTheSameTime) {
  HostCopyEngine engine(GetParam(), 0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3);
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::vector<unsigned char> from(6_MiB), to(6_MiB);
      for (std::uint64_t i = 0; i < 10; ++i) {
        fill_pattern(from.data(), 6_MiB, i * 3 + t);
        copy(engine, to.data(), from.data(), 6_MiB);
        wrong[t] += !holds_pattern(to.data(), 6_MiB, i * 3 + t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(3, 0));
}

INSTANTIATE_TEST_SUITE_P(Threads, HostCopies, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace tidemark
