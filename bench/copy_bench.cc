// How much of what plain memcpy moves do the host back end's copies move, in both directions at once, while one thread
// computes? Everything here is measured on this machine, nothing is simulated.
//
//   copy_bench [repeats] [MiB a direction]      (default 9 and 512)
//
// Workloads: copies out and copies in of equal size on a d2h and an h2d stream, in pieces, with 1 and 2 threads a
// copy engine. Bounds of the same run, interleaved with it, each first as often: memcpy by as many threads, on the same
// buffers and on ordinary memory (private, huge pages). Medians; a share is the median of the shares of the repeats.
//
// The compute thread is the same in all of them and competes for the cores. Where there are fewer cores than threads,
// what the copies do not take it gets, and the other way round: a copy that starves it would look fast, one that leaves
// it more would look slow. So its rate is shown as a share of its rate beside memcpy, and so is what the copies move in
// a second of processor time: the copy rate at an equal share of the cores. A machine that others use as well shows in
// `cores`, the processor time all threads got a second.
// Below: what a verifying launch costs, against memset and a plain read of the same bytes.

#include <fmt/format.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "device/host_device.h"
#include "device/host_pages.h"
#include "device/pattern.h"

namespace {

using namespace tidemark;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void must(DeviceCode code, const Device& device) {
  if (code == DeviceCode::ok) return;
  fmt::print(stderr, "copy_bench: {}: {}\n", name_of(code), device.last_error());
  std::exit(3);
}

double processor_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Arithmetic in registers and a little cache until told to stop.
class ComputeThread {
 public:
  ComputeThread() : thread_([this] { run(); }) {}
  ~ComputeThread() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  [[nodiscard]] double processor_seconds() {
    clockid_t clock{};
    return pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 ? ::processor_seconds(clock) : 0;
  }

 private:
  void run() {
    std::vector<double> values(4096, 1.0);
    while (!stop_) {
      for (double& value : values) value = value * 1.0000001 + 1e-9;
      ++rounds_;
    }
    sink_ = std::accumulate(values.begin(), values.end(), 0.0);
  }
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> rounds_{0};
  std::atomic<double> sink_{0};
  std::thread thread_;
};

/// From and to for each direction.
struct Buffers {
  char* out_from = nullptr;
  char* out_to = nullptr;
  char* in_from = nullptr;
  char* in_to = nullptr;
};

void copy_plainly(const Buffers& buffers, Bytes bytes, Bytes piece, int threads) {
  std::vector<std::thread> all;
  const auto direction = [&](char* to, const char* from, Bytes begin, Bytes end) {
    for (Bytes at = begin; at < end; at += piece) {
      std::memcpy(to + at, from + at, static_cast<std::size_t>(std::min(piece, end - at)));
    }
  };
  for (int i = 0; i < threads; ++i) {
    const Bytes begin = bytes / threads * i, end = bytes / threads * (i + 1);
    all.emplace_back(direction, buffers.out_to, buffers.out_from, begin, end);
    all.emplace_back(direction, buffers.in_to, buffers.in_from, begin, end);
  }
  for (std::thread& thread : all) thread.join();
}

struct Setup {
  explicit Setup(Bytes the_bytes, int copy_threads) : bytes(the_bytes) {
    Result<std::unique_ptr<Device>> opened =
        open_host_device({.capacity_bytes = round_up(2 * bytes, 2 * kMiB), .copy_threads = copy_threads});
    if (!opened) std::exit(3);
    device = std::move(opened).value();
    Address base = 0, host = 0;
    must(device->reserve(round_up(2 * bytes, 2 * kMiB), base), *device);
    must(device->map(base, round_up(2 * bytes, 2 * kMiB)), *device);
    must(device->allocate_pinned(2 * bytes, host), *device);
    must(device->create_stream(StreamRole::d2h, out), *device);
    must(device->create_stream(StreamRole::h2d, in), *device);
    auto *const memory = reinterpret_cast<char*>(base), *const pinned = reinterpret_cast<char*>(host);
    buffers = {.out_from = memory, .out_to = pinned, .in_from = pinned + bytes, .in_to = memory + bytes};
  }
  void copy(Bytes piece) const {
    const auto address = [](const char* at) { return reinterpret_cast<Address>(at); };
    for (Bytes at = 0; at < bytes; at += piece) {
      const Bytes now = std::min(piece, bytes - at);
      must(device->copy(out, address(buffers.out_to + at), address(buffers.out_from + at), now,
                        CopyKind::device_to_host),
           *device);
      must(device->copy(in, address(buffers.in_to + at), address(buffers.in_from + at), now, CopyKind::host_to_device),
           *device);
    }
    must(device->synchronize_device(), *device);
  }

  Bytes bytes;
  std::unique_ptr<Device> device;
  StreamHandle out{}, in{};
  Buffers buffers;
};

/// By repeat.
struct Series {
  std::vector<double> rate;      ///< of the copies, GB/s
  std::vector<double> compute;   ///< rounds of the compute thread a second
  std::vector<double> per_core;  ///< what the copies move in a second of processor time, GB
  std::vector<double> cores;     ///< processor time of all threads a second

