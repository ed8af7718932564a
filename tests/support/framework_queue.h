#pragma once
// A framework that queues its launches (device/launch_queue_device.h): one thread carries out what was called, and
// whoever puts something on the framework's streams waits for it. That thread has business of its own with the
// allocator. No wait is endless: one that is not over within seconds is counted instead, so that a deadlock fails a
// test and does not hang it.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "device/device.h"

namespace tidemark {

class FrameworkQueue {
 public:
  /// `lateness`: before each call is carried out, so that the calling thread is well ahead.
  explicit FrameworkQueue(std::chrono::milliseconds lateness = {}) : lateness_(lateness), thread_([this] { work(); }) {}
  ~FrameworkQueue() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  FrameworkQueue(const FrameworkQueue&) = delete;
  FrameworkQueue& operator=(const FrameworkQueue&) = delete;

  void call(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
  /// As SubmitQueued: all that was called before has been carried out. The framework's own thread must not wait.
  DeviceCode submit(std::string& why) {
    if (std::this_thread::get_id() == thread_.get_id()) {
      why = "the queue's own thread";
      return DeviceCode::no_resource;
    }
    if (before_submit) before_submit();
    ++waits_;
    std::unique_lock lock(mutex_);
    const std::uint64_t called = done_ + tasks_.size();
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return done_ >= called; })) ++stuck_;
    return DeviceCode::ok;
  }
  [[nodiscard]] int waits() const { return waits_; }
  [[nodiscard]] int stuck() const { return stuck_; }

  std::function<void()> before_submit;  ///< what the framework calls meanwhile; set while nothing else uses the queue

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const auto task = tasks_.front();
      lock.unlock();
      std::this_thread::sleep_for(lateness_);
      task();
      lock.lock();
      tasks_.pop_front();
      ++done_;
      changed_.notify_all();
    }
  }

  const std::chrono::milliseconds lateness_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  ///< the first one may be under way
  std::uint64_t done_ = 0;
  bool ends_ = false;
  std::atomic<int> waits_{0}, stuck_{0};
  std::thread thread_;
};

}  // namespace tidemark
