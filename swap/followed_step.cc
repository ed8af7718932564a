#include "swap/followed_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "swap/device_error.h"
#include "swap/session_recorder.h"

namespace tidemark::swap {

using Kind = FollowedAction::Kind;

FollowedParts::FollowedParts(Device& device) : streams(device) {}
FollowedParts::~FollowedParts() = default;

FollowedStep::FollowedStep(std::shared_ptr<FollowedParts> parts, std::int64_t number)
    : parts_(std::move(parts)),
      number_(number),
      program_(parts_->program),
      copies_(parts_->copies.get()),
      calls_(parts_->calls),
      counts_(parts_->counts),
      storages_(program_.storages.size()),
      told_(program_.time_of.size()),
      kept_(program_.time_of.size()),
      ran_last_(program_.time_of.size()),
      reached_(at(program_.parts), -1),
      deferred_(at(program_.parts)) {}

FollowedStep::~FollowedStep() {
  for (std::size_t n = 0; n < storages_.size(); ++n) {
    const auto storage = static_cast<std::int32_t>(n);
    try {
      release(storage, {});
      forget_copy(storage);
    } catch (const std::bad_alloc&) {  // there is none to tell; the device frees what is left when it closes
    }
  }
}

Status FollowedStep::check(DeviceCode code, std::int32_t storage, const char* what) const {
  if (code == DeviceCode::ok) return {};
  return device_error(copies_->device(), code, fmt::format("storage {}: {}", row(name_of(storage)), what));
}

Status FollowedStep::enter(FrameworkStream stream) {
  const DeviceCode code = parts_->streams.enter(stream);
  if (code == DeviceCode::ok) return {};
  return device_error(parts_->streams.device(), code, "ordering the streams that the framework names");
}

Status FollowedStep::tell(OpId op, FrameworkStream stream) {
  const std::int32_t time = program_.time_of[row(op)];
  const std::size_t part = at(program_.part_of[row(op)]);
  if (parts_->reached && number_ == counts_.steps) parts_->reached(time);
  const auto run = [&](std::int32_t number) { return carry_out(program_.actions[at(number)], stream); };
  std::deque<std::int32_t>& own = deferred_[part];
  while (!own.empty() && program_.actions[at(own.front())].time <= time) {
    const std::int32_t number = own.front();
    own.pop_front();
    if (Status s = run(number); !s) return s;
  }
  for (; next_ < program_.actions.size() && program_.actions[next_].time <= time; ++next_) {
    const FollowedAction& action = program_.actions[next_];
    std::deque<std::int32_t>& waiting = deferred_[at(action.part)];
    const bool is_own = at(action.part) == part;
    if (!waiting.empty() || (!is_own && reached_[at(action.part)] < action.after)) {
      waiting.push_back(static_cast<std::int32_t>(next_));
      continue;
    }
    if (Status s = run(static_cast<std::int32_t>(next_)); !s) {
      ++next_;
      return s;
    }
  }
  reached_[part] = std::max(reached_[part], time);
  told_[row(op)] = true;
  return {};
}

Status FollowedStep::carry_out(const FollowedAction& action, FrameworkStream stream) {
  switch (action.kind) {
    case Kind::end_residency:
      end_residency(action.storage, action.last, stream);
      return {};
    case Kind::copy_out:
      return copy_out(action, stream);
    case Kind::settle_out:
      return settle_out(action.storage, stream);
    case Kind::copy_in:
      return copy_in(action.storage, action.last, stream);
    case Kind::settle_in:
      return settle_in(action.storage, stream);
    case Kind::rebuild: {
      Status status = rebuild(action.op, program_.wanted_of(action), action.last, stream);
      if (action.last) ran_last_[row(action.op)] = true;  // also where nothing was missing: what it reads goes now
      return status;
    }
  }
  return {};
}

void FollowedStep::take(std::int32_t storage, FrameworkBlock block, FrameworkStream stream) {
  release(storage, stream);
  forget_copy(storage);
  place(storage, block);
  storages_[at(storage)].was_taken = true;
  storages_[at(storage)].is_over = storages_[at(storage)].is_late = false;
}

std::int32_t FollowedStep::adopt(FrameworkBlock block) {
  const std::int32_t storage = next_adopted();
  Stored& one = storages_.emplace_back();
  one.is_late = true;
  one.behind = last_saved_for_;
  place(storage, block);
  return storage;
}

void FollowedStep::place(std::int32_t storage, FrameworkBlock block) {
  const auto [latest, is_alone] = storage_of_.try_emplace(block.handle, storage);
  storages_[at(storage)].block = block;
  if (!is_alone) storages_[at(storage)].beneath = std::exchange(latest->second, storage);
}

FrameworkBlock FollowedStep::take_from_place(std::int32_t storage) {
  Stored& one = storages_[at(storage)];
  const std::int32_t beneath = std::exchange(one.beneath, -1);
  const auto latest = storage_of_.find(one.block.handle);
  if (latest->second != storage) {
    std::int32_t above = latest->second;
    while (there(above).beneath != storage) above = there(above).beneath;
    storages_[at(above)].beneath = beneath;
  } else if (beneath >= 0) {
    latest->second = beneath;
  } else {
    storage_of_.erase(latest);
  }
  return std::exchange(one.block, {});
}

StorageId FollowedStep::name_of(std::int32_t storage) const {
  if (!is_adopted(storage)) return program_.storages[at(storage)].storage;
  return id_of<StorageId>(program_.number_of.size() + at(storage) - program_.storages.size());
}

std::int32_t FollowedStep::number_of(StorageId name) const {
  if (name == kNone<StorageId>) return -1;
  if (row(name) < program_.number_of.size()) return program_.number_of[row(name)];
  const std::size_t number = row(name) - program_.number_of.size() + program_.storages.size();
  const bool has_content =
      number < storages_.size() && (storages_[number].block.handle != nullptr || storages_[number].host);
  return has_content ? static_cast<std::int32_t>(number) : -1;
}

std::span<const FollowedResidency> FollowedStep::residencies_of(std::int32_t storage) const {
  if (is_adopted(storage)) return {};
  return program_.residencies[at(storage)];
}

std::span<const std::int32_t> FollowedStep::recompute_times_of(std::int32_t storage) const {
  if (is_adopted(storage)) return {};
  return program_.recompute_times[at(storage)];
}

std::span<const std::int32_t> FollowedStep::consumers_of(std::int32_t storage) const {
  if (is_adopted(storage)) return {};
  return program_.consumers_of[at(storage)];
}

std::int32_t FollowedStep::find(void* handle) const {
  const auto found = storage_of_.find(handle);
  return found == storage_of_.end() ? -1 : found->second;
}

void FollowedStep::keep(OpId op) {
  kept_[row(op)] = true;
}

bool FollowedStep::can_be_rebuilt(std::int32_t storage) const {
  const OpId op = made_by(storage);
  return op != kNone<OpId> && told_[row(op)] && there(storage).was_taken && !kept_[row(op)] &&
         !there(storage).is_spared;
}

bool FollowedStep::is_owed(std::int32_t storage) const {
  if (consumers_of(storage).empty()) return false;
  const auto waits_for_it = [&](std::int32_t number) {
    const FollowedAction& action = program_.actions[at(number)];
    return action.kind == Kind::rebuild &&
           std::ranges::find(program_.reads_of[row(action.op)], storage) != program_.reads_of[row(action.op)].end();
  };
  for (const std::deque<std::int32_t>& waiting : deferred_)
    if (std::ranges::any_of(waiting, waits_for_it)) return true;
  std::vector<std::int32_t> left{storage};
  std::set<std::int32_t> seen;
  while (!left.empty()) {
    const std::int32_t source = left.back();
    left.pop_back();
    for (const std::int32_t made : consumers_of(source)) {
      const Stored& one = there(made);
      const bool may_be_missed = one.was_taken && !one.is_over && !is_there(made) && !one.host;
      if (!may_be_missed || !can_be_rebuilt(made)) continue;
      if (!one.saved.empty()) return true;
      if (seen.insert(made).second) left.push_back(made);
    }
  }
  return false;
}

std::vector<bool> FollowedStep::find_needed() const {
  std::vector<bool> needed(storages_.size());
  std::vector<std::int32_t> left;
  const auto need = [&](std::int32_t n) {
    if (!needed[at(n)]) left.push_back(n);
    needed[at(n)] = true;
  };
  for (std::size_t n = 0; n < storages_.size(); ++n)
    if (!storages_[n].is_over) need(static_cast<std::int32_t>(n));
  while (!left.empty()) {
    const std::int32_t n = left.back();
    left.pop_back();
    if (!can_be_rebuilt(n)) continue;
    for (const std::int32_t source : program_.reads_of[row(made_by(n))]) need(source);
  }
  return needed;
}

Status FollowedStep::change(void* handle, bool planned, FrameworkStream stream) {
  std::vector<std::int32_t> changed;
  for (std::int32_t n = find(handle); n >= 0; n = there(n).beneath) changed.push_back(n);
  for (const std::int32_t storage : changed)
    if (Status s = change(storage, planned, stream); !s) return s;
  return {};
}

/// What would be recomputed from the old content is recomputed now, and kept.
Status FollowedStep::change(std::int32_t storage, bool planned, FrameworkStream stream) {
  if (Status s = settle_in(storage, stream); !s) return s;
  if (Stored& one = storages_[at(storage)]; one.leaving) {  // it must not change under its copy
    if (Status s = check(copies_->settle_out(*one.host, stream), storage, "waiting for its copy out"); !s) return s;
    one.leaving = false;
  }
  forget_copy(storage);
  if (planned || is_adopted(storage)) return {};
  ++counts_.departures;
  storages_[at(storage)].is_spared = true;
  const std::vector<bool> needed = find_needed();
  for (std::size_t op = 0; op < program_.reads_of.size(); ++op) {
    if (!told_[op] || kept_[op] || std::ranges::find(program_.reads_of[op], storage) == program_.reads_of[op].end())
      continue;
    for (std::size_t n = 0; n < storages_.size(); ++n) {
      const auto made = static_cast<std::int32_t>(n);
      if (made_by(made) != id_of<OpId>(op) || !needed[n] || !storages_[n].was_taken) continue;
      if (const auto got = use(made, stream); !got) return got.error();
      storages_[n].is_spared = true;
    }
  }
  return {};
}

Result<FrameworkBlock> FollowedStep::use(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (one.block.handle == nullptr) {
    ++counts_.departures;
    if (one.host) {
      if (Status s = copy_in(storage, false, stream); !s) return s.error();
    } else {
      if (!can_be_rebuilt(storage))
        return internal_fault(fmt::format("storage {} is gone, and no op made it", row(name_of(storage))));
      if (Status s = rebuild(made_by(storage), {&storage, 1}, false, stream); !s) return s.error();
    }
  }
  if (Status s = settle_in(storage, stream); !s) return s.error();
  return one.block;
}

Status FollowedStep::rebuild(OpId op, std::span<const std::int32_t> wanted, bool is_last, FrameworkStream stream) {
  std::vector<std::int32_t> missing;
  for (const std::int32_t n : wanted)
    if (!is_there(n) && can_be_rebuilt(n)) missing.push_back(n);
  if (missing.empty()) return {};
  struct Pins {  // room for one source is not made of another
    std::vector<Stored>& storages;
    std::vector<std::int32_t> numbers;
    ~Pins() {
      for (const std::int32_t n : numbers) --storages[at(n)].pins;
    }
  } pinned{.storages = storages_, .numbers = {}};
  const std::vector<std::int32_t>& read = pinned.numbers;
  for (const std::int32_t n : program_.reads_of[row(op)]) {
    if (!there(n).was_taken) continue;  // the op read something else, which its framework has
    if (const auto got = use(n, stream); !got) return got.error();
    ++storages_[at(n)].pins;
    pinned.numbers.push_back(n);
  }
  // Bringing one back may have moved another: asked for at the end.
  std::vector<Rebuild::Source> sources;
  for (const std::int32_t n : read) sources.push_back({.storage = name_of(n), .block = there(n).block});
  std::vector<StorageId> names;
  for (const std::int32_t n : missing) names.push_back(name_of(n));
  std::vector<FrameworkBlock> made(missing.size());
  Status status = calls_.rebuild({.step = number_,
                                  .op = op,
                                  .sources = sources,
                                  .wanted = names,
                                  .made = made,
                                  .stream = stream,
                                  .is_last = is_last});
  for (std::size_t i = 0; i < made.size(); ++i)
    if (status && made[i].handle == nullptr)
      status = internal_fault(fmt::format("storage {} was not recomputed", row(names[i])));
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (status) {
      place(missing[i], made[i]);
    } else if (made[i].handle != nullptr) {  // what it holds is not known
      calls_.release(made[i], stream);
    }
  }
  if (status) ++counts_.rebuilt;
  return status;
}

