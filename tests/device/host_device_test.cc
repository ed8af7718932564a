// What is particular to the host back end: its bounds, its failures on demand, calls from many threads, its end.
#include "device/host_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "device/null_device.h"
#include "tests/support/fork.h"
#include "tests/support/host_memory.h"

namespace tidemark {
namespace {

using namespace literals;

/// Fails the k-th call of one kind, counted from 0; keeps count of all of them.
class FaultOnce {
 public:
  FaultOnce(HostCall call, int k, DeviceCode code) : call_(call), left_(k), code_(code) {}
  DeviceCode operator()(HostCall call) { return call == call_ && left_.fetch_sub(1) == 0 ? code_ : DeviceCode::ok; }

 private:
  const HostCall call_;
  std::atomic<int> left_;
  const DeviceCode code_;
};

HostFaultHook fail_once(HostCall call, int k, DeviceCode code) {
  return [fault = std::make_shared<FaultOnce>(call, k, code)](HostCall asked) { return (*fault)(asked); };
}

/// One stream with a block of device memory and one of pinned memory.
struct Bench {
  explicit Bench(const HostDeviceOptions& options) : device(open_host(options)) {
    EXPECT_EQ(device->allocate_plain(kBytes, block), DeviceCode::ok);
    EXPECT_EQ(device->allocate_pinned(kBytes, host), DeviceCode::ok);
    EXPECT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
    EXPECT_EQ(device->create_event(event), DeviceCode::ok);
  }
  DeviceCode copy_out() { return device->copy(stream, host, block, kBytes, CopyKind::device_to_host, 42); }

