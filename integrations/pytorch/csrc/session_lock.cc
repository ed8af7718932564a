#include "integrations/pytorch/csrc/session_lock.h"

#include <pthread.h>
#include <pybind11/pybind11.h>

#include <optional>

namespace tidemark_torch {

namespace {

// All of it is there from before the first session, for forks of other threads, until the very end of the process.
auto* call_mutex = new std::mutex;  // not a recursive one: a child could not unlock that
auto* const held_for_moments = new std::mutex;
int lost_forks = 0;  // changed in a child that has one thread
thread_local int depth = 0;
thread_local bool no_other_calls = false;  // while this thread forks

void before_fork() {
  held_for_moments->lock();
  no_other_calls = depth > 0 || call_mutex->try_lock();
}

void after_fork() {
  if (no_other_calls && depth == 0) call_mutex->unlock();
  held_for_moments->unlock();
}

void after_fork_in_child() {
  if (!no_other_calls) {
    call_mutex = new std::mutex;
    ++lost_forks;
  }
  after_fork();
}

const int watching = pthread_atfork(&before_fork, &after_fork, &after_fork_in_child);

}  // namespace

SessionLock::SessionLock() {
  if (depth++ > 0 || call_mutex->try_lock()) return;
  std::optional<pybind11::gil_scoped_release> others_may_run;
  if (PyGILState_Check() != 0) others_may_run.emplace();
  call_mutex->lock();
}

SessionLock::SessionLock(std::try_to_lock_t) : has_lock_(depth > 0 || call_mutex->try_lock()) {
  if (has_lock_) ++depth;
}

SessionLock::~SessionLock() {
  if (has_lock_ && --depth == 0) call_mutex->unlock();
}

int forks_in_calls() {
  return lost_forks;
}

std::mutex& pointer_mutex() {
  return *held_for_moments;
}

}  // namespace tidemark_torch
