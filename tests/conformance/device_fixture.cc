#include "tests/conformance/device_fixture.h"

#include <algorithm>

namespace tidemark::conformance {
namespace {

std::string test_name() {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return name.substr(0, name.find('/'));
}

}  // namespace

void DeviceConformance::SetUp() {
  if (const Exception* never = find_unsupported(backend().name, test_name()); never != nullptr) {
    GTEST_SKIP() << backend().name << ", unsupported: " << never->reason;
  }
  expected_failure_ = find_expected_failure(backend().name, test_name());
  open_device();
  if (device_ == nullptr || expected_failure_ == nullptr) return;
  using Reporter = ::testing::ScopedFakeTestPartResultReporter;
  interceptor_ = std::make_unique<Reporter>(Reporter::INTERCEPT_ALL_THREADS, &intercepted_);
}

void DeviceConformance::open_device() {
  Result<std::unique_ptr<Device>> opened = backend().open();
  if (!opened && !backend().may_be_absent) FAIL() << backend().name << " does not open: " << opened.error().message;
  if (!opened) GTEST_SKIP() << backend().name << ", not on this machine: " << opened.error().message;
  device_ = std::move(opened).value();
  free_at_start_ = free_bytes();
}

void DeviceConformance::TearDown() {
  if (device_ != nullptr) {
    give_everything_back();
    if (!lost_) expect_free(free_at_start_);
    const std::string complaints = backend().complaints ? backend().complaints(device()) : "";
    EXPECT_EQ(complaints, "");
  }
  const bool opened = device_ != nullptr || destroyed_;
  device_.reset();
  if (opened && backend().left_behind) {
    EXPECT_EQ(backend().left_behind(), "");
  }
  if (interceptor_ == nullptr) return;
  interceptor_.reset();
  if (intercepted_.size() == 0) FAIL() << "passes now; take it off kExpectedFailures: " << expected_failure_->reason;
  GTEST_SKIP() << backend().name << ", expected failure: " << expected_failure_->reason;
}

void DeviceConformance::give_everything_back() {
  if (!lost_) {
    EXPECT_OK(device().synchronize_device());
  }
  for (const StreamHandle stream : streams_) EXPECT_OK(device().destroy_stream(stream));
  for (const EventHandle event : events_) EXPECT_OK(device().destroy_event(event));
  for (const Range& range : mappings_) EXPECT_OK(device().unmap(range.at, range.bytes));
  for (const Range& range : reservations_) EXPECT_OK(device().release(range.at, range.bytes));
  for (const Address address : plain_) EXPECT_OK(device().free_plain(address));
  for (const Address address : pinned_) EXPECT_OK(device().free_pinned(address));
}

void DeviceConformance::destroy_device() {
  device_.reset();
  destroyed_ = true;
}

void DeviceConformance::lose_device() {
  backend().lose(device());
  lost_ = true;
}

Bytes DeviceConformance::free_bytes() {
  MemoryInfo info;
  EXPECT_OK(device().memory_info(info));
  EXPECT_LE(info.free_bytes, info.total_bytes);
  return info.free_bytes;
}

void DeviceConformance::expect_free(Bytes expected) {
  const Bytes found = free_bytes();
  EXPECT_TRUE(!backend().bounded || found == expected) << found << " B free instead of " << expected;
}

void DeviceConformance::expect_no_mismatch() {
  EXPECT_OK(device().synchronize_device());
  Mismatch first;
  EXPECT_EQ(device().mismatches(first), 0)
      << "work " << first.work_id << " did not find pattern " << first.expected_seed << " in " << first.bytes << " B";
}

StreamHandle DeviceConformance::stream(StreamRole role) {
  StreamHandle made{};
  EXPECT_OK(device().create_stream(role, made));
  streams_.push_back(made);
  return made;
}

EventHandle DeviceConformance::event() {
  EventHandle made{};
  EXPECT_OK(device().create_event(made));
  events_.push_back(made);
  return made;
}

Address DeviceConformance::block(Bytes bytes) {
  if (traits().mapping) return mapped(round_up(bytes + traits().tail_pad_bytes, granule()));
  Address made = 0;
  EXPECT_OK(device().allocate_plain(bytes, made));
  plain_.push_back(made);
  return made;
}

Address DeviceConformance::pinned(Bytes bytes) {
  Address made = 0;
  EXPECT_OK(device().allocate_pinned(bytes, made));
  pinned_.push_back(made);
  return made;
}

Address DeviceConformance::reserved(Bytes bytes) {
  Address base = 0;
  EXPECT_OK(device().reserve(bytes, base));
  reservations_.push_back({base, bytes});
  return base;
}

Address DeviceConformance::mapped(Bytes bytes) {
  const Address base = reserved(bytes);
  EXPECT_OK(device().map(base, bytes));
  remember_mapping(base, bytes);
  return base;
}

void DeviceConformance::forget_mapping(Address at, Bytes bytes) {
  const auto is_it = [&](const Range& range) { return range.at == at && range.bytes == bytes; };
  ASSERT_EQ(std::erase_if(mappings_, is_it), 1U);
}

DeviceCode DeviceConformance::occupy(StreamHandle stream, std::int64_t ns) {
  return device().launch(stream, {.estimate_ns = ns});
}

DeviceCode DeviceConformance::fill(StreamHandle stream, Address at, Bytes bytes, std::uint64_t seed) {
  const Touch touch{.address = at, .bytes = bytes, .kind = AccessKind::write, .seed = seed};
  return device().launch(stream, {.touches = {&touch, 1}, .verify = true});
}

DeviceCode DeviceConformance::check(StreamHandle stream, Address at, Bytes bytes, std::uint64_t seed, std::int64_t id) {
  const Touch touch{.address = at, .bytes = bytes, .kind = AccessKind::read, .seed = seed};
  return device().launch(stream, {.id = id, .touches = {&touch, 1}, .verify = true});
}

DeviceCode DeviceConformance::record_and_wait(StreamHandle from, StreamHandle to) {
  const EventHandle between = event();
  if (const DeviceCode code = device().record_event(between, from); code != DeviceCode::ok) return code;
  return device().wait_event(to, between);
}

}  // namespace tidemark::conformance
