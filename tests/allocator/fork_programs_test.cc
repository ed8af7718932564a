// Random programs on the host device that fork at random places, on one to four threads: no byte is lost in the parent
// or in a child, memory is what lives, nobody hangs. 200 programs for each number of threads:
//   TIDEMARK_FORK_PROGRAMS=200 build/dev/tests/allocator/fork_programs_test
// With TIDEMARK_FORK_SEED=N the seeds start there. TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED: tests/support/soak.h.
// For each number of threads a line says how many programs ran, how often they and their children forked, the bytes of
// blocks that were not what was written there, and by how much the memory behind a device was ever larger than what its
// allocator had reserved.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/host_device.h"
#include "device/pattern.h"
#include "tests/support/host_memory.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

constexpr Bytes kCapacity = 96_MiB;
constexpr std::size_t kThreads = 4;  ///< at most
constexpr unsigned kHangSeconds = 30;

int number_from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Block {
  Address address = 0;
  Bytes bytes = 0;
  std::uint64_t seed = 0;

  void fill() const { fill_pattern(reinterpret_cast<void*>(address), bytes, seed); }
  [[nodiscard]] bool is_right() const { return holds_pattern(reinterpret_cast<const void*>(address), bytes, seed); }
};

/// What all processes of some programs add up, in memory that forks share.
struct Tally {
  std::atomic<int> forks{0};
  std::atomic<Bytes> lost_bytes{0};
  std::atomic<Bytes> growth_bytes{0};  ///< at most

  void note_growth(Bytes bytes) {
    Bytes most = growth_bytes;
    while (bytes > most && !growth_bytes.compare_exchange_weak(most, bytes)) continue;
  }
};

class SharedTally {
 public:
  SharedTally() : memory_(mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    new (memory_) Tally;
  }
  ~SharedTally() { munmap(memory_, sizeof(Tally)); }
  SharedTally(const SharedTally&) = delete;
  SharedTally& operator=(const SharedTally&) = delete;
  [[nodiscard]] Tally& get() const { return *static_cast<Tally*>(memory_); }

 private:
  void* const memory_;
};

