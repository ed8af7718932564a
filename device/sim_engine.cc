#include "device/sim_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <utility>

namespace tidemark {

void SimRing::grow() {
  std::vector<SimItem> larger(std::max<std::size_t>(16, 2 * items_.size()));
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) larger[i] = items_[(head_ + i) & mask()];
  items_ = std::move(larger);
  head_ = 0;
  tail_ = count;
}

std::size_t SimEngine::ChannelHash::operator()(const ChannelKey& key) const {
  const auto ranks =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.from)) << 32 | static_cast<std::uint32_t>(key.to);
  std::uint64_t x = ranks * 0x9E3779B97F4A7C15ULL ^ static_cast<std::uint64_t>(key.tag);
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::size_t>(x ^ x >> 32);
}

SimEngine::SimEngine(const SimSchedule& schedule) : schedule_(schedule), random_(schedule.seed) {}
SimEngine::~SimEngine() = default;

// ---- chance ----

std::uint64_t SimEngine::draw() {  // a counter through a mixer: any seed is a good one
  std::uint64_t x = random_ += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

double SimEngine::draw_unit() {
  return static_cast<double>(draw() >> 11) * 0x1p-53;
}

std::int64_t SimEngine::stretched(std::int64_t ns) {
  if (schedule_.seed == 0) return ns;
  const double factor = schedule_.shortest * std::pow(schedule_.longest / schedule_.shortest, draw_unit());
  auto result = std::llround(static_cast<double>(ns) * factor);
  if (draw_unit() < schedule_.stall_probability)
    result += std::llround(static_cast<double>(schedule_.stall_ns) * draw_unit());
  return result;
}

// ---- ports and streams ----

void SimEngine::add_port(SimPort* port) {
  ports_.push_back(port);
}

void SimEngine::remove_port(SimPort* port) {
  lose(port);
  for (std::uint32_t index = 0; index < streams_.size(); ++index)
    if (streams_[index]->port == port) remove_stream(index);
  ports_.erase(std::remove(ports_.begin(), ports_.end(), port), ports_.end());
}

void SimEngine::lose(SimPort* port) {
  drop_all(port);
  release_reached();
}

void SimEngine::drop_all(SimPort* port) {
  port->lost = true;
  for (std::uint32_t index = 0; index < streams_.size(); ++index)
    if (streams_[index]->port == port) drop_items(index);
  for (SimPort::LinkQueue& link : port->links) link = {};
  wake_ = true;
}

std::uint32_t SimEngine::add_stream(SimPort* port, StreamRole role, std::string name) {
  std::uint32_t index = static_cast<std::uint32_t>(streams_.size());
  if (free_streams_.empty()) {
    streams_.push_back(std::make_unique<SimStream>());
  } else {
    index = free_streams_.back();
    free_streams_.pop_back();
    *streams_[index] = SimStream{};
  }
  streams_[index]->port = port;
  streams_[index]->role = role;
  streams_[index]->name = std::move(name);
  return index;
}

void SimEngine::remove_stream(std::uint32_t index) {
  SimStream& stream = *streams_[index];
  assert(stream.items.empty() && "stream with pending work");
  stream.port = nullptr;
  if (stream.place == SimStream::Place::idle) free_streams_.push_back(index);  // else when its heap entry comes up
}

std::uint32_t SimEngine::take_payload() {
  if (free_payloads_.empty()) {
    payloads_.emplace_back();
    return static_cast<std::uint32_t>(payloads_.size() - 1);
  }
  const std::uint32_t slot = free_payloads_.back();
  free_payloads_.pop_back();
  return slot;
}

void SimEngine::free_payload(std::uint32_t slot) {
  if (slot == kNoSlot) return;
  payloads_[slot].message = {};
  payloads_[slot].touches.clear();
  payloads_[slot].carried.clear();
  free_payloads_.push_back(slot);
}

void SimEngine::make_due(std::uint32_t index, std::int64_t time) {
  const std::uint32_t key = schedule_.seed == 0 ? index : static_cast<std::uint32_t>(draw());
  heap_.push_back({time, key, index});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void SimEngine::submit(std::uint32_t index, const SimItem& item) {
  SimStream& stream = *streams_[index];
  stream.items.push(item);
  if (item.kind != SimItemKind::record && item.kind != SimItemKind::wait) stream.last_submitted_id = item.id;
  ++stream.port->pending;
  ++pending_;
  if (stream.place != SimStream::Place::idle) return;
  stream.place = SimStream::Place::due;
  make_due(index, now_);
}

// ---- records ----

std::uint32_t SimEngine::record(std::uint32_t index) {
  std::uint32_t slot = static_cast<std::uint32_t>(records_.size());
  if (free_records_.empty()) {
    records_.emplace_back();
  } else {
    slot = free_records_.back();
    free_records_.pop_back();
  }
  SimStream& stream = *streams_[index];
  const bool done = stream.place == SimStream::Place::idle;  // nothing pending: reached at once
  records_[slot] = {.time_ns = done ? now_ : -1,
                    .references = done ? 1U : 2U,
                    .stream = index,
                    .after_id = stream.last_submitted_id,
                    .failure = done ? stream.failure : SimFailure{}};
  if (!done) submit(index, {.slot = slot, .kind = SimItemKind::record});
  return slot;
}

void SimEngine::wait(std::uint32_t index, std::uint32_t record) {
  const SimRecord& on = records_[record];
  if (on.stream == index || (on.time_ns >= 0 && !on.failure)) return;  // a failure is taken over in stream order
  ++records_[record].references;
  submit(index, {.slot = record, .kind = SimItemKind::wait});
}

void SimEngine::drop_reference(std::uint32_t slot) {
  if (--records_[slot].references == 0) free_records_.push_back(slot);
}

void SimEngine::complete_record(SimRecord& record, const SimFailure& failure) {
  record.time_ns = now_;
  record.failure = failure;
  wake_ |= record.host_waits;
  for (std::uint32_t waiter = record.first_waiter; waiter != kNoSlot;) {
    SimStream& stream = *streams_[waiter];
    stream.place = SimStream::Place::due;
    make_due(waiter, now_);
    waiter = std::exchange(stream.next_waiter, kNoSlot);
  }
  record.first_waiter = kNoSlot;
}

// ---- the simulation ----

void SimEngine::turn() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Due due = heap_.back();
  heap_.pop_back();
  SimStream& stream = *streams_[due.stream];
  if (stream.port == nullptr) {
    stream.place = SimStream::Place::idle;
    free_streams_.push_back(due.stream);
    return;
  }
  now_ = due.time;
  if (stream.place == SimStream::Place::running) end(due.stream, stream);
  advance(due.stream);
}

// Starts items until one takes time or cannot start.
void SimEngine::advance(std::uint32_t index) {
  SimStream& stream = *streams_[index];
  stream.place = SimStream::Place::idle;
  while (!stream.items.empty())
    if (!start(index, stream)) return;
}

// Whether the first item is done with; otherwise the stream has found its place.
bool SimEngine::start(std::uint32_t index, SimStream& stream) {
  const SimItem item = stream.items.front();
  switch (item.kind) {
    case SimItemKind::record: {
      stream.items.pop();
      complete_record(records_[item.slot], stream.failure);
      drop_reference(item.slot);
      count_done(stream);
      return true;
    }
    case SimItemKind::wait:
      if (records_[item.slot].time_ns < 0) return begin_waiting(index, stream);
      if (!stream.failure) stream.failure = records_[item.slot].failure;
      stream.items.pop();
      drop_reference(item.slot);
      count_done(stream);
      return true;
    case SimItemKind::receive:
      if (!receive_ready(index, stream)) return false;
      break;
    case SimItemKind::copy:
      if (!take_link(index, stream)) return false;
      break;
    case SimItemKind::launch:
    case SimItemKind::send:
      break;
  }
  run_now(index, stream);
  return stream.place != SimStream::Place::running;
}

bool SimEngine::begin_waiting(std::uint32_t index, SimStream& stream) {
  SimRecord& record = records_[stream.items.front().slot];
  stream.place = SimStream::Place::on_record;
  stream.next_waiter = std::exchange(record.first_waiter, index);
  return false;
}

bool SimEngine::take_link(std::uint32_t index, SimStream& stream) {
  const CopyKind kind = stream.items.front().copy;
  if (kind == CopyKind::device_to_device) return true;
  SimPort::LinkQueue& link = stream.port->links[static_cast<std::size_t>(kind)];
  if (link.owner == kNoSlot) link.owner = index;
  if (link.owner == index) return true;
  link.waiting.push_back(index);
  stream.place = SimStream::Place::on_link;
  return false;
}

void SimEngine::release_link(std::uint32_t index, SimStream& stream) {
  if (stream.running.copy == CopyKind::device_to_device) return;
  SimPort::LinkQueue& link = stream.port->links[static_cast<std::size_t>(stream.running.copy)];
  assert(link.owner == index);
  (void)index;
  link.owner = kNoSlot;
  if (link.waiting.empty()) return;
  const std::size_t pick = schedule_.seed == 0 ? 0 : draw() % link.waiting.size();
  link.owner = link.waiting[pick];
  link.waiting.erase(link.waiting.begin() + static_cast<std::ptrdiff_t>(pick));
  streams_[link.owner]->place = SimStream::Place::due;
  make_due(link.owner, now_);
}

bool SimEngine::receive_ready(std::uint32_t index, SimStream& stream) {
  if (std::exchange(stream.message_arrived, false)) return true;
  const WorkMessage& message = payloads_[stream.items.front().slot].message;
  Channel& channel = channels_[{message.peer_rank, stream.port->rank, message.tag}];
  const std::int64_t number = channel.received++;
  if (number < channel.sent) {
    if (channel.failed.erase(number) > 0) stream.items.front().fails_with = DeviceCode::copy_failed;
    return true;
  }
  channel.waiting.push_back(index);
  stream.place = SimStream::Place::on_message;
  return false;
}

void SimEngine::deliver(const SimPort& from, const WorkMessage& message, bool failed) {
  Channel& channel = channels_[{from.rank, message.peer_rank, message.tag}];
  const std::int64_t number = channel.sent++;
  if (channel.waiting.empty()) {
    if (failed) channel.failed.insert(number);
    return;
  }
  const std::uint32_t receiver = channel.waiting.front();
  channel.waiting.erase(channel.waiting.begin());
  SimStream& stream = *streams_[receiver];
  stream.message_arrived = true;
  if (failed) stream.items.front().fails_with = DeviceCode::copy_failed;
  stream.place = SimStream::Place::due;
  make_due(receiver, now_);
}

void SimEngine::run_now(std::uint32_t index, SimStream& stream) {
  stream.running = stream.items.front();
  stream.items.pop();
  stream.start_ns = now_;
  stream.place = SimStream::Place::running;
  if (stream.port->first_start_ns < 0) stream.port->first_start_ns = now_;
  if (stream.running.slot != kNoSlot) begin_effects(stream);
  const std::int64_t ns = stream.running.kind == SimItemKind::receive ? 0 : stretched(stream.running.ns);
  if (ns > 0) {
    make_due(index, now_ + ns);
  } else {
    end(index, stream);
  }
}

void SimEngine::end(std::uint32_t index, SimStream& stream) {
  const SimItem item = stream.running;
  stream.place = SimStream::Place::idle;
  SimPort& port = *stream.port;
  port.last_end_ns = std::max(port.last_end_ns, now_);
  ++stream.works;
  stream.busy_ns += now_ - stream.start_ns;
  if (port.record_timeline)
    port.timeline.push_back({.stream = StreamHandle{index + 1ULL},
                             .id = item.id,
                             .start_ns = stream.start_ns,
                             .end_ns = now_,
                             .is_copy = item.kind == SimItemKind::copy});
  const bool fails = item.fails_with != DeviceCode::ok;
  if (fails)
    stream.failure = {
        item.fails_with,
        fmt::format("{} {} on {} failed", item.kind == SimItemKind::copy ? "copy" : "launch", item.id, stream.name)};
  if (item.kind == SimItemKind::copy) release_link(index, stream);
  if (item.slot != kNoSlot) {
    end_effects(stream);
    if (item.kind == SimItemKind::send && item.fails_with != DeviceCode::lost)
      deliver(port, payloads_[item.slot].message, fails);
    free_payload(item.slot);
  }
  count_done(stream);
  if (item.fails_with == DeviceCode::lost) drop_all(&port);
}

void SimEngine::count_done(SimStream& stream) {
  --pending_;
  wake_ |= --stream.port->pending == 0 || pending_ == 0 || stream.items.empty();
}

// Forgets what the stream has; who waits for its records goes on.
void SimEngine::drop_items(std::uint32_t index) {
  SimStream& stream = *streams_[index];
  const auto drop = [&](const SimItem& item) {
    if (item.kind == SimItemKind::record) {
      complete_record(records_[item.slot], {DeviceCode::lost, "the device is lost"});
      drop_reference(item.slot);
    } else if (item.kind == SimItemKind::wait) {
      drop_reference(item.slot);
    } else {
      free_payload(item.slot);
    }
    count_done(stream);
  };
  if (stream.place == SimStream::Place::on_record) {  // leave the record's list
    std::uint32_t* link = &records_[stream.items.front().slot].first_waiter;
    while (*link != index) link = &streams_[*link]->next_waiter;
    *link = stream.next_waiter;
    stream.next_waiter = kNoSlot;
  } else if (stream.place == SimStream::Place::on_message) {
    const WorkMessage& message = payloads_[stream.items.front().slot].message;
    Channel& channel = channels_[{message.peer_rank, stream.port->rank, message.tag}];
    std::erase(channel.waiting, index);
    --channel.received;
  }
  const bool in_heap = stream.place == SimStream::Place::due || stream.place == SimStream::Place::running;
  if (stream.place == SimStream::Place::running) drop(stream.running);
  for (; !stream.items.empty(); stream.items.pop()) drop(stream.items.front());
  stream.message_arrived = false;
  stream.place = in_heap ? SimStream::Place::due : SimStream::Place::idle;
}

// ---- contents ----

void SimEngine::check_touch(SimStream& stream, SimTouch& touch) {
  SimPort& port = *stream.port;
  if (touch.wrong || (touch.present && port.contents.holds(touch.memory, touch.bytes, touch.seed, touch.place))) return;
  touch.wrong = true;
  if (port.mismatches++ == 0)
    port.first_mismatch = {
        .work_id = stream.running.id, .address = touch.address, .bytes = touch.bytes, .expected_seed = touch.seed};
}

// Reads look; what is going to be written holds nothing known until the end.
void SimEngine::begin_effects(SimStream& stream) {
  SimPayload& payload = payloads_[stream.running.slot];
  SimContents& contents = stream.port->contents;
  const bool copies = stream.running.kind == SimItemKind::copy;
  for (SimTouch& touch : payload.touches) {
    if (touch.is_write) continue;
    if (copies) {
      if (touch.present) contents.read(touch.memory, touch.bytes, touch.place, payload.carried);
    } else {
      check_touch(stream, touch);
    }
  }
  for (const SimTouch& touch : payload.touches)
    if (touch.is_write && touch.present) contents.forget(touch.memory, touch.bytes);
}

void SimEngine::end_effects(SimStream& stream) {
  SimPayload& payload = payloads_[stream.running.slot];
  SimContents& contents = stream.port->contents;
  if (stream.running.kind != SimItemKind::copy) {
    for (SimTouch& touch : payload.touches) {
      if (!touch.is_write && touch.look_again) check_touch(stream, touch);
      if (touch.is_write && touch.present && stream.running.fails_with == DeviceCode::ok)
        contents.set(touch.memory, touch.bytes, touch.seed, touch.place);
    }
    return;
  }
  if (stream.running.fails_with != DeviceCode::ok) return;
  std::vector<SimContent> now;
  for (const SimTouch& touch : payload.touches)
    if (!touch.is_write && touch.present) contents.read(touch.memory, touch.bytes, touch.place, now);
  for (const SimContent& part : now) {  // only what stood still under the copy arrives
    if (std::find(payload.carried.begin(), payload.carried.end(), part) == payload.carried.end()) continue;
    for (const SimTouch& touch : payload.touches) {
      if (!touch.is_write || !touch.present) continue;
      const Bytes from = std::max(part.offset, touch.place);
      const Bytes to = std::min(part.offset + part.bytes, touch.place + touch.bytes);
      if (from < to)
        contents.set(touch.memory + static_cast<Address>(from - touch.place), to - from, part.seed,
                     part.place + (from - part.offset));
    }
  }
}

// ---- hosts ----

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
  if (schedule_.seed == 0 || heap_.empty() || !may_advance()) return;
  if (draw_unit() >= schedule_.host_pause_probability) return;
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