  void add(double gigabytes, const std::function<void()>& work) {
    ComputeThread thread;
    const double all_before = processor_seconds(CLOCK_PROCESS_CPUTIME_ID), computing = thread.processor_seconds();
    const std::int64_t rounds = thread.rounds();
    const double seconds = seconds_of(work);
    const double all = processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - all_before;
    rate.push_back(gigabytes / seconds);
    compute.push_back(static_cast<double>(thread.rounds() - rounds) / seconds);
    per_core.push_back(gigabytes / (all - (thread.processor_seconds() - computing)));
    cores.push_back(all / seconds);
  }
};

double percent(const std::vector<double>& ours, const std::vector<double>& bound) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < ours.size(); ++i) shares.push_back(100 * ours[i] / bound[i]);
  return median(shares);
}

void compare(Bytes bytes, Bytes piece, int threads, int repeats, const Buffers& ordinary) {
  const Setup setup(bytes, threads);
  Series ours, same, plain;
  const double gigabytes = 2e-9 * static_cast<double>(bytes);
  copy_plainly(setup.buffers, bytes, piece, threads);
  copy_plainly(ordinary, bytes, piece, threads);
  const std::array<std::function<void()>, 3> rivals = {
      [&] { ours.add(gigabytes, [&] { setup.copy(piece); }); },
      [&] { same.add(gigabytes, [&] { copy_plainly(setup.buffers, bytes, piece, threads); }); },
      [&] { plain.add(gigabytes, [&] { copy_plainly(ordinary, bytes, piece, threads); }); }};
  for (int i = 0; i < repeats; ++i) {
    for (int turn = 0; turn < 3; ++turn)
      rivals[static_cast<std::size_t>((i + turn) % 3)]();  // each goes first as often
  }
  fmt::print("{:>7} {:>10}", threads, format_bytes(piece));
  for (const Series* series : {&ours, &same, &plain}) fmt::print(" {:>6.2f}", median(series->rate));
  for (const Series* bound : {&same, &plain}) {
    fmt::print(" {:>10.1f} {:>9.1f} {:>9.1f}", percent(ours.rate, bound->rate), percent(ours.compute, bound->compute),
               percent(ours.per_core, bound->per_core));
  }
  fmt::print(" {:>7.2f} {:>6.2f}\n", median(ours.cores), median(plain.cores));
}

void measure_verification(Bytes bytes, int repeats, char* data) {
  std::vector<double> fill, check, set, copy;
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  bool right = true;
  for (int i = 0; i < repeats; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    set.push_back(gigabytes / seconds_of([&] { std::memset(data, i, static_cast<std::size_t>(bytes)); }));
    fill.push_back(gigabytes / seconds_of([&] { fill_pattern(data, bytes, seed); }));
    check.push_back(gigabytes / seconds_of([&] { right = right && holds_pattern(data, bytes, seed); }));
    std::uint64_t sum = 0;
    copy.push_back(gigabytes / seconds_of([&] {
                     for (Bytes at = 0; at < bytes; at += 8) {
                       std::uint64_t word = 0;
                       std::memcpy(&word, data + at, 8);
                       sum += word;
                     }
                   }));
    right = right && sum != 1;
  }
  fmt::print(
      "\nverifying launches, one thread, GB/s (measured): fill {:.2f} beside memset {:.2f}; check {:.2f} beside "
      "summing the words {:.2f}{}\n",
      median(fill), median(set), median(check), median(copy), right ? "" : "  WRONG CONTENTS");
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  const Bytes bytes = (argc > 2 ? std::atoll(argv[2]) : 512) * kMiB;
  if (repeats < 1 || bytes < kMiB) {
    fmt::print(stderr, "usage: copy_bench [repeats] [MiB a direction]\n");
    return 2;
  }
  Result<HostPages> pages = HostPages::allocate({.bytes = 4 * bytes});
  if (!pages) {
    fmt::print(stderr, "copy_bench: {}\n", pages.error().message);
    return 3;
  }
  auto* const data = static_cast<char*>(pages.value().data());
  const Buffers ordinary{
      .out_from = data, .out_to = data + bytes, .in_from = data + 2 * bytes, .in_to = data + 3 * bytes};
  fmt::print(
      "host copies out and in at once, {} each way, one compute thread beside them; {} cores; measured, medians "
      "of {}\n",
      format_bytes(bytes), std::thread::hardware_concurrency(), repeats);
  fmt::print("{:>18} {:>20} {:^30} {:^30} {:>14}\n", "", "GB/s: memcpy on", "% of memcpy on the same",
             "% of plain memcpy", "cores");
  fmt::print("{:>7} {:>10} {:>6} {:>6} {:>6} {:>10} {:>9} {:>9} {:>10} {:>9} {:>9} {:>7} {:>6}\n", "threads", "piece",
             "ours", "same", "plain", "copied", "computed", "per core", "copied", "computed", "per core", "ours",
             "plain");
  for (const int threads : {1, 2}) {
    for (const Bytes piece : {4 * kMiB, 64 * kMiB}) compare(bytes, piece, threads, repeats, ordinary);
  }
  measure_verification(bytes, repeats, data);
  return 0;
}