void FollowedStep::end_residency(std::int32_t storage, bool last, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (last) {
    one.is_late = is_needed(one, storage);
    if (one.is_late) {  // off the plan: it has yet to be asked for
      ++counts_.departures;
      return;
    }
    release(storage, stream);
    forget_copy(storage);
    one.is_over = true;
  } else if (one.block.handle != nullptr) {
    if (!can_be_rebuilt_again(storage) && !one.host) {
      ++counts_.departures;
      return;
    }
    release(storage, stream);
  }
}

HostPiece FollowedStep::host_place(const FollowedAction& action) const {
  const Bytes bytes = there(action.storage).block.bytes;
  if (bytes > program_.storages[at(action.storage)].bytes) return {.bytes = bytes};
  return {.arena = action.arena, .offset = action.offset, .bytes = bytes};
}

Status FollowedStep::copy_out(const FollowedAction& action, FrameworkStream stream) {
  const std::int32_t storage = action.storage;
  Stored& one = storages_[at(storage)];
  if (one.block.handle == nullptr || one.block.bytes == 0 || copies_ == nullptr) return {};
  if (Status s = settle_in(storage, stream); !s) return s;
  if (!one.host) {
    const auto id = static_cast<std::int64_t>(name_of(storage));
    const DeviceCode code = copies_->begin_out(one.block.address, host_place(action), stream, id, one.host);
    if (code == DeviceCode::out_of_memory) {
      ++counts_.departures;
      ++counts_.kept_for_host;
      return {};
    }
    if (Status s = check(code, storage, "copying it out"); !s) return s;
  }
  one.leaving = true;
  return {};
}

