// A dispatch mode in C++: sees every kernel that is called below autograd and autocast, as a TorchDispatchMode does,
// for a tenth of a microsecond instead of ten.
//
// Thread rule: one watch in a process, pushed and popped by the thread that runs forward. Popped by another thread, it
// stays among the first one's modes and sees nothing.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

namespace tidemark_torch {

class KernelWatch {
 public:
  KernelWatch() = default;
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;
  virtual ~KernelWatch() = default;

  /// Makes the call, in whatever way; `stack` as for OperatorHandle::callBoxed(). What is called meanwhile is seen by
  /// the modes beneath, not by the watch. Without Python's lock.
  virtual void on_call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
};

/// Puts the watch on top of the calling thread's modes. It lives until no thread is in on_call(). With Python's lock.
void push_watch(std::shared_ptr<KernelWatch> watch);

/// Takes the watch from among the calling thread's modes, wherever it is. With Python's lock.
void pop_watch();

[[nodiscard]] bool is_watch_on_top();

/// While it lives, the calling thread's kernels pass unseen by all modes.
class Unseen {
  c10::impl::ExcludeDispatchKeyGuard guard_{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

}  // namespace tidemark_torch