/// One program: threads that allocate, fill, check, free and fork, each on a stream and with random numbers of its own.
class Program {
 public:
  Program(std::uint64_t seed, std::size_t threads, int steps, Tally& tally)
      : seed_(seed), threads_(threads), steps_(steps), tally_(tally) {
    device_ = open_host({.capacity_bytes = kCapacity});
    for (std::size_t i = 0; i < threads_; ++i) {
      if (device_->create_stream(StreamRole::compute, streams_[i]) != DeviceCode::ok) fail("no stream");
    }
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_);
  }
  ~Program() { allocator_.reset(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// What went wrong first; empty if nothing did.
  std::string run() {
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < threads_; ++i) threads.emplace_back([this, i] { live(i); });
    live(0);
    for (std::thread& thread : threads) thread.join();
    for (const pid_t child : children_) await(child);
    children_.clear();
    release_all();
    return failure_;
  }
  [[nodiscard]] std::int64_t stitched() const { return allocator_->statistics().stitched_windows; }

 private:
  using Random = std::mt19937_64;

  void fail(const std::string& why) {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = why;
  }

  void expect_right(const Block& block, const char* otherwise) {
    if (block.is_right()) return;
    tally_.lost_bytes += block.bytes;
    fail(otherwise);
  }
  void expect_no_growth(Bytes reserved, const char* otherwise) {
    const Bytes growth = file_bytes() - reserved;
    tally_.note_growth(growth);
    if (growth > 0) fail(otherwise);
  }

  /// From single bytes to a few granules, small ones mostly.
  static Bytes random_bytes(Random& random) {
    const int bits = std::array{12, 16, 20, 22, 23}[random() % 5];
    return 1 + static_cast<Bytes>(random() % (std::uint64_t{1} << bits));
  }

  /// A block that is in the books is whole: it goes in after it was filled, and comes out before it is freed. Forks
  /// hold the books' lock, so a child may believe them.
  void allocate(std::size_t me, Random& random) {
    Block block{.bytes = random_bytes(random), .seed = random()};
    const DeviceCode code = allocator_->allocate(block.bytes, streams_[me], block.address);
    if (code == DeviceCode::out_of_memory) return release(random);
    if (code != DeviceCode::ok) return fail("allocate: " + allocator_->last_error());
    block.fill();
    const std::lock_guard lock(books_);
    blocks_.push_back(block);
  }

  bool take(Random& random, Block& block) {
    const std::lock_guard lock(books_);
    if (blocks_.empty()) return false;
    std::swap(blocks_[random() % blocks_.size()], blocks_.back());
    block = blocks_.back();
    blocks_.pop_back();
    return true;
  }

  /// Of any thread's.
  void release(Random& random) {
    Block block;
    if (!take(random, block)) return;
    expect_right(block, "bytes were lost");
    if (allocator_->free(block.address) != DeviceCode::ok) fail("free: " + allocator_->last_error());
  }

  /// Another content, in place.
  void rewrite(Random& random) {
    Block block;
    if (!take(random, block)) return;
    expect_right(block, "bytes were lost");
    block.seed = random();
    block.fill();
    const std::lock_guard lock(books_);
    blocks_.push_back(block);
  }

  void step(std::size_t me, Random& random) {
    const std::uint64_t choice = random() % 100;
    if (choice < 48) return allocate(me, random);
    if (choice < 88) return release(random);
    if (choice < 96) return rewrite(random);
    if (choice == 96) allocator_->trim(8_MiB);
    if (choice == 97) (void)allocator_->defragment(streams_[me]);
    if (choice == 98) allocator_->empty_cache();
    if (choice == 99) (void)allocator_->statistics();
  }

  void live(std::size_t me) {
    Random random(seed_ * kThreads + me);
    for (int i = 0; i < steps_ && is_well(); ++i) {
      step(me, random);
      if (random() % 60 == 0) fork_here(me, random);
    }
  }

  bool is_well() {
    const std::lock_guard lock(failure_mutex_);
    return failure_.empty();
  }

  void fork_here(std::size_t me, Random& random) {
    const std::uint64_t childs_seed = random();
    std::unique_lock lock(books_), failure_lock(failure_mutex_);
    const pid_t child = fork();
    failure_lock.unlock();
    if (child == 0) {
      alarm(kHangSeconds);
      lock.unlock();
      live_as_child(me, childs_seed);
    }
    if (child < 0) return fail("fork");
    ++tally_.forks;
    children_.push_back(child);
    const pid_t oldest = children_.size() > 2 ? children_.front() : 0;
    if (oldest != 0) children_.erase(children_.begin());
    lock.unlock();
    if (oldest != 0) await(oldest);
  }

  void await(pid_t child) {
    int status = -1;
    if (waitpid(child, &status, 0) != child) return fail("waitpid");
    if (WIFSIGNALED(status)) {
      return fail(WTERMSIG(status) == SIGALRM ? "a child hung"
                                              : "a child died of signal " + std::to_string(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0) fail("something was wrong in a child, see above");
  }

  /// The child is the thread that forked: it goes on with all blocks, forks again at times, and ends.
  [[noreturn]] void live_as_child(std::size_t me, std::uint64_t seed) {
    children_.clear();
    failure_.clear();
    for (const Block& block : blocks_) expect_right(block, "bytes were lost in the fork");
    Random random(seed);
    for (int i = 0; i < steps_ / 8 && failure_.empty(); ++i) step(me, random);
    if (generation_++ == 0 && random() % 8 == 0) fork_here(me, random);
    for (const pid_t child : children_) await(child);
    release_all();
    if (!failure_.empty()) std::fprintf(stderr, "in a child: %s\n", failure_.c_str());
    _exit(failure_.empty() ? 0 : 1);
  }

  /// To the last byte; a child cannot know of blocks that other threads were at, and of streams none but its own.
  void release_all() {
    Random random(seed_);
    const std::string wrong = allocator_->validate();
    if (!wrong.empty()) fail(wrong);
    expect_no_growth(allocator_->statistics().reserved_bytes.current, "more memory than is reserved");
    while (!blocks_.empty()) release(random);
    if (device_->synchronize_device() != DeviceCode::ok) fail("synchronize: " + device_->last_error());
    allocator_->empty_cache();
    const Bytes reserved = allocator_->statistics().reserved_bytes.current;
    expect_no_growth(reserved, "memory outlives its blocks");
    if (threads_ == 1 && reserved != 0) fail("blocks outlive their release");
  }

  const std::uint64_t seed_;
  const std::size_t threads_;
  const int steps_;
  Tally& tally_;
  std::unique_ptr<Device> device_;
  StreamOrder order_;
  std::array<StreamHandle, kThreads> streams_{};
  std::unique_ptr<CachingAllocator> allocator_;
  std::mutex books_;
  std::vector<Block> blocks_;
  std::vector<pid_t> children_;
  std::mutex failure_mutex_;
  std::string failure_;
  int generation_ = 0;
};

class ForkPrograms : public testing::TestWithParam<std::size_t> {};

TEST_P(ForkPrograms, LoseNoByteAndHoldNoMoreThanLives) {
  const int programs = number_from_environment("TIDEMARK_FORK_PROGRAMS", 4 / static_cast<int>(GetParam()));
  const int first = number_from_environment("TIDEMARK_FORK_SEED", 1);
  const Soak soak;
  const SharedTally shared;
  const Tally& tally = shared.get();
  std::string failure;
  int done = 0;
  std::int64_t stitched = 0;
  for (; failure.empty() && soak.goes_on(done, programs); ++done) {
    const std::uint64_t seed = Soak::seed(static_cast<std::size_t>(first + done));
    Program program(seed, GetParam(), 400, shared.get());
    failure = program.run();
    if (!failure.empty()) failure += ", seed " + std::to_string(seed);
    stitched += program.stitched();
  }
  std::printf("%zu threads: %d programs, %d forks, %lld bytes lost, growth %lld bytes, %lld stitched blocks\n",
              GetParam(), done, tally.forks.load(), static_cast<long long>(tally.lost_bytes),
              static_cast<long long>(tally.growth_bytes), static_cast<long long>(stitched));
  EXPECT_EQ(failure, "");
  EXPECT_EQ(tally.lost_bytes, 0);
  EXPECT_EQ(tally.growth_bytes, 0);
  EXPECT_GE(tally.forks, programs);
}

INSTANTIATE_TEST_SUITE_P(Threads, ForkPrograms, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace tidemark::allocator
