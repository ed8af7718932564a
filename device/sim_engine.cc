#include "device/sim_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

#include "device/sim_effects.h"

namespace tidemark {

SimEngine::SimEngine(const SimSchedule& schedule) : chance_(schedule) {}
SimEngine::~SimEngine() = default;

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
  heap_.push_back({time, chance_.key_of(index), index});
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
  const std::size_t pick = chance_.pick(link.waiting.size());
  link.owner = link.waiting[pick];
  link.waiting.erase(link.waiting.begin() + static_cast<std::ptrdiff_t>(pick));
  streams_[link.owner]->place = SimStream::Place::due;
  make_due(link.owner, now_);
}

bool SimEngine::receive_ready(std::uint32_t index, SimStream& stream) {
  if (std::exchange(stream.message_arrived, false)) return true;
  SimItem& item = stream.items.front();
  switch (channels_.receive(channel_of_receive(stream), index)) {
    case SimChannels::Message::failed:
      item.fails_with = DeviceCode::copy_failed;
      return true;
    case SimChannels::Message::arrived:
      return true;
    case SimChannels::Message::not_sent:
      break;
  }
  stream.place = SimStream::Place::on_message;
  return false;
}

SimChannels::Key SimEngine::channel_of_receive(SimStream& stream) const {
  const WorkMessage& message = payloads_[stream.items.front().slot].message;
  return {message.peer_rank, stream.port->rank, message.tag};
}

void SimEngine::deliver(const SimPort& from, const WorkMessage& message, bool failed) {
  const std::uint32_t receiver = channels_.send({from.rank, message.peer_rank, message.tag}, failed);
  if (receiver == kNoSlot) return;
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
  if (stream.running.slot != kNoSlot) begin_effects(stream, payloads_[stream.running.slot]);
  const std::int64_t ns = stream.running.kind == SimItemKind::receive ? 0 : chance_.stretched(stream.running.ns);
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
    end_effects(stream, payloads_[item.slot]);
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
    channels_.withdraw(channel_of_receive(stream), index);
  }
  const bool in_heap = stream.place == SimStream::Place::due || stream.place == SimStream::Place::running;
  if (stream.place == SimStream::Place::running) drop(stream.running);
  for (; !stream.items.empty(); stream.items.pop()) drop(stream.items.front());
  stream.message_arrived = false;
  stream.place = in_heap ? SimStream::Place::due : SimStream::Place::idle;
}

}  // namespace tidemark
