#pragma once
// The text of each thread's last failure, for Device::last_error(). Written on failures only, so a lock is cheap
// enough; a thread that ended leaves its text behind until the device goes.
// Threads: any.

#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tidemark {

class ErrorTexts {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    texts_[std::this_thread::get_id()] = std::move(text);
  }
  [[nodiscard]] std::string get() const {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(std::this_thread::get_id());
    return found == texts_.end() ? std::string() : found->second;
  }
  // Around a fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::thread::id, std::string> texts_;
};

}  // namespace tidemark