Status FollowedStep::settle_out(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (!one.leaving) return {};
  if (!one.host->is_settled)
    if (Status s = check(copies_->settle_out(*one.host, stream), storage, "waiting for its copy out"); !s) return s;
  release(storage, stream);
  return {};
}

Status FollowedStep::copy_in(std::int32_t storage, bool last, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (one.leaving) {  // needed before its bytes were: it is kept, and not released under its copy later
    if (!one.host->is_settled)
      if (Status s = check(copies_->settle_out(*one.host, stream), storage, "waiting for its copy out"); !s) return s;
    one.leaving = false;
    ++counts_.departures;
  }
  if (one.block.handle != nullptr || !one.host) {
    if (last) forget_copy(storage);
    return {};
  }
  const StorageId name = name_of(storage);
  const Bytes bytes = one.host->place.bytes;
  FrameworkBlock room = calls_.take_block(name, bytes, stream);
  if (room.handle == nullptr)
    return infeasible(
        fmt::format("storage {}: no {} of device memory to bring it back to", row(name), format_bytes(bytes)));
  if (room.address == 0 || room.bytes < bytes) {
    calls_.release(room, stream);
    return internal_fault(fmt::format("storage {}: the framework gave a block of {} B at {:#x} for {} B", row(name),
                                      room.bytes, room.address, bytes));
  }
  room.bytes = bytes;
  EventHandle in{};
  const auto id = static_cast<std::int64_t>(name);
  if (Status s = check(copies_->begin_in(room.address, *one.host, stream, id, in), storage, "copying it in"); !s) {
    calls_.release(room, stream);
    return s;
  }
  place(storage, room);
  one.coming = in;
  if (last) forget_copy(storage);
  return {};
}

