#pragma once
// What objects do around a fork() of the process: one registry, one pthread_atfork() for all of them.
//
// Why. A forked process has the forking thread alone. A lock that another thread held at that moment is locked in
// the child for ever, and what that lock protects is half changed. So an object that owns locks takes them all before
// the fork, in the order in which its code takes them, and both processes release them afterwards; the child also
// replaces what it did not inherit (threads, shared memory).
//
// Order. Locks of several objects are taken in one order everywhere, or a fork and a call wait for each other: first
// the level, in the order of ForkLevel, then within a level the order of registration. After the fork everything is
// released in the reverse order. An object whose code calls another one with a lock held belongs to an earlier level,
// or is registered before the other one.
//
// Cost: none but at a fork. A fork waits for the locks, and on the host device for work and pinned allocations under
// way. Threads: objects may come and go in any thread, also while another one forks; the fork is then before or after.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace tidemark {

/// The order in which locks are taken.
enum class ForkLevel : std::uint8_t {
  group,         ///< allocators that belong together, which call each of them with their lock held
  allocator,     ///< allocators and pools, which call what is below with their locks held
  stream_order,  ///< events and epochs of streams
  device,        ///< back ends
};
inline constexpr std::size_t kForkLevelCount = 4;

/// What one object does around a fork, in the thread that forks. None of the three may throw, or register or unregister
/// anything; they may allocate (the C library's heap is taken after all of them and free before the child's). In the
/// child they must not destroy condition variables on which threads of the parent wait: that waits for those threads.
/// after_fork_in_parent also runs where fork() fails. An empty one does nothing.
struct ForkSteps {
  std::function<void()> before_fork;           ///< takes the object's locks
  std::function<void()> after_fork_in_parent;  ///< releases them
  std::function<void()> after_fork_in_child;   ///< replaces what the child has not, then releases them
};

/// A member of the object whose steps it holds: the last one, so that they are gone before what they use. Registered
/// from construction to destruction.
/// REQUIRES: neither happens with a lock held that any object's before_fork takes.
class ForkHandlers {
 public:
  /// Throws std::bad_alloc without memory for it.
  ForkHandlers(ForkLevel level, ForkSteps steps);
  ~ForkHandlers();
  ForkHandlers(const ForkHandlers&) = delete;
  ForkHandlers& operator=(const ForkHandlers&) = delete;

 private:
  friend struct ForkRegistry;

  const ForkLevel level_;
  const ForkSteps steps_;
};

/// For after_fork_in_child: keeps for ever what cannot be destroyed there, because threads of the parent use it.
template <class Object>
void abandon(Object object) {
  static auto* const kept = new std::vector<Object>;
  kept->push_back(std::move(object));
}

}  // namespace tidemark
