// What one allocate + free pair costs on the host: the caching allocator, the model of PyTorch's allocator, a two-level
// segregated fit under one mutex (which knows no stream order and no map of pages: a block is known by its range), and
// mimalloc handing out ordinary host memory, in one run on one machine. The device underneath is simulated (its calls
// cost host time here, too; the columns show how many there were).
//
//   pair             one size, small or large, freed at once: what a thread keeps at hand
//   own              2,000 live blocks a thread of random sizes, one replaced at a time, small (to 64 KiB) and to 16
//   MiB freed by others  the same sizes; blocks go through boxes that all threads share, so most are freed by another
//   thread
//
// With 1, 2 and 4 threads, a stream each. ns are processor time over the pairs of the slowest thread, in the best of
// kRepeats passes that take a few hundred milliseconds each: in a tenth of that, how the system places new threads
// shows. The baseline model is not made for threads and takes one lock, as PyTorch's allocator does.
//
//   allocator_bench [ROW [ALLOCATOR]]   only the rows that have ROW in their names, only that allocator
//
// What a trace takes per operation says `tidemark replay`.

#include <fmt/format.h>
#include <mimalloc.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/baseline_allocator.h"
#include "allocator/caching_allocator.h"
#include "allocator/offset_allocator.h"
#include "device/sim_device.h"

namespace tidemark {
namespace {

using namespace literals;

constexpr int kRepeats = 3;
constexpr std::size_t kLive = 2'000;

/// Something to allocate from; `thread` says which stream.
struct Subject {
  std::string name;
  std::function<Address(std::size_t thread, Bytes)> allocate;
  std::function<void(Address)> free;
  std::function<std::string()> facts = [] { return std::string{}; };
};

/// ns per pair of one thread's pass.
using Pass = std::function<void(Subject&, std::size_t thread, int pairs)>;

Pass one_size(Bytes bytes) {
  return [bytes](Subject& subject, std::size_t thread, int pairs) {
    for (int i = 0; i < pairs; ++i) subject.free(subject.allocate(thread, bytes));
  };
}

/// Drawn beforehand: not what is measured. Log-uniform from 512 B.
std::vector<Bytes> draw_sizes(std::mt19937_64& random, Bytes largest) {
  std::vector<Bytes> sizes(4096);
  std::uniform_real_distribution<double> power(9, std::log2(static_cast<double>(largest)));
  for (Bytes& size : sizes) size = static_cast<Bytes>(std::exp2(power(random)));
  return sizes;
}

Pass freed_by_others(Bytes largest) {
  return [largest](Subject& subject, std::size_t thread, int pairs) {
    static std::array<std::atomic<Address>, kLive> boxes;
    std::mt19937_64 random(thread + 1);
    const std::vector<Bytes> sizes = draw_sizes(random, largest);
    for (int i = 0; i < pairs; ++i) {
      const Address mine = subject.allocate(thread, sizes[static_cast<std::size_t>(i) % sizes.size()]);
      if (const Address other = boxes[random() % kLive].exchange(mine)) subject.free(other);
    }
    for (std::atomic<Address>& box : boxes) {
      if (const Address other = box.exchange(0)) subject.free(other);
    }
  };
}

Pass own(Bytes largest) {
  return [largest](Subject& subject, std::size_t thread, int pairs) {
    std::mt19937_64 random(thread + 1);
    const std::vector<Bytes> sizes = draw_sizes(random, largest);
    std::vector<Address> live(kLive);
    for (std::size_t i = 0; i < kLive; ++i) live[i] = subject.allocate(thread, sizes[i % sizes.size()]);
    for (int i = 0; i < pairs; ++i) {
      Address& one = live[random() % kLive];
      subject.free(one);
      one = subject.allocate(thread, sizes[static_cast<std::size_t>(i) % sizes.size()]);
    }
    for (const Address one : live) subject.free(one);
  };
}

/// Of the calling thread.
double processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double measure(Subject& subject, const Pass& pass, std::size_t threads, int pairs) {
  double best = 1e18;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::vector<double> ns(threads);
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        const double start = processor_ns();
        pass(subject, t, pairs);
        ns[t] = (processor_ns() - start) / pairs;
      });
    }
    for (std::thread& thread : running) thread.join();
    best = std::min(best, *std::max_element(ns.begin(), ns.end()));
  }
  return best;
}

