#include "swap/planned_requests.h"

#include <algorithm>
#include <span>

namespace tidemark::swap {
namespace {

using Kind = FollowedAction::Kind;

/// Less than what an allocator loses anyway: it may lie outside the arena, in the way of nothing in the next step.
constexpr Bytes kSmallBytes = Bytes{64} << 10;

class RequestLister {
 public:
  RequestLister(const Program& program, const FollowedProgram& followed, const FollowedLoop& loop,
                const std::vector<OpRequest>& requests, Bytes tail_pad_bytes)
      : s_(program.schedule),
        layout_(program.layout),
        followed_(followed),
        loop_(loop),
        requests_(requests),
        tail_pad_bytes_(tail_pad_bytes) {}

  std::vector<allocator::PlannedBlock> list() {
    find_base();
    std::size_t next = 0;
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      const Task& task = s_.tasks[t];
      if (task.kind != TaskKind::op) continue;
      due_ = static_cast<std::int32_t>(t);
      if (loop_.is_told.empty() || loop_.is_told[row(task.op)])  // what is due comes first
        for (; next < followed_.actions.size() && followed_.actions[next].time <= static_cast<std::int32_t>(t); ++next)
          add_action(followed_.actions[next]);
      add_op(id_of<TaskId>(t), task.op);
    }
    const bool is_above = std::ranges::all_of(blocks_, [](const auto& block) { return block.offset >= 0; });
    return is_above ? std::move(blocks_) : std::vector<allocator::PlannedBlock>{};
  }

 private:
  [[nodiscard]] static bool is_on_device(const Residency& residency) { return residency.space == MemorySpace::device; }

  [[nodiscard]] static bool outlives_step(const Residency& one) { return one.full_before && one.full_behind; }

  void find_base() {
    for (std::size_t r = 0; r < s_.residencies.size(); ++r) {
      const Residency& one = s_.residencies[r];
      if (is_on_device(one) && outlives_step(one))
        base_ = std::max(base_, round_up(layout_.offset_of[r] + one.bytes, alignment()));
    }
  }
  [[nodiscard]] Bytes alignment() const { return layout_.arenas.front().alignment_bytes; }

  /// Of a request that takes what the Program has.
  [[nodiscard]] Bytes asked_bytes(Bytes planned) const { return std::max<Bytes>(planned - tail_pad_bytes_, 1); }

  void add_action(const FollowedAction& action) {
    if (action.kind == Kind::rebuild) return add_op(id_of<TaskId>(static_cast<std::size_t>(action.time)), action.op);
    if (action.kind != Kind::copy_in) return;
    const FollowedStorage& plan = followed_.storages[static_cast<std::size_t>(action.storage)];
    const auto made = std::ranges::find_if(
        requests_, [&](const OpRequest& one) { return one.storage == plan.storage && !one.is_within; });
    const Bytes bytes = asked_bytes(plan.bytes);
    const Bytes least = made == requests_.end() ? 0 : std::min(made->least_bytes, bytes);
    blocks_.push_back({.bytes = bytes, .offset = action.offset - base_, .least_bytes = least, .due = due_});
  }

  /// The op as this task runs it.
  void add_op(TaskId task, OpId op) {
    const auto [first, last] = std::ranges::equal_range(requests_, op, {}, &OpRequest::op);
    const std::span<const OpRequest> own(first, last);
    const std::int32_t workspace = find_workspace(task, own);
    for (const OpRequest& request : own) {
      const std::int32_t r = request.storage == kNone<StorageId> ? workspace : find_storage(task, request.storage);
      if (r < 0) continue;
      const Residency& place = s_.residencies[static_cast<std::size_t>(r)];
      if (request.is_within && place.first_task != task) continue;  // it is there already, from before
      if (outlives_step(place)) {
        if (request.is_remade && !request.is_within)
          blocks_.push_back({.bytes = asked_bytes(place.bytes), .elsewhere = true, .due = due_});
        continue;
      }
      const Bytes offset = layout_.offset_of[static_cast<std::size_t>(r)] - base_;
      if (request.storage != kNone<StorageId> && !request.is_within) {
        const bool persistent = place.full_behind && !request.is_remade;
        const bool unordered = place.bytes <= allocator::kUnorderedBytes && !persistent;
        const Bytes most = asked_bytes(place.bytes);
        const bool is_asked = unordered && request.bytes > 0 && request.least_bytes == 0;  // known by its size
        blocks_.push_back({.bytes = is_asked ? std::min(request.bytes, most) : most,
                           .offset = offset,
                           .least_bytes = std::min(request.least_bytes, most),
                           .elsewhere = request.is_remade && place.bytes <= kSmallBytes && !unordered,
                           .unordered = unordered,
                           .persistent = persistent,
                           .due = due_});
      } else if (request.offset + request.bytes + tail_pad_bytes_ <= place.bytes) {
        blocks_.push_back({.bytes = request.bytes,
                           .offset = offset + request.offset,
                           .unordered = request.bytes <= allocator::kUnorderedBytes,
                           .due = due_});
      }
    }
  }

  [[nodiscard]] std::int32_t find_storage(TaskId task, StorageId storage) const {
    for (const Schedule::Touch& touch : s_.touches_of(task)) {
      const Residency& one = s_.residencies[row(touch.residency)];
      if (one.storage == storage && is_on_device(one)) return static_cast<std::int32_t>(row(touch.residency));
    }
    return -1;
  }

  /// What the task alone touches, and no request names.
  [[nodiscard]] std::int32_t find_workspace(TaskId task, std::span<const OpRequest> own) const {
    std::int32_t found = -1;
    for (const Schedule::Touch& touch : s_.touches_of(task)) {
      const Residency& one = s_.residencies[row(touch.residency)];
      const bool is_named = std::ranges::find(own, one.storage, &OpRequest::storage) != own.end();
      if (one.first_task == task && one.last_task == task && !is_named && is_on_device(one))
        found = std::max(found, static_cast<std::int32_t>(row(touch.residency)));
    }
    return found;
  }

  const Schedule& s_;
  const Layout& layout_;
  const FollowedProgram& followed_;
  const FollowedLoop& loop_;
  const std::vector<OpRequest>& requests_;
  const Bytes tail_pad_bytes_;
  Bytes base_ = 0;
  std::int32_t due_ = 0;
  std::vector<allocator::PlannedBlock> blocks_;
};

}  // namespace

Result<std::vector<allocator::PlannedBlock>> plan_requests(const Program& program, const FollowedLoop& loop,
                                                           const std::vector<OpRequest>& requests,
                                                           Bytes tail_pad_bytes) {
  const Result<FollowedProgram> followed = bind_followed(program, loop);
  if (!followed) return followed.error();
  return RequestLister(program, followed.value(), loop, requests, tail_pad_bytes).list();
}

}  // namespace tidemark::swap