Status FollowedStep::settle_in(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (!one.coming) return {};
  const DeviceCode code = copies_->settle_in(*one.coming, one.block.bytes, stream);
  if (code == DeviceCode::ok) one.coming.reset();
  return check(code, storage, "waiting for its copy in");
}

bool FollowedStep::hand_over(std::int32_t storage, SavedUse use, FrameworkStream stream) {
  const Stored& one = there(storage);
  if (one.is_late) {
    if (is_needed(one, storage)) return false;
    static_cast<void>(detach(storage, stream));
    forget_copy(storage);
    storages_[at(storage)].is_over = true;
    return true;
  }
  if (use.op == kNone<OpId> || use.until == kNone<OpId>) return false;
  if (std::ranges::find(one.saved, use.op) != one.saved.end()) return false;  // it asks again, for another view
  const std::span<const FollowedResidency> residencies = residencies_of(storage);
  const std::int32_t from = program_.time_of[row(use.op)], to = program_.time_of[row(use.until)];
  const auto residency =
      std::ranges::find_if(residencies, [&](const FollowedResidency& s) { return s.first <= from && from <= s.last; });
  if (residency == residencies.end() || residency->last > to) return false;
  const std::span<const std::int32_t> again = recompute_times_of(storage);
  const auto next = std::ranges::upper_bound(again, from);
  if (next != again.end() && *next <= to) return false;
  const bool is_last = std::next(residency) == residencies.end();
  if (is_last ? is_needed(one, storage) : !can_be_rebuilt_again(storage)) return false;
  static_cast<void>(detach(storage, stream));
  if (is_last) forget_copy(storage);
  storages_[at(storage)].is_over = is_last;
  return true;
}

