#pragma once
// What every conformance test starts from: an open device of the parameter's back end, and helpers that give back what
// they handed out when the test ends. TearDown then demands that the device has everything back and complains of
// nothing.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"
#include "tests/conformance/backends.h"

namespace tidemark::conformance {

inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& row) {
  return row.param.name;
}

#define ASSERT_OK(call) ASSERT_EQ(call, DeviceCode::ok) << device().last_error()
#define EXPECT_OK(call) EXPECT_EQ(call, DeviceCode::ok) << device().last_error()
#define NEEDS(condition, what) \
  if (!(condition)) GTEST_SKIP() << backend().name << ": " << what

class DeviceConformance : public ::testing::TestWithParam<Backend> {
 protected:
  static constexpr std::int64_t kMillisecond = 1'000'000;

  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] static const Backend& backend() { return GetParam(); }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] const DeviceTraits& traits() const { return device_->traits(); }
  [[nodiscard]] Bytes granule() const { return traits().granule_bytes; }
  [[nodiscard]] Bytes free_bytes();
  /// Where nobody else takes memory.
  void expect_free(Bytes expected);
  /// Ends the device with whatever it has: nothing of what was handed out is given back first.
  void destroy_device();
  /// From now on everything answers `lost` but what gives back, which still must answer ok when the test ends.
  void lose_device();
  void expect_no_mismatch();

  // Failures of these are failures of the test; what they made goes when it ends.
  [[nodiscard]] StreamHandle stream(StreamRole role = StreamRole::compute);
  [[nodiscard]] EventHandle event();
  /// Device memory by whatever way the back end has, with what must stay readable behind it.
  [[nodiscard]] Address block(Bytes bytes);
  [[nodiscard]] Address pinned(Bytes bytes);
  [[nodiscard]] Address reserved(Bytes bytes);
  /// Reserved and mapped; unmapped at the end unless the test did.
  [[nodiscard]] Address mapped(Bytes bytes);
  /// Takes a granule range off the list of what is to be unmapped at the end, or puts it on.
  void forget_mapping(Address at, Bytes bytes);
  void remember_mapping(Address at, Bytes bytes) { mappings_.push_back({at, bytes}); }
  void forget_stream(StreamHandle stream) { std::erase(streams_, stream); }

  [[nodiscard]] DeviceCode occupy(StreamHandle stream, std::int64_t ns);
  [[nodiscard]] DeviceCode fill(StreamHandle stream, Address at, Bytes bytes, std::uint64_t seed);
  [[nodiscard]] DeviceCode check(StreamHandle stream, Address at, Bytes bytes, std::uint64_t seed, std::int64_t id = 7);
  [[nodiscard]] DeviceCode record_and_wait(StreamHandle from, StreamHandle to);

 private:
  struct Range {
    Address at = 0;
    Bytes bytes = 0;
  };
  void give_everything_back();
  void open_device();

  std::unique_ptr<Device> device_;
  bool lost_ = false, destroyed_ = false;
  Bytes free_at_start_ = 0;
  std::vector<StreamHandle> streams_;
  std::vector<EventHandle> events_;
  std::vector<Address> plain_, pinned_;
  std::vector<Range> mappings_, reservations_;
  const Exception* expected_failure_ = nullptr;
  ::testing::TestPartResultArray intercepted_;
  std::unique_ptr<::testing::ScopedFakeTestPartResultReporter> interceptor_;
};

}  // namespace tidemark::conformance
