#include "allocator/stream_order.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <unordered_map>
#include <vector>

namespace tidemark::allocator {

void Frontier::taint(std::uint64_t tick) {
  taint_tick_ = tainted_ ? std::max(taint_tick_, tick) : tick;
  tainted_ = true;
  count_ = 0;
}

void Frontier::add(Death death, std::uint64_t tick) {
  if (tainted_) return taint(tick);
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (deaths_[i].stream != death.stream) continue;
    deaths_[i].epoch = std::max(deaths_[i].epoch, death.epoch);
    return;
  }
  if (count_ == kInline) return taint(tick);
  deaths_[count_++] = death;
}

void Frontier::merge(const Frontier& other, std::uint64_t tick) {
  if (other.tainted_) return taint(empty() ? other.taint_tick_ : std::max(tick, other.taint_tick_));
  for (const Death& death : other.deaths()) add(death, tick);
}

static_assert(StreamOrder::kMaxStreams == 4096);
const char* TooManyStreams::what() const noexcept {
  return "4096 streams are alive, the most that an allocator follows; destroy those that are done with";
}

using Clock = MetadataVector<Epoch>;  ///< by slot; what is beyond its end is 0

namespace {

Epoch at(const Clock& clock, std::size_t slot) {
  return slot < clock.size() ? clock[slot] : 0;
}
void raise(Clock& clock, std::size_t slot, Epoch epoch) {
  if (slot >= clock.size()) clock.resize(slot + 1, 0);
  clock[slot] = std::max(clock[slot], epoch);
}
void raise(Clock& clock, const Clock& by) {
  if (clock.size() < by.size()) clock.resize(by.size(), 0);
  for (std::size_t i = 0; i < by.size(); ++i) clock[i] = std::max(clock[i], by[i]);
}

struct Record {
  std::size_t slot = 0;
  std::uint64_t tick = 0;
  Clock clock;
};

}  // namespace

struct StreamOrder::Stream {
  std::atomic<StreamHandle> handle{};  ///< of a dead stream until the slot is taken again
  std::atomic<Epoch> epoch{0};
  Clock clock;
  std::uint64_t completed_tick = 0;  ///< all work submitted before this tick is known to be complete
};

struct StreamOrder::State {
  mutable std::mutex mutex;
  std::unordered_map<std::uint64_t, StreamSlot> slots;
  std::unordered_map<std::uint64_t, Record> records;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::size_t> spare;  ///< slots of destroyed streams; room for all slots
  Clock completed;
};

StreamOrder::StreamOrder()
    : state_(std::make_unique<State>()),
      table_(std::make_unique<std::atomic<Stream*>[]>(kMaxStreams)),
      at_fork_(std::make_unique<ForkHandlers>(ForkLevel::stream_order,
                                              ForkSteps{.before_fork = [this] { state_->mutex.lock(); },
                                                        .after_fork_in_parent = [this] { state_->mutex.unlock(); },
                                                        .after_fork_in_child = [this] { state_->mutex.unlock(); }})) {}
StreamOrder::~StreamOrder() = default;

StreamOrder::Stream& StreamOrder::stream_at(StreamSlot slot) const {
  Stream* stream = table_[static_cast<std::size_t>(slot)].load(std::memory_order_acquire);
  assert(stream != nullptr);
  return *stream;
}

StreamSlot StreamOrder::slot_locked(StreamHandle stream) {
  const auto [place, fresh] = state_->slots.try_emplace(static_cast<std::uint64_t>(stream), StreamSlot{});
  if (!fresh) return place->second;
  try {
    return place->second = static_cast<StreamSlot>(new_slot_locked(stream));
  } catch (...) {
    state_->slots.erase(place);
    throw;
  }
}

