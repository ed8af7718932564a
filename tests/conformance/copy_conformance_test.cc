// Copies and verifying launches: contents in both directions, order, wrong bytes noticed, work in flight at the end.
#include <cstring>
#include <random>

#include "device/pattern.h"
#include "tests/conformance/device_fixture.h"

namespace tidemark::conformance {
namespace {

class CopyConformance : public DeviceConformance {
 protected:
  [[nodiscard]] DeviceCode to_host(StreamHandle s, Address to, Address from, Bytes bytes) {
    return device().copy(s, to, from, bytes, CopyKind::device_to_host, 1);
  }
  [[nodiscard]] DeviceCode to_device(StreamHandle s, Address to, Address from, Bytes bytes) {
    return device().copy(s, to, from, bytes, CopyKind::host_to_device, 2);
  }
  static unsigned char* bytes_at(Address at) { return reinterpret_cast<unsigned char*>(at); }
};

TEST_P(CopyConformance, ContentsSurviveBothDirections) {
  const StreamHandle s = stream(StreamRole::d2h);
  for (const Bytes bytes : {Bytes{1}, Bytes{7}, Bytes{8}, Bytes{4095}, Bytes{65537}, kMiB + 13, 9 * kMiB + 1}) {
    const Address from = block(bytes), to = block(bytes), host = pinned(bytes);
    ASSERT_OK(fill(s, from, bytes, 3));
    ASSERT_OK(to_host(s, host, from, bytes));
    ASSERT_OK(fill(s, from, bytes, 4));
    ASSERT_OK(to_device(s, to, host, bytes));
    ASSERT_OK(check(s, to, bytes, 3));
    ASSERT_OK(check(s, from, bytes, 4));
    ASSERT_OK(device().synchronize_stream(s));
  }
  expect_no_mismatch();
}

TEST_P(CopyConformance, PartsOfBlocksAreCopiedExactly) {
  const StreamHandle s = stream();
  const Bytes part = 40'000;
  const Address from = block(3 * part), to = block(3 * part), host = pinned(3 * part);
  ASSERT_OK(fill(s, to, 3 * part, 1));
  ASSERT_OK(fill(s, from + part, part, 2));
  ASSERT_OK(to_host(s, host + 3, from + part, part));
  ASSERT_OK(to_device(s, to + part, host + 3, part));
  ASSERT_OK(check(s, to, part, 1)) << "before it";
  ASSERT_OK(check(s, to + part, part, 2));
  ASSERT_OK(fill(s, to + 2 * part, part, 6));
  ASSERT_OK(check(s, to + part, part, 2));
  expect_no_mismatch();
}

TEST_P(CopyConformance, DeviceToDevice) {
  const StreamHandle s = stream();
  const Address from = block(kMiB), to = block(kMiB);
  ASSERT_OK(fill(s, from, kMiB - 3, 21));
  ASSERT_OK(device().copy(s, to, from, kMiB - 3, CopyKind::device_to_device));
  ASSERT_OK(check(s, to, kMiB - 3, 21));
  expect_no_mismatch();
}

/// Parts of one pattern, wherever they begin in it, written or read.
TEST_P(CopyConformance, PartsOfAPattern) {
  const StreamHandle s = stream();
  constexpr Bytes kBytes = 9 * kMiB + 3, kCut = 5 * kMiB + 24;
  const Address whole = block(kBytes), parts = block(kBytes);
  const auto touch = [&](Address at, Bytes from, Bytes until, AccessKind kind) {
    const Touch part{
        .address = at + static_cast<Address>(from), .bytes = until - from, .kind = kind, .seed = 8, .place = from};
    ASSERT_OK(device().launch(s, {.id = 5, .touches = {&part, 1}, .verify = true}));
  };
  ASSERT_OK(fill(s, whole, kBytes, 8));
  touch(whole, 0, kCut, AccessKind::read);
  touch(whole, kCut, kBytes, AccessKind::read);
  touch(parts, kCut, kBytes, AccessKind::write);
  touch(parts, 0, kCut, AccessKind::write);
  ASSERT_OK(check(s, parts, kBytes, 8));
  expect_no_mismatch();
  ASSERT_OK(check(s, whole + kCut, 4096, 8));  // the beginning of the pattern, which is elsewhere
  ASSERT_OK(device().synchronize_device());
  Mismatch first;
  EXPECT_EQ(device().mismatches(first), 1);
}

TEST_P(CopyConformance, CopiesWaitForOtherStreams) {
  const StreamHandle compute = stream(), out = stream(StreamRole::d2h), in = stream(StreamRole::h2d);
  const Address a = block(kMiB), host = pinned(kMiB);
  ASSERT_OK(occupy(compute, 5 * kMillisecond));
  ASSERT_OK(fill(compute, a, kMiB, 31));
  ASSERT_OK(record_and_wait(compute, out));
  ASSERT_OK(to_host(out, host, a, kMiB));
  ASSERT_OK(record_and_wait(out, compute));
  ASSERT_OK(fill(compute, a, kMiB, 32));  // reused after the copy-out
  ASSERT_OK(record_and_wait(compute, in));
  ASSERT_OK(to_device(in, a, host, kMiB));
  ASSERT_OK(record_and_wait(in, compute));
  ASSERT_OK(check(compute, a, kMiB, 31));
  expect_no_mismatch();
}

/// Random work on random streams; every use of a block waits for the use before it, which is all the order there is.
TEST_P(CopyConformance, RandomWorkOrderedByEventsKeepsItsContents) {
  constexpr Bytes kBytes = 40'000;
  constexpr std::size_t kBlocks = 6, kStreams = 4;
  std::mt19937 random(20'240'601);
  const auto pick = [&](std::size_t count) { return random() % count; };
  std::vector<StreamHandle> streams;
  for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(stream(static_cast<StreamRole>(i + 3)));
  struct Block {
    Address device = 0, host = 0;
    EventHandle used{};
    std::uint64_t seed = 0;
  };
  std::vector<Block> blocks(kBlocks);
  for (Block& b : blocks) {
    b = {.device = block(kBytes), .host = pinned(kBytes), .used = event(), .seed = 1};
    ASSERT_OK(fill(streams[0], b.device, kBytes, 1));
    ASSERT_OK(device().record_event(b.used, streams[0]));
  }
  for (std::uint64_t step = 2; step < 400; ++step) {
    Block& b = blocks[pick(kBlocks)];
    const StreamHandle s = streams[pick(kStreams)];
    ASSERT_OK(device().wait_event(s, b.used));
    switch (pick(3)) {
      case 0:
        b.seed = step;
        ASSERT_OK(fill(s, b.device, kBytes, step));
        break;
      case 1:
        ASSERT_OK(check(s, b.device, kBytes, b.seed));
        break;
      default:
        ASSERT_OK(to_host(s, b.host, b.device, kBytes));
        ASSERT_OK(fill(s, b.device, kBytes, 0));
        ASSERT_OK(to_device(s, b.device, b.host, kBytes));
    }
    ASSERT_OK(device().record_event(b.used, s));
  }
  expect_no_mismatch();
}

TEST_P(CopyConformance, AWrongPatternIsNoticedAndDescribed) {
  const StreamHandle s = stream();
  const Address a = block(kMiB);
  ASSERT_OK(fill(s, a, kMiB, 1));
  ASSERT_OK(fill(s, a + 4096, 8, 2));
  ASSERT_OK(check(s, a, kMiB, 1, 77));
  ASSERT_OK(check(s, a, kMiB, 3, 78));
  ASSERT_OK(check(s, a, 4096, 1, 79));
  ASSERT_OK(device().synchronize_device());
  Mismatch first;
  EXPECT_EQ(device().mismatches(first), 2) << "work 77 and work 78, each once";
  EXPECT_EQ(first.work_id, 77);
  EXPECT_EQ(first.expected_seed, 1U);
  EXPECT_GE(first.address, a);
  EXPECT_LE(first.address + static_cast<Address>(first.bytes), a + kMiB);
}

TEST_P(CopyConformance, HostSeesOneWrongByteNoticed) {
  const Bytes bytes = 100'001;
  const StreamHandle s = stream();
  const Address a = block(bytes), host = pinned(bytes);
  for (const Bytes wrong : {Bytes{0}, Bytes{50'000}, Bytes{99'999}, Bytes{100'000}}) {
    Mismatch first;
    const std::int64_t before = device().mismatches(first);
    fill_pattern(bytes_at(host), bytes, 5);
    bytes_at(host)[wrong] ^= 0x10;
    ASSERT_OK(to_device(s, a, host, bytes));
    ASSERT_OK(check(s, a, bytes, 5));
    ASSERT_OK(device().synchronize_device());
    EXPECT_EQ(device().mismatches(first), before + 1) << "byte " << wrong;
  }
}

TEST_P(CopyConformance, HostSeesWhatWasCopiedOut) {
  const Bytes bytes = 5 * kMiB + 9;
  const StreamHandle s = stream(StreamRole::d2h);
  const Address a = block(bytes), host = pinned(bytes + 16);
  std::memset(bytes_at(host), 0x5A, static_cast<std::size_t>(bytes) + 16);
  ASSERT_OK(fill(s, a, bytes, 41));
  ASSERT_OK(to_host(s, host + 8, a, bytes));
  ASSERT_OK(device().synchronize_stream(s));
  EXPECT_TRUE(holds_pattern(bytes_at(host + 8), bytes, 41));
  EXPECT_EQ(bytes_at(host)[7], 0x5A);
  EXPECT_EQ(bytes_at(host)[bytes + 8], 0x5A) << "one byte too many";
}

TEST_P(CopyConformance, NothingIsCopiedForNoBytes) {
  const StreamHandle s = stream();
  const Address a = block(kMiB), host = pinned(kMiB);
  ASSERT_OK(fill(s, a, kMiB, 2));
  ASSERT_OK(to_device(s, a, host, 0));
  ASSERT_OK(check(s, a, kMiB, 2));
  expect_no_mismatch();
}

TEST_P(CopyConformance, ReadsOfALaunchComeBeforeItsWrites) {
  const StreamHandle s = stream();
  const Address a = block(kMiB);
  ASSERT_OK(fill(s, a, kMiB, 1));
  const Touch in_place[] = {{.address = a, .bytes = kMiB, .kind = AccessKind::write, .seed = 2},
                            {.address = a, .bytes = kMiB, .kind = AccessKind::read, .seed = 1}};
  ASSERT_OK(device().launch(s, {.touches = in_place, .verify = true}));
  ASSERT_OK(check(s, a, kMiB, 2));
  expect_no_mismatch();
}

TEST_P(CopyConformance, WrongDirectionsAreRefused) {
  const StreamHandle s = stream();
  const Address a = block(kMiB), b = block(kMiB), host = pinned(kMiB), other = pinned(kMiB);
  const struct {
    Address to, from;
    CopyKind kind;
  } wrong[] = {{a, host, CopyKind::device_to_host},      {a, b, CopyKind::device_to_host},
               {host, other, CopyKind::device_to_host},  {host, a, CopyKind::host_to_device},
               {a, b, CopyKind::host_to_device},         {other, host, CopyKind::host_to_device},
               {host, a, CopyKind::device_to_device},    {a, host, CopyKind::device_to_device},
               {other, host, CopyKind::device_to_device}};
  for (const auto& copy : wrong) {
    EXPECT_EQ(device().copy(s, copy.to, copy.from, 4096, copy.kind), DeviceCode::invalid) << &copy - wrong;
    EXPECT_FALSE(device().last_error().empty());
  }
  EXPECT_OK(device().synchronize_stream(s));
}

TEST_P(CopyConformance, CopiesThatLeaveThePinnedMemoryAreRefused) {
  const StreamHandle s = stream();
  const Bytes bytes = kMiB + 5;
  const Address a = block(4 * kMiB), host = pinned(bytes), end = host + static_cast<Address>(bytes);
  ASSERT_OK(fill(s, a, bytes, 7));
  EXPECT_EQ(to_host(s, host, a, bytes + 1), DeviceCode::invalid);
  EXPECT_EQ(to_host(s, end - 10, a, 11), DeviceCode::invalid);
  EXPECT_EQ(to_device(s, a, host, bytes + 1), DeviceCode::invalid);
  EXPECT_EQ(to_device(s, a, end - 10, 11), DeviceCode::invalid);
  EXPECT_EQ(to_device(s, a, host, INT64_MAX), DeviceCode::invalid);
  EXPECT_EQ(to_device(s, a, host, -1), DeviceCode::invalid);
  EXPECT_OK(to_host(s, host, a, bytes));
  EXPECT_OK(to_device(s, a + static_cast<Address>(bytes), end - 10, 10));
  ASSERT_OK(check(s, a, bytes, 7)) << "nothing of the refused ones was done";
  expect_no_mismatch();
}

/// The device ends the work, then takes everything back: nothing runs over memory that is gone, nothing is left.
TEST_P(CopyConformance, TheDeviceMayGoWithWorkInFlight) {
  const StreamHandle compute = stream(), out = stream(StreamRole::d2h);
  const EventHandle last = event();
  const Address a = block(kMiB), host = pinned(kMiB);
  // A machine that is slow today submits slowly: once more with more time.
  DeviceCode in_flight = DeviceCode::ok;
  for (std::int64_t ms = 200; in_flight == DeviceCode::ok && ms <= 12'800; ms *= 2) {
    ASSERT_OK(occupy(compute, ms * kMillisecond));
    for (std::uint64_t i = 0; i < 20; ++i) {
      ASSERT_OK(fill(compute, a, kMiB, i));
      ASSERT_OK(record_and_wait(compute, out));
      ASSERT_OK(to_host(out, host, a, kMiB));
      ASSERT_OK(record_and_wait(out, compute));
    }
    ASSERT_OK(device().record_event(last, out));
    in_flight = device().query_event(last);
  }
  ASSERT_EQ(in_flight, DeviceCode::not_ready) << "nothing in flight, nothing shown";
  destroy_device();
}

INSTANTIATE_TEST_SUITE_P(, CopyConformance, ::testing::ValuesIn(backends().begin(), backends().end()), backend_name);

}  // namespace
}  // namespace tidemark::conformance
