#include <fmt/format.h>

#include <algorithm>

#include "device/sim_engine.h"

namespace tidemark {

bool SimEngine::reached(const Goal& goal) const {
  switch (goal.kind) {
    case Goal::Kind::record:
      return records_[goal.index].time_ns >= 0;
    case Goal::Kind::stream: {
      const SimStream& stream = *streams_[goal.index];
      return stream.port == nullptr || stream.port->lost ||
             (stream.items.empty() && stream.place != SimStream::Place::running);
    }
    case Goal::Kind::port:
      return goal.port->lost || goal.port->pending == 0;
    case Goal::Kind::everything:
      return pending_ == 0;
  }
  return true;
}

void SimEngine::release_reached() {
  wake_ = false;
  for (Waiter* waiter : waiters_) {
    if (waiter->outcome != Outcome::pending || !reached(waiter->goal)) continue;
    waiter->outcome = Outcome::reached;
    --blocked_;
  }
  woken_.notify_all();
}

void SimEngine::release_all(Outcome outcome) {
  for (Waiter* waiter : waiters_) {
    if (waiter->outcome != Outcome::pending) continue;
    if (outcome == Outcome::timed_out && (waiter->deadline < 0 || waiter->deadline > now_)) continue;
    waiter->outcome = outcome;
    --blocked_;
  }
  woken_.notify_all();
}

SimEngine::Outcome SimEngine::wait_for(std::unique_lock<std::mutex>& lock, const Goal& goal, std::int64_t timeout_ns) {
  stop_polling();
  if (reached(goal)) return Outcome::reached;
  if (goal.kind == Goal::Kind::record) records_[goal.index].host_waits = true;
  const bool ends = timeout_ns >= 0 && timeout_ns < INT64_MAX - now_;
  Waiter own{.goal = goal, .deadline = ends ? now_ + timeout_ns : -1};
  waiters_.push_back(&own);
  ++blocked_;
  while (own.outcome == Outcome::pending) lead(lock, own);
  std::erase(waiters_, &own);
  return own.outcome;
}

// Advances time until some host is released, or waits while a host that is not blocked may still submit.
void SimEngine::lead(std::unique_lock<std::mutex>& lock, const Waiter& own) {
  if (blocked_ < hosts_) {
    woken_.wait(lock, [&] { return own.outcome != Outcome::pending || blocked_ >= hosts_; });
    return;
  }
  std::int64_t deadline = INT64_MAX;
  for (const Waiter* waiter : waiters_)
    if (waiter->outcome == Outcome::pending && waiter->deadline >= 0) deadline = std::min(deadline, waiter->deadline);
  while (!wake_ && !heap_.empty() && heap_.front().time <= deadline) turn();
  if (wake_) {
    release_reached();
  } else if (deadline != INT64_MAX) {
    now_ = std::max(now_, deadline);
    release_all(Outcome::timed_out);
  } else {
    release_all(Outcome::deadlock);
  }
}

void SimEngine::detach_host() {
  --hosts_;
  woken_.notify_all();
}

void SimEngine::stop_polling() {
  if (polling_.empty()) return;
  std::erase_if(polling_, [self = std::this_thread::get_id()](const auto& host) { return host.first == self; });
}

void SimEngine::poll(std::int64_t ns) {
  std::erase_if(polling_, [&](const auto& host) { return host.second <= now_; });  // time passed otherwise
  const auto self = std::this_thread::get_id();
  if (std::none_of(polling_.begin(), polling_.end(), [&](const auto& host) { return host.first == self; }))
    polling_.emplace_back(self, now_ + ns);
  if (blocked_ + static_cast<std::int64_t>(polling_.size()) < hosts_) return;
  std::int64_t until = INT64_MAX;
  for (const auto& host : polling_) until = std::min(until, host.second);
  while (!heap_.empty() && heap_.front().time <= until) turn();
  now_ = until;
  std::erase_if(polling_, [&](const auto& host) { return host.second <= now_; });
  if (wake_) release_reached();
}

void SimEngine::host_pause() {
  if (chance_.nominal() || heap_.empty() || !may_advance()) return;
  if (!chance_.host_pauses()) return;
  turn();
  if (wake_) release_reached();
}

// ---- texts ----

std::string SimEngine::describe(std::uint32_t index) const {
  SimStream& stream = *streams_[index];
  const std::string who = fmt::format("rank {} {}", stream.port->rank, stream.name);
  const SimItem& item = stream.items.front();
  switch (stream.place) {
    case SimStream::Place::on_record: {
      const SimRecord& record = records_[item.slot];
      const SimStream& other = *streams_[record.stream];
      return fmt::format("{} waits for an event recorded on {} after work {}", who, other.name, record.after_id);
    }
    case SimStream::Place::on_message: {
      const WorkMessage& message = payloads_[item.slot].message;
      const bool known = std::any_of(ports_.begin(), ports_.end(), [&](const SimPort* port) {
        return port->rank == message.peer_rank && !port->lost;
      });
      return fmt::format("{} (work {}) waits for message {} from rank {}, which {}", who, item.id, message.tag,
                         message.peer_rank, known ? "has not sent it" : "is not there");
    }
    case SimStream::Place::on_link:
      return fmt::format("{} waits for its link", who);
    case SimStream::Place::idle:
    case SimStream::Place::due:
    case SimStream::Place::running:
      break;
  }
  return {};
}

std::string SimEngine::describe_blocked() const {
  constexpr std::size_t kMost = 12;
  std::string text = "deadlock: ";
  std::size_t told = 0, more = 0;
  for (std::uint32_t index = 0; index < streams_.size(); ++index) {
    if (streams_[index]->port == nullptr || streams_[index]->items.empty()) continue;
    if (told == kMost) {
      ++more;
      continue;
    }
    text += (told++ == 0 ? "" : "; ") + describe(index);
  }
  if (more > 0) text += fmt::format("; and {} more streams", more);
  return text;
}

}  // namespace tidemark