/// A dead stream's slot, or one more. The clocks of dead streams are no loss: all they hold is complete.
std::size_t StreamOrder::new_slot_locked(StreamHandle stream) {
  if (state_->spare.empty()) {
    const std::size_t slot = state_->streams.size();
    if (slot == kMaxStreams) throw TooManyStreams();
    state_->spare.reserve(slot + 1);  // destroying a stream must not fail
    state_->streams.push_back(std::make_unique<Stream>());
    table_[slot].store(state_->streams.back().get(), std::memory_order_release);
    state_->spare.push_back(slot);
  }
  const std::size_t slot = state_->spare.back();
  state_->spare.pop_back();
  Stream& of = *state_->streams[slot];
  of.handle = stream;
  of.clock.clear();
  // Deaths on the slot so far, those noted after its stream was gone included, are over.
  if (slot < state_->completed.size()) state_->completed[slot] = of.epoch.fetch_add(1) + 1;
  of.completed_tick = tick_.fetch_add(1) + 1;  // nothing that died before can have died on it
  return slot;
}

StreamSlot StreamOrder::slot_of(StreamHandle stream) {
  const std::lock_guard lock(state_->mutex);
  return slot_locked(stream);
}

StreamHandle StreamOrder::handle_of(StreamSlot slot) const {
  return stream_at(slot).handle;
}

std::size_t StreamOrder::stream_count() const {
  const std::lock_guard lock(state_->mutex);
  return state_->streams.size();
}

const std::atomic<Epoch>& StreamOrder::epoch_cell(StreamSlot slot) const {
  return stream_at(slot).epoch;
}

void StreamOrder::note_record(EventHandle event, StreamHandle stream) {
  const std::lock_guard lock(state_->mutex);
  const auto slot = static_cast<std::size_t>(slot_locked(stream));
  Stream& of = *state_->streams[slot];
  const Epoch epoch = of.epoch.fetch_add(1) + 1;
  raise(of.clock, slot, epoch);
  Record& record = state_->records[static_cast<std::uint64_t>(event)];
  record.clock.reserve(of.clock.size());  // the last that can fail: a record is replaced as a whole
  record.slot = slot;
  record.tick = tick_.fetch_add(1) + 1;
  record.clock = of.clock;
}

void StreamOrder::note_record_failed(EventHandle event) {
  note_event_destroyed(event);
}

void StreamOrder::note_event_destroyed(EventHandle event) {
  const std::lock_guard lock(state_->mutex);
  state_->records.erase(static_cast<std::uint64_t>(event));
}

void StreamOrder::note_wait(StreamHandle stream, EventHandle event) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->records.find(static_cast<std::uint64_t>(event));
  if (found == state_->records.end()) return;
  raise(state_->streams[static_cast<std::size_t>(slot_locked(stream))]->clock, found->second.clock);
  version_.fetch_add(1, std::memory_order_release);
}

void StreamOrder::note_synchronized(EventHandle event) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->records.find(static_cast<std::uint64_t>(event));
  if (found == state_->records.end()) return;
  const Record& record = found->second;
  raise(state_->completed, record.clock);
  std::uint64_t& tick = state_->streams[record.slot]->completed_tick;
  tick = std::max(tick, record.tick);
  version_.fetch_add(1, std::memory_order_release);
}

void StreamOrder::note_synchronized(StreamHandle stream) {
  const std::lock_guard lock(state_->mutex);
  (void)synchronize_locked(stream);
}

std::size_t StreamOrder::synchronize_locked(StreamHandle stream) {
  const auto slot = static_cast<std::size_t>(slot_locked(stream));
  Stream& of = *state_->streams[slot];
  raise(of.clock, slot, of.epoch.fetch_add(1) + 1);
  raise(state_->completed, of.clock);
  of.completed_tick = tick_.fetch_add(1) + 1;
  version_.fetch_add(1, std::memory_order_release);
  return slot;
}

void StreamOrder::note_device_synchronized() {
  complete(mark());
}

StreamOrder::Mark StreamOrder::mark() {
  const std::lock_guard lock(state_->mutex);
  Mark mark;
  for (std::size_t slot = 0; slot < state_->streams.size(); ++slot) {
    Stream& stream = *state_->streams[slot];
    mark.epochs.push_back(stream.epoch.fetch_add(1) + 1);
    raise(stream.clock, slot, mark.epochs.back());
  }
  mark.tick = tick_.fetch_add(1) + 1;
  return mark;
}

