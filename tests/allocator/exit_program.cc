// A process that ends while its threads allocate, or with blocks alive, for exit_programs_test:
//
//   exit_program END SEED
//     return       main returns, its threads joined; static objects free some blocks and go, the allocator among them
//     exit         main calls exit() while its threads allocate
//     thread_exit  one of the threads does
//     quick_exit, _exit  without destructors
//     wait         goes on until it is killed
//     forks        children end in each of these ways in the middle of the threads' work, which goes on; then `return`
//
// Memory is kept full. Exit status: 3 as it should be; 1 something was wrong, see stderr; SIGALRM: it hung.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/pinned_pool.h"
#include "device/host_device.h"
#include "device/pattern.h"
#include "tests/support/filled_blocks.h"

namespace {

/// Memory that only the stacks of the parent's threads knew is no leak of a child.
bool is_child = false;

}  // namespace

extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return is_child ? 1 : 0;
}

namespace tidemark::allocator {
namespace {

using namespace literals;

constexpr int kRight = 3;
constexpr unsigned kHangSeconds = 60;
constexpr std::size_t kThreads = 3;
constexpr Bytes kCapacity = 24_MiB;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "exit_program: %s\n", why.c_str());
  _exit(1);
}

void expect(bool right, const std::string& what) {
  if (!right) fail(what);
}

/// A device with all that this library puts on it.
struct World {
  World() {
    for (StreamHandle& stream : streams) {
      expect(device->create_stream(StreamRole::compute, stream) == DeviceCode::ok, "no stream");
    }
  }
  static std::unique_ptr<Device> open() {
    auto opened = open_host_device({.capacity_bytes = kCapacity, .touch_threads = 1});
    expect(opened.ok(), "no device");
    return std::move(opened).value();
  }
  std::unique_ptr<Device> device = open();
  std::array<StreamHandle, kThreads> streams{};
  StreamOrder order;
  CachingAllocator allocator{*device, order};
  PinnedPool pool{*device, {.bound_bytes = 4_MiB, .chunk_bytes = 1_MiB}};
};

/// Blocks of a static or thread-local object, which frees them when it goes. Its last call is refused: by then the
/// texts of its thread's earlier refusals may have been destroyed.
class Holder {
 public:
  ~Holder() {
    if (world_ == nullptr) return;
    blocks_->release_all();
    expect(blocks_->failure().empty(), blocks_->failure());
    refuse();
  }
  void hold(World& world, std::uint64_t seed) {
    world_ = &world;
    blocks_.emplace(world.allocator, world.streams, seed);
    for (int i = 0; i < 8; ++i) blocks_->step();
    refuse();
  }

 private:
  void refuse() {
    expect(world_->allocator.free(1) == DeviceCode::invalid, "what is no block was freed");
    expect(world_->allocator.last_error().find("block") != std::string::npos, "a refusal without its text");
  }
  World* world_ = nullptr;
  std::optional<FilledBlocks> blocks_;
};

/// A pinned block, used by nobody and freed at once or behind a stream.
void use_pool(World& world, std::uint64_t random) {
  const PinnedAllocation made = world.pool.allocate(1 + static_cast<Bytes>(random % 200'000));
  if (made.outcome == PinnedOutcome::wait_chunk) (void)world.pool.wait_for_chunk(made);
  if (made.outcome == PinnedOutcome::wait_block) (void)world.pool.wait_for_block(made);
  if (made.outcome != PinnedOutcome::ok) return;
  if (random % 2 == 0) return world.pool.free(made.block);
  const StreamHandle stream = world.streams[random % kThreads];
  expect(world.pool.free_after(made.block, stream) == DeviceCode::ok, "free_after");
}

/// The threads' work: until told to stop, or until the process ends.
class Work {
 public:
  Work(World& world, std::uint64_t seed) : world_(world), seed_(seed) {
    for (std::size_t me = 0; me < kThreads; ++me) threads_.emplace_back([this, me] { work(me); });
    while (rounds_ < 100) std::this_thread::yield();
  }
  /// Some blocks stay alive.
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  /// One of the threads calls exit().
  void exit_in_a_thread() { exit_ = true; }

 private:
  void work(std::size_t me) {
    thread_local Holder holder;
    holder.hold(world_, seed_ + 10 + me);
    FilledBlocks blocks(world_.allocator, world_.streams, seed_ + me);
    for (std::uint64_t i = seed_; !stop_; ++i, ++rounds_) {
      blocks.step();
      if (i % 8 == me) use_pool(world_, pattern_base(i));
      expect(blocks.failure().empty(), blocks.failure());
      if (exit_.exchange(false)) std::exit(kRight);
    }
    if (me == 0) blocks.forget();
    blocks.release_all();
    expect(blocks.failure().empty(), blocks.failure());
  }

  World& world_;
  const std::uint64_t seed_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> exit_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

/// Ends this process as asked, in the middle of whatever its threads do; false: there is no such end.
bool end_now(std::string_view end) {
  if (end == "exit") std::exit(kRight);
  if (end == "quick_exit") std::quick_exit(kRight);
  if (end == "_exit") _exit(kRight);
  return false;
}

/// Children that work a little on their own and end; the parent's threads go on meanwhile.
void fork_children(World& world, std::uint64_t seed) {
  for (const char* end : {"exit", "_exit", "quick_exit", "exit"}) {
    const pid_t child = fork();
    expect(child >= 0, "fork");
    if (child == 0) {
      is_child = true;
      alarm(kHangSeconds);
      FilledBlocks own(world.allocator, world.streams, ++seed);
      for (int i = 0; i < 50; ++i) own.step();
      use_pool(world, seed);
      expect(own.failure().empty(), own.failure());
      end_now(end);
    }
    int status = -1;
    expect(waitpid(child, &status, 0) == child, "waitpid");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == kRight,
           std::string("a child that ends by ") + end + " had status " + std::to_string(status));
  }
}

/// Where threads go on until the process is no more, nothing that they use may be destroyed.
World& make_world(bool for_ever) {
  if (for_ever) return *new World;
  static World world;
  return world;
}

int run(std::string_view end, std::uint64_t seed) {
  const bool goes = end == "return" || end == "forks";
  static World& world = make_world(!goes);
  static Holder held_by_process;
  thread_local Holder held_by_main;
  held_by_process.hold(world, seed + 20);
  held_by_main.hold(world, seed + 21);
  static Work& work = *new Work(world, seed);
  std::this_thread::sleep_for(std::chrono::microseconds(pattern_base(seed) % 10'000));
  if (end == "forks") fork_children(world, seed);
  if (goes) {
    work.stop();
    return kRight;
  }
  if (end == "thread_exit") work.exit_in_a_thread();
  if (end == "thread_exit" || end == "wait") pause();
  (void)end_now(end);
  fail("there is no end " + std::string(end));
}

}  // namespace
}  // namespace tidemark::allocator

int main(int argc, char** argv) {
  if (argc != 3) tidemark::allocator::fail("usage: exit_program END SEED");
  alarm(tidemark::allocator::kHangSeconds);
  return tidemark::allocator::run(argv[1], std::strtoull(argv[2], nullptr, 10));
}