/// A fresh subject and the device that it works on.
struct Setup {
  std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = 256_GiB, .check_races = false});
  StreamHandle streams[4] = {};
  allocator::StreamOrder order;
  std::unique_ptr<allocator::CachingAllocator> caching;
  std::unique_ptr<allocator::BaselineAllocator> baseline;
  allocator::OffsetAllocator space{256_GiB, 512};
  std::mutex mutex;
  Subject subject;

  explicit Setup(const std::string& name) {
    for (StreamHandle& stream : streams) (void)device->create_stream(StreamRole::compute, stream);
    if (name == "caching") use_caching();
    if (name == "baseline") use_baseline();
    if (name == "one TLSF") use_tlsf();
    if (name == "mimalloc") use_mimalloc();
    subject.name = name;
  }
  void use_caching() {
    caching = std::make_unique<allocator::CachingAllocator>(*device, order);
    subject.allocate = [this](std::size_t thread, Bytes bytes) {
      Address address = 0;
      (void)caching->allocate(bytes, streams[thread], address);
      return address;
    };
    subject.free = [this](Address address) { (void)caching->free(address); };
    subject.facts = [this] {
      const allocator::AllocatorStatistics s = caching->statistics();
      return fmt::format("{} maps, {} remaps, peak reserved/live {:.3f}", s.num_device_alloc, s.remaps,
                         static_cast<double>(s.reserved_bytes.peak) / static_cast<double>(s.allocated_bytes.peak));
    };
  }
  void use_baseline() {
    baseline = std::make_unique<allocator::BaselineAllocator>(
        *device, allocator::BaselineAllocator::Options{.expandable = true});
    subject.allocate = [this](std::size_t thread, Bytes bytes) {
      const std::lock_guard lock(mutex);
      Address address = 0;
      (void)baseline->allocate(bytes, streams[thread], address);
      return address;
    };
    subject.free = [this](Address address) {
      const std::lock_guard lock(mutex);
      baseline->free(address);
    };
    subject.facts = [this] {
      const auto& counts = baseline->counts();
      return fmt::format("peak reserved/live {:.3f}", static_cast<double>(counts.peak_reserved_bytes) /
                                                          static_cast<double>(counts.peak_allocated_bytes));
    };
  }
  void use_tlsf() {
    subject.allocate = [this](std::size_t, Bytes bytes) {
      const std::lock_guard lock(mutex);
      return static_cast<Address>(space.allocate(bytes)->id) + 1;
    };
    subject.free = [this](Address address) {
      const std::lock_guard lock(mutex);
      (void)space.free(static_cast<allocator::RangeId>(address - 1));
    };
  }
  void use_mimalloc() {
    subject.allocate = [](std::size_t, Bytes bytes) {
      return reinterpret_cast<Address>(mi_malloc(static_cast<std::size_t>(bytes)));
    };
    subject.free = [](Address address) { mi_free(reinterpret_cast<void*>(address)); };
  }
};

std::string asked_for;   ///< only rows with this in their names
std::string asked_name;  ///< only this allocator; empty: all

void row(const std::string& what, const Pass& pass, std::size_t threads, int pairs) {
  if (what.find(asked_for) == std::string::npos) return;
  for (const char* name : {"caching", "baseline", "one TLSF", "mimalloc"}) {
    if (!asked_name.empty() && asked_name != name) continue;
    Setup setup(name);
    const double ns = measure(setup.subject, pass, threads, pairs);
    fmt::print("{:<23} {:>7} {:<10} {:>10.1f}  {}\n", what, threads, name, ns, setup.subject.facts());
  }
}

}  // namespace
}  // namespace tidemark

int main(int count, char** arguments) {
  using namespace tidemark;
  if (count > 1) asked_for = arguments[1];
  if (count > 2) asked_name = arguments[2];
  fmt::print("processor times measured on {} hardware threads; simulated device\n",
             std::thread::hardware_concurrency());
  fmt::print("{:<23} {:>7} {:<10} {:>10}\n", "workload", "threads", "allocator", "ns/pair");
  for (const std::size_t threads : {1UL, 2UL, 4UL}) row("pair 4 KiB", one_size(4 * kKiB), threads, 2'000'000);
  for (const std::size_t threads : {1UL, 2UL, 4UL}) row("pair 8 MiB", one_size(8 * kMiB), threads, 1'000'000);
  for (const Bytes largest : {64 * kKiB, 16 * kMiB}) {
    const int pairs = largest > kMiB ? 500'000 : 2'000'000;
    const std::string to = largest > kMiB ? "to 16 MiB" : "to 64 KiB";
    for (const std::size_t threads : {1UL, 2UL, 4UL}) row("own, " + to, own(largest), threads, pairs);
    for (const std::size_t threads : {1UL, 2UL, 4UL})
      row("freed by others, " + to, freed_by_others(largest), threads, pairs);
  }
}