void FollowedStep::add_saved(std::int32_t storage, OpId use) {
  if (use != kNone<OpId>) last_saved_for_ = program_.time_of[row(use)];
  if (storage < 0) return;
  storages_[at(storage)].saved.push_back(use);
  storages_[at(storage)].is_over = false;
  ++saved_;
}

void FollowedStep::drop_saved(std::int32_t storage, OpId use) {
  std::vector<OpId>& saved = storages_[at(storage)].saved;
  saved.erase(std::ranges::find(saved, use));
  --saved_;
}

void FollowedStep::release_unneeded(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  if (!one.is_late || is_needed(one, storage)) return;
  release(storage, stream);
  forget_copy(storage);
  one.is_over = true;
}

void FollowedStep::end(FrameworkStream stream) {
  if (saved_ > 0) return;           // and what that is recomputed from
  next_ = program_.actions.size();  // a late `use` may tell of ops yet, and there is nothing left to act on
  for (std::deque<std::int32_t>& waiting : deferred_) waiting.clear();
  for (std::size_t n = 0; n < storages_.size(); ++n) {
    release(static_cast<std::int32_t>(n), stream);
    forget_copy(static_cast<std::int32_t>(n));
  }
}

/// Whatever still moves to or from the block comes first.
FrameworkBlock FollowedStep::detach(std::int32_t storage, FrameworkStream stream) {
  Stored& one = storages_[at(storage)];
  bool is_settled = settle_in(storage, stream).ok();
  if (std::exchange(one.leaving, false) && !one.host->is_settled)
    is_settled = copies_->settle_out(*one.host, stream) == DeviceCode::ok && is_settled;
  if (!is_settled) copies_->drain();
  one.coming.reset();
  return take_from_place(storage);
}

void FollowedStep::release(std::int32_t storage, FrameworkStream stream) {
  if (is_there(storage)) calls_.release(detach(storage, stream), stream);
}

void FollowedStep::forget_copy(std::int32_t storage) {
  Stored& one = storages_[at(storage)];
  if (!one.host || one.leaving) return;
  copies_->forget(*one.host);
  one.host.reset();
}

}  // namespace tidemark::swap
