#pragma once
// What a session's plan says of its framework's requests, in the allocator that serves the framework.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/planned_front.h"
#include "integrations/c_api/allocator_group.h"

namespace tidemark::c_api {

/// Threads: the session's. The group must outlive it.
class ServedRequests {
 public:
  ServedRequests() = default;
  ServedRequests(AllocatorGroup& group, std::vector<allocator::PlannedBlock> blocks)
      : group_(&group), blocks_(std::move(blocks)) {}
  ~ServedRequests() {
    if (front_ != nullptr) group_->end_planned(*front_);
  }
  ServedRequests(const ServedRequests&) = delete;
  ServedRequests& operator=(const ServedRequests&) = delete;

  /// The first one takes the memory, for requests of its stream, or one of the next few where others have it until
  /// then; an attempt that fails costs as much as memory that runs out. Meanwhile, and after that, the allocator serves
  /// as ever. `thread`: as PlannedFront::begin_step().
  void begin_step(StreamHandle stream, std::thread::id thread) {
    if (!blocks_.empty()) {
      if (group_->begin_planned(blocks_, stream, front_) == DeviceCode::ok || --attempts_left_ == 0) blocks_.clear();
      expect(expected_);
    }
    if (front_ != nullptr) group_->begin_planned_step(*front_, thread);
  }
  /// The step has come as far as the op that the session hears of at this time.
  void advance(std::int32_t time) {
    if (front_ != nullptr) group_->advance_planned(*front_, time);
  }
  void expect(allocator::Requests requests) {
    expected_ = requests;
    if (front_ != nullptr) group_->expect_requests(*front_, requests);
  }
  [[nodiscard]] Bytes extent_bytes() const { return front_ == nullptr ? 0 : front_->extent_bytes(); }
  [[nodiscard]] allocator::PlannedArenaCounts counts() const {
    return front_ == nullptr ? allocator::PlannedArenaCounts{} : group_->planned_counts(*front_);
  }
  [[nodiscard]] std::int64_t requests_of_other_threads() const {
    return front_ == nullptr ? 0 : front_->requests_of_other_threads();
  }

 private:
  AllocatorGroup* group_ = nullptr;
  std::vector<allocator::PlannedBlock> blocks_;  ///< until the memory is there, or given up
  int attempts_left_ = 3;
  allocator::Requests expected_ = allocator::Requests::planned;
  std::shared_ptr<allocator::PlannedFront> front_;
};

}  // namespace tidemark::c_api