  static constexpr Bytes kBytes = 100'000;
  std::unique_ptr<Device> device;
  Address block = 0, host = 0;
  StreamHandle stream{};
  EventHandle event{};
};

TEST(HostDevice, OptionsWithoutSenseAreRefused) {
  for (const HostDeviceOptions& options : {HostDeviceOptions{.capacity_bytes = 0},
                                           {.granule_bytes = 1000},
                                           {.copy_threads = 0},
                                           {.touch_threads = -1},
                                           {.d2h_bytes_per_s = -1},
                                           {.play_estimates = -0.5}}) {
    const Result<std::unique_ptr<Device>> opened = open_host_device(options);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Error::Code::bad_input);
  }
}

TEST(HostDevice, PinnedMemoryIsBounded) {
  const auto device = open_host({.pinned_capacity_bytes = 8_MiB, .largest_pinned_bytes = 5_MiB});
  Address a = 0, b = 0, c = 0;
  EXPECT_EQ(device->allocate_pinned(5_MiB + 1, a), DeviceCode::out_of_memory);
  ASSERT_EQ(device->allocate_pinned(5_MiB, a), DeviceCode::ok);
  EXPECT_EQ(device->allocate_pinned(3_MiB + 1, b), DeviceCode::out_of_memory);
  ASSERT_EQ(device->allocate_pinned(3_MiB, b), DeviceCode::ok);
  EXPECT_EQ(device->allocate_pinned(1, c), DeviceCode::out_of_memory);
  ASSERT_EQ(device->free_pinned(a), DeviceCode::ok);
  EXPECT_EQ(device->allocate_pinned(5_MiB, c), DeviceCode::ok);
}

TEST(HostDevice, WorkOverMemoryThatIsNotThereIsRefused) {
  Bench bench({.capacity_bytes = 64_MiB});
  Device& device = *bench.device;
  Address base = 0;
  ASSERT_EQ(device.reserve(8_MiB, base), DeviceCode::ok);
  ASSERT_EQ(device.map(base, 4_MiB), DeviceCode::ok);
  const auto out = [&](Address from, Bytes bytes) {
    return device.copy(bench.stream, bench.host, from, bytes, CopyKind::device_to_host);
  };
  EXPECT_EQ(out(base, 1000), DeviceCode::ok);
  EXPECT_EQ(out(base + 4_MiB - 500, 1000), DeviceCode::invalid) << "runs into what is not mapped";
  EXPECT_EQ(out(base + 5_MiB, 8), DeviceCode::invalid);
  EXPECT_EQ(out(bench.block + Bench::kBytes + 4096, 8), DeviceCode::invalid);
  EXPECT_EQ(out(base, -1), DeviceCode::invalid);
  EXPECT_EQ(out(base, INT64_MAX), DeviceCode::invalid);
  const Touch touch{.address = base + 3_MiB, .bytes = 2_MiB, .kind = AccessKind::write, .seed = 1};
  EXPECT_EQ(device.launch(bench.stream, {.id = 3, .touches = {&touch, 1}, .verify = true}), DeviceCode::invalid);
  EXPECT_NE(device.last_error().find("launch 3"), std::string::npos) << device.last_error();
  EXPECT_EQ(device.synchronize_device(), DeviceCode::ok);
}

TEST(HostDevice, ACallThatFailsOnDemandLeavesTheDeviceUsable) {
  Bench bench({.fault = fail_once(HostCall::copy, 1, DeviceCode::no_resource)});
  EXPECT_EQ(bench.copy_out(), DeviceCode::ok);
  EXPECT_EQ(bench.copy_out(), DeviceCode::no_resource);
  EXPECT_FALSE(bench.device->last_error().empty());
  EXPECT_EQ(bench.copy_out(), DeviceCode::ok);
  EXPECT_EQ(bench.device->synchronize_device(), DeviceCode::ok);
}

TEST(HostDevice, CopiesMemoryOfTheProcessWhereItIsToldThatItMay) {
  Bench refuses({}), copies({.copies_any_memory = true});
  std::vector<std::byte> content(Bench::kBytes), back(Bench::kBytes);
  std::mt19937 random(3);
  std::ranges::generate(content, [&] { return static_cast<std::byte>(random()); });
  const Address from = reinterpret_cast<Address>(content.data()), to = reinterpret_cast<Address>(back.data());
  EXPECT_EQ(refuses.device->copy(refuses.stream, refuses.host, from, Bench::kBytes, CopyKind::device_to_host, 0),
            DeviceCode::invalid);
  Device& device = *copies.device;
  ASSERT_EQ(device.copy(copies.stream, copies.host, from, Bench::kBytes, CopyKind::device_to_host, 0), DeviceCode::ok);
  ASSERT_EQ(device.copy(copies.stream, to, copies.host, Bench::kBytes, CopyKind::host_to_device, 1), DeviceCode::ok);
  ASSERT_EQ(device.synchronize_stream(copies.stream), DeviceCode::ok);
  EXPECT_EQ(back, content);
  EXPECT_EQ(device.copy(copies.stream, to, from, Bench::kBytes, CopyKind::device_to_host, 2), DeviceCode::invalid)
      << "its host side is pinned";
}

TEST(HostDevice, AFailedCopyStopsItsStreamAndThoseWhoWaitForIt) {
  Bench bench({.fault = fail_once(HostCall::run_copy, 0, DeviceCode::copy_failed)});
  Device& device = *bench.device;
  StreamHandle follower{}, bystander{};
  ASSERT_EQ(device.create_stream(StreamRole::compute, follower), DeviceCode::ok);
  ASSERT_EQ(device.create_stream(StreamRole::compute, bystander), DeviceCode::ok);
  const Touch touch{.address = bench.block, .bytes = Bench::kBytes, .kind = AccessKind::read, .seed = 99};
  const Work would_mismatch{.id = 1, .touches = {&touch, 1}, .verify = true};
  ASSERT_EQ(bench.copy_out(), DeviceCode::ok) << "accepted, fails when it runs";
  ASSERT_EQ(device.launch(bench.stream, would_mismatch), DeviceCode::ok);
  ASSERT_EQ(device.record_event(bench.event, bench.stream), DeviceCode::ok);
  ASSERT_EQ(device.wait_event(follower, bench.event), DeviceCode::ok);
  ASSERT_EQ(device.launch(follower, would_mismatch), DeviceCode::ok);
  EXPECT_EQ(device.synchronize_event(bench.event), DeviceCode::copy_failed);
  EXPECT_NE(device.last_error().find("copy 42"), std::string::npos) << device.last_error();
  EXPECT_EQ(device.query_event(bench.event), DeviceCode::ok) << "reached all the same";
  EXPECT_EQ(device.synchronize_stream(bench.stream), DeviceCode::copy_failed);
  EXPECT_EQ(device.synchronize_stream(follower), DeviceCode::copy_failed);
  EXPECT_EQ(device.synchronize_stream(bystander), DeviceCode::ok);
  EXPECT_EQ(device.synchronize_device(), DeviceCode::copy_failed);
  Mismatch first;
  EXPECT_EQ(device.mismatches(first), 0) << "work behind the failure was skipped";
  // A stream made anew works.
  ASSERT_EQ(device.destroy_stream(bench.stream), DeviceCode::copy_failed) << "not swallowed";
  ASSERT_EQ(device.create_stream(StreamRole::d2h, bench.stream), DeviceCode::ok);
  EXPECT_EQ(bench.copy_out(), DeviceCode::ok);
  EXPECT_EQ(device.synchronize_stream(bench.stream), DeviceCode::ok);
}

TEST(HostDevice, MessagesAreRefusedAsTheTraitsSay) {
  Bench bench({});
  EXPECT_FALSE(bench.device->traits().messages);
  EXPECT_EQ(bench.device->launch(bench.stream, {.message = {.peer_rank = 1}}), DeviceCode::unsupported);
}

TEST(HostDevice, LostIsForEver) {
  Bench bench({.fault = fail_once(HostCall::run_copy, 2, DeviceCode::lost)});
  for (int i = 0; i < 5; ++i) static_cast<void>(bench.copy_out());
  EXPECT_EQ(bench.device->synchronize_stream(bench.stream), DeviceCode::lost);
  Address unused = 0;
  MemoryInfo info;
  EXPECT_EQ(bench.copy_out(), DeviceCode::lost);
  EXPECT_EQ(bench.device->query_event(bench.event), DeviceCode::lost);
  EXPECT_EQ(bench.device->allocate_plain(8, unused), DeviceCode::lost);
  EXPECT_EQ(bench.device->memory_info(info), DeviceCode::lost);
  EXPECT_EQ(bench.device->synchronize_device(), DeviceCode::lost);
  // But for what gives back.
  EXPECT_EQ(bench.device->destroy_stream(bench.stream), DeviceCode::ok);
  EXPECT_EQ(bench.device->destroy_event(bench.event), DeviceCode::ok);
  EXPECT_EQ(bench.device->free_plain(bench.block), DeviceCode::ok);
  EXPECT_EQ(bench.device->free_pinned(bench.host), DeviceCode::ok);
}

/// Every call of every kind failed once: no hang, no leak (the sanitizers look), memory counted right afterwards.
TEST(HostDevice, EveryInjectedFaultLeavesTheBooksRight) {
  constexpr std::array kCalls = {HostCall::reserve,         HostCall::map,          HostCall::alias,
                                 HostCall::remap,           HostCall::unmap,        HostCall::allocate_plain,
                                 HostCall::create_stream,   HostCall::create_event, HostCall::record_event,
                                 HostCall::allocate_pinned, HostCall::wait_event,   HostCall::launch,
                                 HostCall::run_launch};
  for (const HostCall call : kCalls) {
    const auto device = open_host({.capacity_bytes = 16_MiB, .fault = fail_once(call, 0, DeviceCode::out_of_memory)});
    Address base = 0, other = 0, plain = 0, host = 0;
    StreamHandle stream{};
    EventHandle event{};
    int failures = 0;
    const auto twice = [&](auto&& attempt) {
      if (attempt() == DeviceCode::ok) return;
      ++failures;
      EXPECT_EQ(attempt(), DeviceCode::ok) << device->last_error();
    };
    twice([&] { return device->reserve(8_MiB, base); });
    twice([&] { return device->reserve(8_MiB, other); });
    twice([&] { return device->map(base, 4_MiB); });
    twice([&] { return device->alias(other, base, 2_MiB); });
    twice([&] { return device->remap(base + 4_MiB, base, 4_MiB); });
    twice([&] { return device->unmap(base + 4_MiB, 4_MiB); });
    twice([&] { return device->allocate_plain(14_MiB, plain); });
    twice([&] { return device->allocate_pinned(1_MiB, host); });
    twice([&] { return device->create_stream(StreamRole::compute, stream); });
    twice([&] { return device->create_event(event); });
    twice([&] { return device->launch(stream, {}); });
    twice([&] { return device->record_event(event, stream); });
    twice([&] { return device->wait_event(stream, event); });
    failures += device->synchronize_device() != DeviceCode::ok;
    EXPECT_EQ(failures, 1) << "call " << static_cast<int>(call);
    MemoryInfo info;
    ASSERT_EQ(device->memory_info(info), DeviceCode::ok);
    EXPECT_EQ(info.free_bytes, 0) << "14 MiB plain, 2 MiB aliased";
  }
}

/// Threads with streams and memory of their own at the same time; contents verified, nothing left at the end.
TEST(HostDevice, ThreadsDoNotDisturbEachOther) {
  const auto device = open_host({.capacity_bytes = 64_MiB, .copy_threads = 2});
  std::atomic<int> refused{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    StreamHandle stream{};
    EventHandle event{};
    Address base = 0;
    const auto must = [&](DeviceCode code) { refused += code != DeviceCode::ok; };
    must(device->create_stream(StreamRole::h2d, stream));
    must(device->create_event(event));
    must(device->reserve(4_MiB, base));
    for (std::uint64_t i = 0; i < 30; ++i) {
      const Bytes bytes = 1 + static_cast<Bytes>(random() % 300'000);
      Address host = 0;
      must(device->map(base, 4_MiB));
      must(device->allocate_pinned(bytes, host));
      const Touch write{.address = base, .bytes = bytes, .kind = AccessKind::write, .seed = seed + i};
      const Touch read{.address = base + 2_MiB, .bytes = bytes, .kind = AccessKind::read, .seed = seed + i};
      must(device->launch(stream, {.touches = {&write, 1}, .verify = true}));
      must(device->copy(stream, host, base, bytes, CopyKind::device_to_host));
      must(device->copy(stream, base + 2_MiB, host, bytes, CopyKind::host_to_device));
      must(device->launch(stream, {.touches = {&read, 1}, .verify = true}));
      must(device->record_event(event, stream));
      must(i % 2 == 0 ? device->synchronize_event(event) : device->synchronize_stream(stream));
      must(device->free_pinned(host));
      must(device->unmap(base, 4_MiB));
    }
    must(device->release(base, 4_MiB));
    must(device->destroy_event(event));
    must(device->destroy_stream(stream));
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, 1000 * (i + 1));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused.load(), 0);
  Mismatch first;
  EXPECT_EQ(device->mismatches(first), 0);
  MemoryInfo info;
  ASSERT_EQ(device->memory_info(info), DeviceCode::ok);
  EXPECT_EQ(info.free_bytes, info.total_bytes);
}

TEST(HostDevice, ThrottledCopiesAreExactAndTheEndWaitsForThem) {
  Bench bench({.copy_threads = 2, .d2h_bytes_per_s = 100'000'000});
  const Touch write{.address = bench.block, .bytes = Bench::kBytes, .kind = AccessKind::write, .seed = 1};
  ASSERT_EQ(bench.device->launch(bench.stream, {.touches = {&write, 1}, .verify = true}), DeviceCode::ok);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(bench.copy_out(), DeviceCode::ok);
  bench.device.reset();  // 2 MB at 100 MB/s in flight
}

/// A stream on its way out still counts: a lost device frees nothing under its work.
TEST(HostDevice, ALostDeviceWaitsForAStreamThatIsBeingDestroyed) {
  std::atomic<bool> at_gate{false}, open_gate{false}, lose{false};
  Bench bench({.fault = [&](HostCall call) {
    if (call == HostCall::run_copy) at_gate = true;
    while (call == HostCall::run_copy && !open_gate) std::this_thread::yield();
    return call == HostCall::reserve && lose ? DeviceCode::lost : DeviceCode::ok;
  }});
  Device& device = *bench.device;
  ASSERT_EQ(bench.copy_out(), DeviceCode::ok);
  while (!at_gate) std::this_thread::yield();  // work that starts on a lost device ends at once
  auto destroyed = std::async(std::launch::async, [&] { return device.destroy_stream(bench.stream); });
  while (device.record_event(bench.event, bench.stream) == DeviceCode::ok) std::this_thread::yield();
  EXPECT_EQ(device.destroy_stream(bench.stream), DeviceCode::invalid) << "somebody is at it";
  lose = true;
  Address unused = 0;
  EXPECT_EQ(device.reserve(2_MiB, unused), DeviceCode::lost);
  auto freed = std::async(std::launch::async, [&] { return device.free_pinned(bench.host); });
  EXPECT_EQ(freed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout) << "freed under the copy";
  open_gate = true;
  EXPECT_EQ(freed.get(), DeviceCode::ok);
  EXPECT_EQ(destroyed.get(), DeviceCode::ok);
}

/// From here on madvise(MADV_POPULATE_WRITE) is unknown to this thread, as before Linux 5.14. False: not possible here.
bool forget_populate() {
  const std::uint32_t number = offsetof(seccomp_data, nr), advice = offsetof(seccomp_data, args) + 2 * 8;
  std::array<sock_filter, 6> code = {{{BPF_LD | BPF_W | BPF_ABS, 0, 0, number},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_madvise},
                                      {BPF_LD | BPF_W | BPF_ABS, 0, 0, advice},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 23},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EINVAL},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Pages in this process's tables; -1: it does not say.
std::int64_t present_pages(Address at, Bytes bytes) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  std::vector<std::uint64_t> entries(static_cast<std::size_t>(bytes / page));
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const std::size_t size = entries.size() * sizeof entries[0];
  const ssize_t got = pread(file, entries.data(), size, static_cast<off_t>(at) / page * 8);
  ::close(file);
  if (got != static_cast<ssize_t>(size)) return -1;
  return std::count_if(entries.begin(), entries.end(), [](std::uint64_t entry) { return entry >> 63U != 0; });
}