void StreamOrder::complete(const Mark& mark) {
  const std::lock_guard lock(state_->mutex);
  for (std::size_t slot = 0; slot < mark.epochs.size(); ++slot) {
    raise(state_->completed, slot, mark.epochs[slot]);
    std::uint64_t& tick = state_->streams[slot]->completed_tick;
    tick = std::max(tick, mark.tick);
  }
  version_.fetch_add(1, std::memory_order_release);
}

DeviceCode StreamOrder::synchronize(Device& device) {
  const Mark before = mark();
  const DeviceCode code = device.synchronize_device();
  if (code == DeviceCode::ok) complete(before);
  return code;
}

void StreamOrder::note_stream_destroyed(StreamHandle stream) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->slots.find(static_cast<std::uint64_t>(stream));
  if (found == state_->slots.end()) return;  // nothing is known of it
  const std::size_t slot = synchronize_locked(stream);
  state_->streams[slot]->completed_tick = ~std::uint64_t{0};  // nothing runs on it until the slot is taken again
  state_->completed[slot] = ~Epoch{0};
  generation_.fetch_add(1, std::memory_order_release);
  state_->slots.erase(found);
  state_->spare.push_back(slot);
}

DeviceCode StreamOrder::record(Device& device, EventHandle event, StreamHandle stream) {
  note_record(event, stream);
  const DeviceCode code = device.record_event(event, stream);
  if (code != DeviceCode::ok) note_record_failed(event);
  return code;
}

DeviceCode StreamOrder::wait(Device& device, StreamHandle stream, EventHandle event) {
  const DeviceCode code = device.wait_event(stream, event);
  if (code == DeviceCode::ok) note_wait(stream, event);
  return code;
}

MetadataVector<Epoch> StreamOrder::known_epochs(StreamSlot stream) const {
  const std::lock_guard lock(state_->mutex);
  Clock known = state_->completed;
  raise(known, stream_at(stream).clock);
  raise(known, static_cast<std::size_t>(stream), ~Epoch{0});
  return known;
}

MetadataVector<Epoch> StreamOrder::completed_epochs() const {
  const std::lock_guard lock(state_->mutex);
  return state_->completed;
}

bool StreamOrder::over(Death death, const Clock* clock) const {
  const auto slot = static_cast<std::size_t>(death.stream);
  return at(state_->completed, slot) >= death.epoch || (clock != nullptr && at(*clock, slot) >= death.epoch);
}

bool StreamOrder::over(const Frontier& frontier, const StreamSlot* stream) const {
  if (frontier.tainted()) {
    return std::all_of(state_->streams.begin(), state_->streams.end(), [&](const auto& of) {
      return of->completed_tick > frontier.taint_tick() || (stream != nullptr && of.get() == &stream_at(*stream));
    });
  }
  const Clock* clock = stream == nullptr ? nullptr : &stream_at(*stream).clock;
  return std::all_of(frontier.deaths().begin(), frontier.deaths().end(), [&](const Death& death) {
    return (stream != nullptr && death.stream == *stream) || over(death, clock);
  });
}

bool StreamOrder::dominated(const Frontier& frontier, StreamSlot stream) const {
  const std::lock_guard lock(state_->mutex);
  return over(frontier, &stream);
}

bool StreamOrder::dominated(Death death, StreamSlot stream) const {
  if (death.stream == stream || death.epoch == 0) return true;
  const std::lock_guard lock(state_->mutex);
  return over(death, &stream_at(stream).clock);
}

bool StreamOrder::completed(const Frontier& frontier) const {
  const std::lock_guard lock(state_->mutex);
  return over(frontier, nullptr);
}

bool StreamOrder::completed(Death death) const {
  if (death.epoch == 0) return true;
  const std::lock_guard lock(state_->mutex);
  return over(death, nullptr);
}

}  // namespace tidemark::allocator
