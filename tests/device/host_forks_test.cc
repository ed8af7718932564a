// Forks of a process with a host device: both sides keep their bytes, neither sees the other's writes, memory is what
// lives, and the child can do all that its parent can.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "device/host_device.h"
#include "tests/support/fork.h"
#include "tests/support/host_memory.h"

namespace tidemark {
namespace {

using namespace literals;

/// ThreadSanitizer ends a forked process that starts threads.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsInChildren = false;
#else
constexpr bool kThreadsInChildren = true;
#endif

/// One process tells another one to go on.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  void send() const { EXPECT_EQ(write(ends_[1], "g", 1), 1); }
  [[nodiscard]] bool await() const {
    pollfd end{.fd = ends_[0], .events = POLLIN};
    char go = 0;
    return poll(&end, 1, 20'000) == 1 && read(ends_[0], &go, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

/// Four granules at `base`, of which the first two are shown again behind them: 0 1 2 3 0 1.
struct Views {
  explicit Views(const HostDeviceOptions& options) : device(open_host(options)) {
    EXPECT_EQ(device->reserve(32_MiB, base), DeviceCode::ok);
    EXPECT_EQ(device->map(base, 8_MiB), DeviceCode::ok);
    EXPECT_EQ(device->alias(base + 8_MiB, base, 4_MiB), DeviceCode::ok);
    fill(base, 8_MiB, 'p');
  }
  /// Writes through one view and reads through the other, makes a third view, and moves granules.
  [[nodiscard]] bool coherent(char value) const {
    fill(base, 1_MiB, value);
    fill(base + 8_MiB + 1_MiB, 1_MiB, value);
    bool right = all_are(base + 8_MiB, 2_MiB, value) && all_are(base, 2_MiB, value);
    right = right && device->alias(base + 12_MiB, base + 2_MiB, 4_MiB) == DeviceCode::ok;
    fill(base + 12_MiB, 4_MiB, value);
    right = right && all_are(base + 2_MiB, 4_MiB, value) && all_are(base + 10_MiB, 2_MiB, value);
    right = right && device->remap(base + 16_MiB, base + 12_MiB, 4_MiB) == DeviceCode::ok;
    fill(base + 16_MiB, 1_MiB, static_cast<char>(value + 1));
    right = right && all_are(base + 2_MiB, 1_MiB, static_cast<char>(value + 1)) && all_are(base + 3_MiB, 3_MiB, value);
    return right && device->unmap(base + 16_MiB, 4_MiB) == DeviceCode::ok;
  }
  std::unique_ptr<Device> device;
  Address base = 0;
};

/// The views of a granule are one memory after a fork, in both processes, and older and newer ones alike.
TEST(HostForks, AliasesAndRemapsShowTheSameBytesInParentAndChild) {
  const Views views({.capacity_bytes = 32_MiB});
  Signal parent_has_written, child_has_written;
  const Fork child([&] {
    if (!parent_has_written.await() || !all_are(views.base, 12_MiB, 'p')) return false;
    const bool right = views.coherent('c');
    child_has_written.send();
    return right;
  });
  EXPECT_TRUE(views.coherent('q'));
  fill(views.base, 8_MiB, 'r');
  parent_has_written.send();
  EXPECT_TRUE(child_has_written.await());
  EXPECT_TRUE(all_are(views.base, 12_MiB, 'r')) << "the parent saw what the child wrote";
  EXPECT_TRUE(views.coherent('s'));
  EXPECT_EQ(child.status(), 0);
}

/// Stitching in small: a block in one view, a new view of its granule, then writes by whoever holds the block.
TEST(HostForks, AViewMadeAfterAForkDoesNotUndoWritesThroughOlderOnes) {
  const Views views({.capacity_bytes = 32_MiB});
  const auto writes_survive = [&] {
    fill(views.base + 8_MiB, 1_MiB, 'x');  // through the second view
    if (views.device->alias(views.base + 20_MiB, views.base, 2_MiB) != DeviceCode::ok) return false;
    return all_are(views.base + 8_MiB, 1_MiB, 'x') && all_are(views.base, 1_MiB, 'x') &&
           all_are(views.base + 20_MiB, 1_MiB, 'x');
  };
  const Fork child(writes_survive);
  EXPECT_TRUE(writes_survive());
  EXPECT_EQ(child.status(), 0);
}

TEST(HostForks, GenerationsAreEachOnTheirOwn) {
  const Views views({.capacity_bytes = 32_MiB});
  const auto grandchild_is_right = [&] {
    fill(views.base, 8_MiB, 'c');
    const Fork grandchild([&] { return all_are(views.base, 12_MiB, 'c') && views.coherent('g'); });
    return views.coherent('d') && grandchild.status() == 0;
  };
  const Fork child(grandchild_is_right);
  EXPECT_EQ(child.status(), 0);
  EXPECT_TRUE(all_are(views.base, 12_MiB, 'p'));
}

TEST(HostForks, TheParentHasNoMoreMemoryThanBefore) {
  const auto device = open_host({.capacity_bytes = 128_MiB});
  Address base = 0;
  ASSERT_EQ(device->reserve(128_MiB, base), DeviceCode::ok);
  for (int round = 0; round < 8; ++round) {
    ASSERT_EQ(device->map(base, 64_MiB), DeviceCode::ok);
    fill(base, 64_MiB, 'p');
    const Fork child([&] { return all_are(base, 64_MiB, 'p'); });
    EXPECT_EQ(child.status(), 0);
    EXPECT_EQ(file_bytes(), 64_MiB) << "round " << round;
    ASSERT_EQ(device->unmap(base + 2_MiB, 62_MiB), DeviceCode::ok);
    EXPECT_EQ(file_bytes(), 2_MiB) << "round " << round;
    ASSERT_EQ(device->unmap(base, 2_MiB), DeviceCode::ok);
  }
}

TEST(HostForks, TheChildHasWhatItsParentWroteAndFreesWhatItUnmaps) {
  const auto device = open_host({.capacity_bytes = 128_MiB});
  Address base = 0;
  ASSERT_EQ(device->reserve(128_MiB, base), DeviceCode::ok);
  ASSERT_EQ(device->map(base, 96_MiB), DeviceCode::ok);
  fill(base, 32_MiB, 'p');
  const Fork child([&] {
    const bool has = file_bytes() == 32_MiB;  // the rest is zeros
    const bool zeros = all_are(base + 32_MiB, 64_MiB, 0);
    return has && zeros && device->unmap(base, 30_MiB) == DeviceCode::ok && file_bytes() <= 66_MiB &&
           device->unmap(base + 30_MiB, 66_MiB) == DeviceCode::ok && file_bytes() == 0;
  });
  EXPECT_EQ(child.status(), 0);
  EXPECT_EQ(file_bytes(), 96_MiB);
}

/// What was queued is done by then, in both processes; and the child has streams and events of its own.
TEST(HostForks, StreamsGoOnInTheChild) {
  if (!kThreadsInChildren) GTEST_SKIP() << "ThreadSanitizer allows a forked process no threads";
  for (const int copy_threads : {1, 3}) {
    const auto device =
        open_host({.capacity_bytes = 64_MiB, .copy_threads = copy_threads, .d2h_bytes_per_s = 200'000'000});
    Address base = 0, host = 0;
    StreamHandle stream{}, other{};
    EventHandle event{};
    ASSERT_EQ(device->reserve(16_MiB, base), DeviceCode::ok);
    ASSERT_EQ(device->map(base, 16_MiB), DeviceCode::ok);
    ASSERT_EQ(device->allocate_pinned(8_MiB, host), DeviceCode::ok);
    ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
    ASSERT_EQ(device->create_stream(StreamRole::h2d, other), DeviceCode::ok);
    ASSERT_EQ(device->create_event(event), DeviceCode::ok);
    const auto round_trip = [&](char value) {
      fill(base, 8_MiB, value);
      return device->copy(stream, host, base, 8_MiB, CopyKind::device_to_host) == DeviceCode::ok &&
             device->record_event(event, stream) == DeviceCode::ok &&
             device->wait_event(other, event) == DeviceCode::ok &&
             device->copy(other, base + 8_MiB, host, 8_MiB, CopyKind::host_to_device) == DeviceCode::ok;
    };
    const auto arrived = [&](char value) {
      return device->synchronize_device() == DeviceCode::ok && device->query_event(event) == DeviceCode::ok &&
             all_are(host, 8_MiB, value) && all_are(base + 8_MiB, 8_MiB, value);
    };
    ASSERT_TRUE(round_trip('p'));
    const Fork child([&] {
      if (!arrived('p') || !round_trip('c') || !arrived('c')) return false;
      const bool destroyed =
          device->destroy_stream(stream) == DeviceCode::ok && device->destroy_event(event) == DeviceCode::ok;
      return destroyed && device->create_stream(StreamRole::d2h, stream) == DeviceCode::ok &&
             device->synchronize_stream(stream) == DeviceCode::ok;
    });
    EXPECT_TRUE(arrived('p'));
    EXPECT_TRUE(round_trip('q') && arrived('q'));
    EXPECT_EQ(child.status(), 0) << copy_threads << " copy threads";
  }
}

/// What another process's failure was stays with the stream.
TEST(HostForks, TheFailureOfAStreamIsInheritedToo) {
  const auto device = open_host(
      {.fault = [](HostCall call) { return call == HostCall::run_copy ? DeviceCode::copy_failed : DeviceCode::ok; }});
  Address block = 0, host = 0;
  StreamHandle stream{};
  ASSERT_EQ(device->allocate_plain(4096, block), DeviceCode::ok);
  ASSERT_EQ(device->allocate_pinned(4096, host), DeviceCode::ok);
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device->copy(stream, host, block, 4096, CopyKind::device_to_host), DeviceCode::ok);
  const Fork child([&] { return device->synchronize_stream(stream) == DeviceCode::copy_failed; });
  EXPECT_EQ(child.status(), 0);
}

/// A device destroyed in the child ends no thread of the parent's and waits for none.
TEST(HostForks, TheChildMayDestroyTheDevice) {
  auto device = open_host({.capacity_bytes = 16_MiB, .copy_threads = 2});
  StreamHandle stream{};
  ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  const Fork child([&] {
    device.reset();
    return true;
  });
  EXPECT_EQ(child.status(), 0);
  EXPECT_EQ(device->synchronize_stream(stream), DeviceCode::ok);
}

/// The limit on file sizes stands for a machine without memory: the copy for the child cannot be made.
TEST(HostForks, AChildForWhomThereIsNoMemoryHasALostDevice) {
  const Views views({.capacity_bytes = 32_MiB});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const Fork child([&] {
    Address unused = 0;
    return views.device->map(views.base + 20_MiB, 2_MiB) == DeviceCode::lost &&
           views.device->reserve(2_MiB, unused) == DeviceCode::lost &&
           views.device->unmap(views.base, 8_MiB) == DeviceCode::ok;
  });
  const Fork touching([&] { return all_are(views.base, 1, 'p'); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(child.status(), 0);
  EXPECT_NE(touching.status(), 0) << "reads its parent's memory";
  EXPECT_TRUE(views.coherent('q'));
}

/// One thread's whole life with the device, over and over. `wrong` counts what is not as it should be.
class Worker {
 public:
  Worker(Device& device, char value, bool streams) : device_(device), value_(value), streams_(streams) {
    must(device_.reserve(8_MiB, base_) == DeviceCode::ok);
  }
  void round() {
    must(device_.map(base_, 2_MiB) == DeviceCode::ok && all_are(base_, 2_MiB, 0));
    fill(base_, 2_MiB, value_);
    must(device_.alias(base_ + 4_MiB, base_, 2_MiB) == DeviceCode::ok);
    copy_out();
    must(all_are(base_ + 4_MiB, 2_MiB, value_));
    must(device_.unmap(base_ + 4_MiB, 2_MiB) == DeviceCode::ok);
    must(device_.unmap(base_, 2_MiB) == DeviceCode::ok);
    must(device_.alias(base_, base_ + 4_MiB, 2_MiB) == DeviceCode::invalid);  // sets an error text
  }
  /// How many things went wrong.
  int end() {
    must(device_.release(base_, 8_MiB) == DeviceCode::ok);
    return wrong_;
  }

 private:
  void must(bool right) { wrong_ += right ? 0 : 1; }
  void copy_out() {
    Address host = 0;
    StreamHandle stream{};
    must(device_.allocate_pinned(64_KiB, host) == DeviceCode::ok);
    if (streams_) {
      must(device_.create_stream(StreamRole::d2h, stream) == DeviceCode::ok);
      must(device_.copy(stream, host, base_ + 4_MiB, 64_KiB, CopyKind::device_to_host) == DeviceCode::ok);
      must(device_.synchronize_stream(stream) == DeviceCode::ok && all_are(host, 64_KiB, value_));
      must(device_.destroy_stream(stream) == DeviceCode::ok);
    }
    must(device_.free_pinned(host) == DeviceCode::ok);
  }

  Device& device_;
  const char value_;
  const bool streams_;
  Address base_ = 0;
  int wrong_ = 0;
};

/// Every lock of the device is held by some thread at some fork. AddressSanitizer's allocator has locks of its own,
/// which it takes over a fork since LLVM 18 only (https://github.com/llvm/llvm-project/pull/75290): below an older one
/// a child beside threads that allocate may wait for ever.
TEST(HostForks, AForkBesideThreadsAtWorkHangsNobodyAndLosesNothing) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer's allocator does not survive a fork beside threads that allocate";
#endif
  const auto device = open_host({.capacity_bytes = 64_MiB, .copy_threads = 2, .touch_threads = 1});
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0}, wrong{0};
  std::vector<std::thread> threads;
  for (const char value : {'a', 'b', 'c'}) {
    threads.emplace_back([&, value] {
      Worker worker(*device, value, true);
      for (; !stop; ++rounds) worker.round();
      wrong += worker.end();
    });
  }
  Address kept = 0;
  ASSERT_EQ(device->reserve(4_MiB, kept), DeviceCode::ok);
  ASSERT_EQ(device->map(kept, 4_MiB), DeviceCode::ok);
  for (int i = 0; i < 40; ++i) {
    fill(kept, 4_MiB, static_cast<char>(i));
    const int seen = rounds;
    const Fork child([&] {
      Worker worker(*device, 'z', kThreadsInChildren);
      for (int round = 0; round < 2; ++round) worker.round();
      return worker.end() == 0 && all_are(kept, 4_MiB, static_cast<char>(i));
    });
    EXPECT_EQ(child.status(), 0);
    EXPECT_TRUE(all_are(kept, 4_MiB, static_cast<char>(i)));
    while (rounds < seen + 3) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file_bytes(), 4_MiB);
}

}  // namespace
}  // namespace tidemark
