// How fast is the pinned pool built, against the rate at which as many threads of this machine can touch pages, and how
// soon does it serve? Everything here is measured on this machine, nothing is simulated.
//
//   pinned_bench [repeats] [MiB]      (default 7 and 2048)
//
// Workloads: PinnedPool over the host back end, chunks of 64 MiB to 1 GiB. Bounds of the same run, interleaved, each
// first in every other repeat, after a warm-up of the machine's memory: one mapping of the whole
// size, huge and aligned to huge pages as ours, one write a page by as many threads, which take pieces of it as ours
// do, so that a thread that lost its core delays neither more than the other. Beside it what is done without care:
// small pages, one thread. Medians; a share is the median of the shares of the repeats.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "allocator/pinned_pool.h"
#include "device/host_device.h"
#include "device/host_pages.h"

namespace {

using namespace tidemark;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds to touch `bytes` of new memory.
double touch_pages(Bytes bytes, int threads, bool huge) {
  constexpr Bytes kHuge = 2 * kMiB, kPiece = 4 * kMiB;
  const auto all_bytes = static_cast<std::size_t>(bytes + kHuge);
  void* const mapped = mmap(nullptr, all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) std::exit(3);
  if (madvise(mapped, all_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0) std::exit(3);
  const auto misplaced = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(mapped)) % kHuge;
  auto* const data = static_cast<volatile char*>(mapped) + (misplaced == 0 ? 0 : kHuge - misplaced);
  const Clock::time_point start = Clock::now();
  std::atomic<Bytes> next{0};
  const auto touch = [&] {
    for (Bytes piece = next.fetch_add(kPiece); piece < bytes; piece = next.fetch_add(kPiece)) {
      for (Bytes at = piece; at < std::min(bytes, piece + kPiece); at += 4 * kKiB) data[at] = 1;
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < threads; ++i) helpers.emplace_back(touch);
  touch();
  for (std::thread& helper : helpers) helper.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  munmap(mapped, all_bytes);
  return seconds;
}

/// Memory that nobody used for a while costs up to ten times as much, whoever comes first: the kernel puts huge pages
/// together, a hypervisor has taken the memory back. What was just given back is kept by processor, so three times what
/// is needed is touched by all of them: then both sides find used memory, wherever they run.
void warm_up(Bytes bytes) {
  const Bytes all = std::min(3 * bytes, available_host_bytes() / 2);
  static_cast<void>(touch_pages(all, static_cast<int>(std::thread::hardware_concurrency()), true));
}

struct Built {
  double first_s = 0, all_s = 0;
};

Built build_pool(Bytes bytes, Bytes chunk, int threads) {
  Result<std::unique_ptr<Device>> opened = open_host_device({.touch_threads = threads});
  if (!opened) std::exit(3);
  const std::unique_ptr<Device> device = std::move(opened).value();
  allocator::PinnedPool pool(
      *device, {.bound_bytes = bytes, .chunk_bytes = chunk, .report = [](const allocator::PinnedReport& report) {
                  fmt::print("  note: {}\n", report.text);
                }});
  pool.wait_until_built();
  const allocator::PinnedPoolStatistics done = pool.statistics();
  if (done.held_bytes != bytes) std::exit(3);
  return {.first_s = 1e-9 * static_cast<double>(done.first_chunk_ns),
          .all_s = 1e-9 * static_cast<double>(done.all_chunks_ns)};
}

void compare(Bytes bytes, Bytes chunk, int threads, int repeats) {
  std::vector<double> ours, first, bound, shares;
  const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
  for (int i = 0; i < repeats; ++i) {
    Built built;
    warm_up(bytes);
    if (i % 2 == 0) built = build_pool(bytes, chunk, threads);
    const double touched = touch_pages(bytes, threads, true);
    if (i % 2 == 1) built = build_pool(bytes, chunk, threads);
    ours.push_back(gib / built.all_s);
    first.push_back(1e3 * built.first_s);
    bound.push_back(gib / touched);
    shares.push_back(100 * touched / built.all_s);
  }
  fmt::print("{:>8} {:>12} {:>12.2f} {:>14.2f} {:>9.1f} {:>15.1f} {:>10.1f}\n", threads, format_bytes(chunk),
             median(ours), median(bound), median(shares), median(first), 1e3 * gib / median(ours));
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 7;
  const Bytes bytes = (argc > 2 ? std::atoll(argv[2]) : 2048) * kMiB;
  if (repeats < 1 || bytes < 64 * kMiB) {
    fmt::print(stderr, "usage: pinned_bench [repeats] [MiB, at least 64]\n");
    return 2;
  }
  fmt::print("pinned pool of {} on the host back end; {} cores; measured, medians of {}\n", format_bytes(bytes),
             std::thread::hardware_concurrency(), repeats);
  fmt::print("{:>8} {:>12} {:>12} {:>14} {:>9} {:>15} {:>10}\n", "threads", "chunk", "built GiB/s", "touched GiB/s",
             "% of it", "first block ms", "all ms");
  for (const int threads : {1, 2}) {
    for (const Bytes chunk : {64 * kMiB, 256 * kMiB, kGiB}) {
      if (chunk <= bytes) compare(bytes, chunk, threads, repeats);
    }
  }
  std::vector<double> careless;
  for (int i = 0; i < std::min(repeats, 3); ++i) careless.push_back(touch_pages(bytes, 1, false));
  fmt::print("small pages by one thread: {:.2f} GiB/s\n",
             static_cast<double>(bytes) / static_cast<double>(kGiB) / median(careless));
  return 0;
}
