#include "device/host_transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <vector>

#include "device/host_device.h"
#include "device/pattern.h"

namespace tidemark {
namespace {

using namespace literals;

bool complete(const std::shared_ptr<HostRecord>& record) {
  return record->is_complete();
}

TEST(HostTransfers, RecordsCompleteInOrderAfterEverythingBeforeThem) {
  HostTransfers transfers;
  std::array<std::shared_ptr<HostRecord>, 4> records;
  for (auto& record : records) record = std::make_shared<HostRecord>();
  transfers.mark(records[0], {});
  EXPECT_TRUE(complete(records[0])) << "nothing is under way";
  const HostTransfers::Ticket first = transfers.begin({.to = 100, .from = 200, .bytes = 10});
  transfers.mark(records[1], {});
  const HostTransfers::Ticket second = transfers.begin({.to = 300, .from = 400, .bytes = 10});
  transfers.mark(records[2], {DeviceCode::copy_failed, "the third one"});
  transfers.mark(records[3], {});
  transfers.finish(second);
  for (std::size_t i : {1u, 2u, 3u}) EXPECT_FALSE(complete(records[i])) << i;
  transfers.finish(first);
  for (const auto& record : records) EXPECT_TRUE(complete(record));
  EXPECT_EQ(records[1]->failure().code, DeviceCode::ok);
  EXPECT_EQ(records[2]->failure().text, "the third one");
  transfers.settle();
}

TEST(HostTransfers, NoMoreThanTheLimitAreUnderWay) {
  HostTransfers transfers;
  std::vector<HostTransfers::Ticket> tickets;
  const auto apart = [](Address i) { return HostTransfer{.to = 1000 + 10 * i, .from = 5000, .bytes = 10}; };
  for (Address i = 0; i < HostTransfers::kAhead; ++i) {
    EXPECT_FALSE(transfers.must_wait(apart(i)));
    tickets.push_back(transfers.begin(apart(i)));
  }
  EXPECT_TRUE(transfers.must_wait(apart(100)));
  for (std::size_t i = 1; i < tickets.size(); ++i) transfers.finish(tickets[i]);
  EXPECT_TRUE(transfers.must_wait(apart(100))) << "all of them are behind the first";
  transfers.finish(tickets[0]);
  EXPECT_FALSE(transfers.must_wait(apart(100)));
}

/// Byte by byte.
bool share_bytes(const HostTransfer& a, const HostTransfer& b) {
  const auto touches = [](Address start, Bytes bytes, Address at) {
    return at >= start && at < start + static_cast<Address>(bytes);
  };
  for (Address at = 0; at < 64; ++at) {
    const bool a_writes = touches(a.to, a.bytes, at), b_writes = touches(b.to, b.bytes, at);
    if (a_writes && (b_writes || touches(b.from, b.bytes, at))) return true;
    if (b_writes && touches(a.from, a.bytes, at)) return true;
  }
  return false;
}

TEST(HostTransfers, ACopyWaitsForThoseItSharesBytesWith) {
  std::mt19937 random(4);
  const auto any = [&] {
    return HostTransfer{.to = random() % 40, .from = random() % 40, .bytes = static_cast<Bytes>(1 + random() % 12)};
  };
  int wrong = 0, waiting = 0;
  for (int round = 0; round < 3000; ++round) {
    HostTransfers transfers;
    std::vector<std::pair<HostTransfer, HostTransfers::Ticket>> under_way;
    for (int i = 0; i < 5; ++i) {
      const HostTransfer next = any();
      const bool must_wait =
          std::ranges::any_of(under_way, [&](const auto& other) { return share_bytes(other.first, next); });
      const bool waits = transfers.must_wait(next);
      wrong += waits != must_wait;
      waiting += waits;
      if (!waits) under_way.emplace_back(next, transfers.begin(next));
    }
    HostTransfer alone = any();
    alone.alone = true;
    wrong += !transfers.must_wait(alone);
    for (const auto& [transfer, ticket] : under_way) transfers.finish(ticket);
    wrong += transfers.must_wait(alone);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(waiting, 3000);
}

/// Random copies between three places of device memory, one of which is the other name of another, and two of pinned
/// memory, all on one stream and most of them large enough for several threads.
class CopyChain {
 public:
  CopyChain(int threads, bool aliased, unsigned seed) : random_(seed), aliased_(aliased) {
    Result<std::unique_ptr<Device>> opened = open_host_device({.capacity_bytes = 3 * kArea, .copy_threads = threads});
    device_ = std::move(opened).value();
    Address base = 0, pinned = 0;
    EXPECT_EQ(device_->reserve(3 * kArea, base), DeviceCode::ok);
    EXPECT_EQ(device_->map(base, 2 * kArea), DeviceCode::ok);
    const Address third = base + 2 * static_cast<Address>(kArea);
    EXPECT_EQ(aliased ? device_->alias(third, base, kArea) : device_->map(third, kArea), DeviceCode::ok);
    EXPECT_EQ(device_->allocate_pinned(2 * kArea, pinned), DeviceCode::ok);
    EXPECT_EQ(device_->create_stream(StreamRole::h2d, stream_), DeviceCode::ok);
    EXPECT_EQ(device_->create_event(event_), DeviceCode::ok);
    for (Address i = 0; i < 5; ++i) {
      areas_[i] = i < 3 ? base + i * static_cast<Address>(kArea) : pinned + (i - 3) * static_cast<Address>(kArea);
      model_[i].resize(static_cast<std::size_t>(kArea));
      fill_pattern(model_[i].data(), kArea, i);
      if (i < 2 || i > 2 || !aliased) std::memcpy(reinterpret_cast<void*>(areas_[i]), model_[i].data(), kArea);
    }
  }

  void copy_at_random() {
    std::size_t to = random_() % 5, from = random_() % 5;
    if (to > 2 && from > 2) to = random_() % 3;
    const auto up_to = [&](Bytes most) { return static_cast<Bytes>(random_() % static_cast<Address>(most)); };
    const Bytes bytes = up_to(4) == 0 ? 1 + up_to(1000) : 4_MiB + up_to(kMiB);
    const auto offset = [&] { return static_cast<Address>(up_to(kArea - bytes + 1)); };
    const Address to_at = offset(), from_at = offset();
    if (place(to) == place(from) && to_at < from_at + static_cast<Address>(bytes) &&
        from_at < to_at + static_cast<Address>(bytes)) {
      return;  // a copy onto itself has no meaning
    }
    const CopyKind kind = to > 2     ? CopyKind::device_to_host
                          : from > 2 ? CopyKind::host_to_device
                                     : CopyKind::device_to_device;
    ASSERT_EQ(device_->copy(stream_, areas_[to] + to_at, areas_[from] + from_at, bytes, kind), DeviceCode::ok);
    std::memcpy(&model_[place(to)][to_at], &model_[place(from)][from_at], static_cast<std::size_t>(bytes));
    if (random_() % 3 == 0) {
      ASSERT_EQ(device_->record_event(event_, stream_), DeviceCode::ok);
    }
  }

  void expect_as_copied_one_by_one() {
    ASSERT_EQ(device_->synchronize_stream(stream_), DeviceCode::ok);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(std::memcmp(reinterpret_cast<void*>(areas_[i]), model_[place(i)].data(), kArea), 0) << i;
    }
  }

 private:
  static constexpr Bytes kArea = 10_MiB;
  [[nodiscard]] std::size_t place(std::size_t area) const { return aliased_ && area == 2 ? 0 : area; }

  std::mt19937 random_;
  const bool aliased_;
  std::unique_ptr<Device> device_;
  StreamHandle stream_{};
  EventHandle event_{};
  std::array<Address, 5> areas_{};
  std::array<std::vector<unsigned char>, 5> model_;
};

TEST(HostTransfers, AChainOfCopiesComesOutAsIfCopiedOneByOne) {
  for (const bool aliased : {false, true}) {
    for (const int threads : {2, 4}) {
      CopyChain chain(threads, aliased, 10 + static_cast<unsigned>(threads));
      for (int i = 0; i < 40; ++i) ASSERT_NO_FATAL_FAILURE(chain.copy_at_random());
      chain.expect_as_copied_one_by_one();
    }
  }
}

TEST(HostTransfers, AFailureSkipsWhatIsBehindItAndNothingBeforeIt) {
  std::atomic<int> copies{0};
  const HostDeviceOptions options{.capacity_bytes = 64_MiB, .copy_threads = 3, .fault = [&](HostCall call) {
                                    return call == HostCall::run_copy && ++copies == 4 ? DeviceCode::copy_failed
                                                                                       : DeviceCode::ok;
                                  }};
  const std::unique_ptr<Device> device = std::move(open_host_device(options)).value();
  Address block = 0, pinned = 0;
  StreamHandle stream{};
  std::array<EventHandle, 6> events{};
  ASSERT_EQ(device->allocate_plain(30_MiB, block), DeviceCode::ok);
  ASSERT_EQ(device->allocate_pinned(30_MiB, pinned), DeviceCode::ok);
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  fill_pattern(reinterpret_cast<void*>(block), 30_MiB, 1);
  std::memset(reinterpret_cast<void*>(pinned), 0, 30_MiB);
  for (std::size_t i = 0; i < 6; ++i) {
    const Address at = i * 5_MiB;
    ASSERT_EQ(device->create_event(events[i]), DeviceCode::ok);
    ASSERT_EQ(device->copy(stream, pinned + at, block + at, 5_MiB, CopyKind::device_to_host), DeviceCode::ok);
    ASSERT_EQ(device->record_event(events[i], stream), DeviceCode::ok);
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(device->synchronize_event(events[i], -1), i < 3 ? DeviceCode::ok : DeviceCode::copy_failed) << i;
  }
  EXPECT_EQ(copies, 4);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(pinned);
  EXPECT_EQ(std::memcmp(bytes, reinterpret_cast<void*>(block), 15_MiB), 0);
  EXPECT_TRUE(std::all_of(bytes + 15_MiB, bytes + 30_MiB, [](unsigned char byte) { return byte == 0; }));
}

}  // namespace
}  // namespace tidemark
