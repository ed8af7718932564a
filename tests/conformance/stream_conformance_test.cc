// Streams and events: order within a stream, order between streams, what an event refers to, time-outs, life cycles.
#include "tests/conformance/device_fixture.h"

namespace tidemark::conformance {
namespace {

class StreamConformance : public DeviceConformance {
 protected:
  static constexpr Bytes kBlock = 64 * kKiB;

  /// Simulated schedules may shorten work to a tenth.
  static void expect_took(std::int64_t from_ns, std::int64_t to_ns, std::int64_t estimate_ns) {
    EXPECT_GE(to_ns - from_ns, estimate_ns / 20) << "complete before the work can have ended";
  }
};

TEST_P(StreamConformance, WorkOfAStreamRunsInOrder) {
  const StreamHandle s = stream();
  const Address a = block(kBlock);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ASSERT_OK(fill(s, a, kBlock, seed));
    ASSERT_OK(check(s, a, kBlock, seed));
  }
  expect_no_mismatch();
}

TEST_P(StreamConformance, EveryRoleMakesAStream) {
  for (std::size_t role = 0; role < kStreamRoleCount; ++role) {
    const StreamHandle s = stream(static_cast<StreamRole>(role));
    ASSERT_OK(occupy(s, 0));
    ASSERT_OK(device().synchronize_stream(s));
  }
}

TEST_P(StreamConformance, AnEventNeverRecordedIsComplete) {
  const StreamHandle s = stream();
  const EventHandle e = event();
  EXPECT_OK(device().query_event(e));
  EXPECT_OK(device().synchronize_event(e, 0));
  EXPECT_OK(device().wait_event(s, e));
  EXPECT_OK(device().synchronize_stream(s));
}

TEST_P(StreamConformance, AnEventIsCompleteOnlyAfterTheWorkBeforeIt) {
  const StreamHandle s = stream();
  const EventHandle e = event();
  const std::int64_t started = device().now_ns();
  ASSERT_OK(occupy(s, 100 * kMillisecond));
  ASSERT_OK(device().record_event(e, s));
  if (device().query_event(e) == DeviceCode::ok) expect_took(started, device().now_ns(), 100 * kMillisecond);
  ASSERT_OK(device().synchronize_event(e));
  expect_took(started, device().now_ns(), 100 * kMillisecond);
  EXPECT_OK(device().query_event(e));
}

TEST_P(StreamConformance, ATimeoutPassesAndLeavesTheEventWaitable) {
  const StreamHandle s = stream();
  const EventHandle e = event();
  const std::int64_t started = device().now_ns();
  ASSERT_OK(occupy(s, 100 * kMillisecond));
  ASSERT_OK(device().record_event(e, s));
  const DeviceCode code = device().synchronize_event(e, 100'000);
  EXPECT_TRUE(code == DeviceCode::not_ready || code == DeviceCode::ok) << name_of(code);
  if (code == DeviceCode::ok) expect_took(started, device().now_ns(), 100 * kMillisecond);
  ASSERT_OK(device().synchronize_event(e, INT64_MAX));
  EXPECT_OK(device().query_event(e));
}

TEST_P(StreamConformance, SynchronizingCoversEverythingSubmitted) {
  const StreamHandle a = stream(), b = stream();
  const EventHandle ea = event(), eb = event();
  ASSERT_OK(occupy(a, 20 * kMillisecond));
  ASSERT_OK(device().record_event(ea, a));
  ASSERT_OK(device().synchronize_stream(a));
  EXPECT_OK(device().query_event(ea));
  ASSERT_OK(occupy(b, 20 * kMillisecond));
  ASSERT_OK(device().record_event(eb, b));
  ASSERT_OK(device().synchronize_device());
  EXPECT_OK(device().query_event(eb));
}

TEST_P(StreamConformance, EventsOrderStreams) {
  const StreamHandle writer = stream(), reader = stream(StreamRole::d2h);
  const Address a = block(kBlock);
  const EventHandle written = event(), read = event();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ASSERT_OK(device().wait_event(writer, read));
    ASSERT_OK(occupy(writer, seed % 10 == 0 ? kMillisecond : 0));
    ASSERT_OK(fill(writer, a, kBlock, seed));
    ASSERT_OK(device().record_event(written, writer));
    ASSERT_OK(device().wait_event(reader, written));
    ASSERT_OK(check(reader, a, kBlock, seed));
    ASSERT_OK(device().record_event(read, reader));
  }
  expect_no_mismatch();
}

TEST_P(StreamConformance, AWaitRefersToTheRecordBeforeIt) {
  const StreamHandle slow = stream(), idle = stream(), reader = stream();
  const Address a = block(kBlock);
  const EventHandle e = event();
  ASSERT_OK(fill(slow, a, kBlock, 1));
  ASSERT_OK(occupy(slow, 30 * kMillisecond));
  ASSERT_OK(fill(slow, a, kBlock, 2));
  ASSERT_OK(device().record_event(e, slow));
  ASSERT_OK(device().wait_event(reader, e));
  ASSERT_OK(device().record_event(e, idle)) << "recorded anew: the wait above must not move";
  ASSERT_OK(check(reader, a, kBlock, 2));
  ASSERT_OK(device().synchronize_event(e));
  expect_no_mismatch();
}

TEST_P(StreamConformance, AWaitDoesNotReferToALaterRecord) {
  const StreamHandle a = stream(), b = stream();
  const EventHandle e = event();
  ASSERT_OK(device().record_event(e, a));
  ASSERT_OK(device().wait_event(b, e));
  ASSERT_OK(record_and_wait(b, a));  // a goes on only after b did
  ASSERT_OK(occupy(a, kMillisecond));
  ASSERT_OK(device().record_event(e, a));  // were b to wait for this one, nothing would ever end
  ASSERT_OK(device().synchronize_device());
}

TEST_P(StreamConformance, ManyEventsAreRecycled) {
  const StreamHandle s = stream(), t = stream();
  for (int round = 0; round < 10; ++round) {
    std::vector<EventHandle> events(1000);
    for (EventHandle& e : events) {
      ASSERT_OK(device().create_event(e));
      ASSERT_OK(device().record_event(e, s));
      ASSERT_OK(device().wait_event(t, e));
    }
    ASSERT_OK(device().synchronize_device());
    for (const EventHandle e : events) {
      EXPECT_OK(device().query_event(e));
      ASSERT_OK(device().destroy_event(e));
    }
  }
}

TEST_P(StreamConformance, TheEventLimitIsRecoverable) {
  const std::int64_t limit = traits().event_limit;
  NEEDS(limit > 0 && limit <= 100'000, "no event limit that can be reached");
  const StreamHandle s = stream();
  std::vector<EventHandle> events;
  DeviceCode code = DeviceCode::ok;
  while (code == DeviceCode::ok && std::ssize(events) <= limit) {
    EventHandle e{};
    code = device().create_event(e);
    if (code != DeviceCode::ok) break;
    events.push_back(e);
    code = device().record_event(e, s);  // where the slot is taken at the record
  }
  EXPECT_EQ(code, DeviceCode::no_resource);
  ASSERT_OK(device().synchronize_stream(s));
  for (const EventHandle e : events) ASSERT_OK(device().destroy_event(e));
  ASSERT_OK(device().record_event(event(), s));
}

TEST_P(StreamConformance, AnEventMayGoBeforeItsWaitIsOver) {
  const StreamHandle slow = stream(), reader = stream();
  const Address a = block(kBlock);
  EventHandle e{};
  ASSERT_OK(device().create_event(e));
  ASSERT_OK(occupy(slow, 20 * kMillisecond));
  ASSERT_OK(fill(slow, a, kBlock, 5));
  ASSERT_OK(device().record_event(e, slow));
  ASSERT_OK(device().wait_event(reader, e));
  ASSERT_OK(device().destroy_event(e));
  ASSERT_OK(check(reader, a, kBlock, 5));
  expect_no_mismatch();
}

TEST_P(StreamConformance, DestroyingAStreamWaitsForItsWork) {
  const StreamHandle doomed = stream(), reader = stream();
  const Address a = block(kBlock);
  ASSERT_OK(occupy(doomed, 20 * kMillisecond));
  ASSERT_OK(fill(doomed, a, kBlock, 9));
  ASSERT_OK(device().destroy_stream(doomed));
  forget_stream(doomed);
  ASSERT_OK(check(reader, a, kBlock, 9));
  expect_no_mismatch();
}

TEST_P(StreamConformance, TimeGoesForward) {
  const StreamHandle s = stream();
  std::int64_t last = device().now_ns();
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(occupy(s, 10'000));
    ASSERT_OK(device().synchronize_stream(s));
    const std::int64_t now = device().now_ns();
    EXPECT_GE(now, last);
    last = now;
  }
}

INSTANTIATE_TEST_SUITE_P(, StreamConformance, ::testing::ValuesIn(backends().begin(), backends().end()), backend_name);

}  // namespace
}  // namespace tidemark::conformance