/// Another thread may be writing through another address: an alias that writes "what is there" undoes its write.
TEST(HostDevice, AKernelThatCannotPopulateHasNobodyWriteThroughAnAlias) {
  std::thread([] {
    const auto device = open_host({.capacity_bytes = 16_MiB});
    Address base = 0;
    ASSERT_EQ(device->reserve(8_MiB, base), DeviceCode::ok);
    if (!forget_populate()) GTEST_SKIP() << "no system call filters here";
    ASSERT_EQ(device->map(base, 2_MiB), DeviceCode::ok);
    ASSERT_EQ(device->alias(base + 4_MiB, base, 2_MiB), DeviceCode::ok);
    EXPECT_EQ(present_pages(base + 4_MiB, 2_MiB), 0) << "touched";
    EXPECT_EQ(file_bytes(), 2_MiB) << "the file has its pages all the same";
  }).join();
}

/// A worker that writes to what it has inherited, or maps memory of its own, writes nothing of its parent's.
TEST(HostDevice, AForkHasTheBytesAsTheyWereAndItsWritesToItself) {
  const auto device = open_host({.capacity_bytes = 16_MiB});
  Address base = 0;
  ASSERT_EQ(device->reserve(16_MiB, base), DeviceCode::ok);
  ASSERT_EQ(device->map(base, 4_MiB), DeviceCode::ok);
  fill(base, 4_MiB, 'p');
  std::array<int, 2> parent_has_written{};
  ASSERT_EQ(pipe(parent_has_written.data()), 0);
  for (int generation = 0; generation < 2; ++generation) {
    const auto writes_to_itself = [&] {
      if (device->map(base + 4_MiB, 2_MiB) != DeviceCode::ok) return false;
      fill(base + 4_MiB, 2_MiB, 'c');
      fill(base, 2_MiB, 'c');
      return all_are(base, 2_MiB, 'c') && all_are(base + 2_MiB, 2_MiB, 'p') && all_are(base + 4_MiB, 2_MiB, 'c');
    };
    EXPECT_EQ(in_a_fork(writes_to_itself), 0);
    EXPECT_TRUE(all_are(base, 4_MiB, 'p'));
  }
  const Fork child([&] {
    char go = 0;
    return read(parent_has_written[0], &go, 1) == 1 && all_are(base, 4_MiB, 'p');
  });
  fill(base, 4_MiB, 'q');
  ASSERT_EQ(device->remap(base + 8_MiB, base, 4_MiB), DeviceCode::ok);
  EXPECT_TRUE(all_are(base + 8_MiB, 4_MiB, 'q')) << "contents are kept";
  ASSERT_EQ(device->map(base, 4_MiB), DeviceCode::ok);
  EXPECT_TRUE(all_are(base, 4_MiB, 0)) << "the next user finds zeros";
  fill(base, 4_MiB, 'r');
  EXPECT_EQ(write(parent_has_written[1], "g", 1), 1);
  EXPECT_EQ(child.status(), 0) << "the child saw what the parent wrote";
  EXPECT_EQ(device->unmap(base, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(device->unmap(base + 8_MiB, 4_MiB), DeviceCode::ok);
  close(parent_has_written[0]);
  close(parent_has_written[1]);
}

TEST(NullDevice, AnswersUnsupportedAndSaysWhatItHasNot) {
  const auto device = open_null_device();
  Address address = 0;
  EXPECT_EQ(device->allocate_plain(1, address), DeviceCode::unsupported);
  EXPECT_NE(device->last_error().find("allocate_plain"), std::string::npos);
  EXPECT_EQ(device->synchronize_device(), DeviceCode::ok);
  EXPECT_FALSE(device->traits().mapping);
}

}  // namespace
}  // namespace tidemark
