#include "integrations/formats/import_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/pickle_reader.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/snapshot_origins.h"

namespace tidemark::formats {
namespace {

constexpr Bytes kMostBlockBytes = std::int64_t{1} << 50;

struct LiveBlock {
  Bytes bytes = 0;
  std::uint64_t stream = 0;
  std::int32_t origin = -1;
};
using LiveBlocks = std::map<std::uint64_t, LiveBlock>;  // by address

/// One entry of the history that matters here.
struct HistoryEntry {
  enum class Kind : std::uint8_t { alloc, free, reserve };
  Kind kind = Kind::alloc;
  std::uint64_t address = 0;  ///< of alloc and free
  LiveBlock block;            ///< of alloc and free
  Bytes reserved_bytes = 0;   ///< of reserve: what the allocator took of the device; negative: returned to it
};

/// What the segments say at the end of the history.
struct FinalState {
  LiveBlocks live;
  Bytes reserved_bytes = 0;
};

/// Reads fields of the pickled dicts, with the place in every complaint.
class SnapshotFields {
 public:
  SnapshotFields(const PickleDocument& document, std::string_view file) : document_(document), file_(file) {}

  [[nodiscard]] Error wrong(std::string_view place, std::string_view what) const {
    return bad_input(fmt::format("{}: {}: {}", file_, place, what));
  }

  [[nodiscard]] Result<std::uint64_t> number(PickleId dict, std::string_view key, std::string_view place) const {
    const std::optional<PickleId> id = document_.find(dict, key);
    const std::optional<std::uint64_t> value = id ? document_.find_unsigned(*id) : std::nullopt;
    if (!value) return wrong(place, fmt::format("'{}' is {}", key, id ? "no whole number from 0" : "missing"));
    return *value;
  }

  [[nodiscard]] Result<Bytes> size(PickleId dict, std::string_view place) const {
    const Result<std::uint64_t> value = number(dict, "size", place);
    if (!value) return value.error();
    if (value.value() > static_cast<std::uint64_t>(kMostBlockBytes))
      return wrong(place, fmt::format("'size' is {}; it must be at most 2^50", value.value()));
    return static_cast<Bytes>(value.value());
  }

  /// A handle: a number, which older writers gave as signed; absent or None is the default stream.
  [[nodiscard]] std::uint64_t stream(PickleId dict) const {
    const std::optional<PickleId> id = document_.find(dict, "stream");
    if (!id) return 0;
    if (const auto value = document_.find_unsigned(*id)) return *value;
    return static_cast<std::uint64_t>(document_.find_integer(*id).value_or(0));
  }

  /// Absent in older writers.
  [[nodiscard]] std::optional<std::int64_t> time_us(PickleId dict) const {
    const std::optional<PickleId> id = document_.find(dict, "time_us");
    return id ? document_.find_integer(*id) : std::nullopt;
  }

  [[nodiscard]] Result<std::string_view> text(PickleId dict, std::string_view key, std::string_view place) const {
    const std::optional<PickleId> id = document_.find(dict, key);
    const std::optional<std::string_view> value = id ? document_.find_text(*id) : std::nullopt;
    if (!value) return wrong(place, fmt::format("'{}' is {}", key, id ? "no text" : "missing"));
    return *value;
  }

  [[nodiscard]] Result<const std::vector<PickleId>*> list(PickleId dict, std::string_view key,
                                                          std::string_view place) const {
    const std::optional<PickleId> id = document_.find(dict, key);
    const std::vector<PickleId>* items = id ? document_.find_items(*id) : nullptr;
    if (items == nullptr) return wrong(place, fmt::format("'{}' is {}", key, id ? "no list" : "missing"));
    return items;
  }

  [[nodiscard]] const PickleDocument& document() const { return document_; }

 private:
  const PickleDocument& document_;
  std::string_view file_;
};

/// A block that [address, address + bytes) lies over, or end().
LiveBlocks::const_iterator find_overlap(const LiveBlocks& live, std::uint64_t address, Bytes bytes) {
  const auto behind = live.lower_bound(address);
  if (behind != live.end() && behind->first - address < static_cast<std::uint64_t>(bytes)) return behind;
  if (behind == live.begin()) return live.end();
  const auto before = std::prev(behind);
  return address - before->first < static_cast<std::uint64_t>(before->second.bytes) ? before : live.end();
}

/// Adds the blocks of one segment that are in use. Blocks without an address follow each other (older writers).
Status add_segment(const SnapshotFields& fields, PickleId segment, const std::string& place, SnapshotOrigins& origins,
                   FinalState& state) {
  LiveBlocks& live = state.live;
  const Result<std::uint64_t> start = fields.number(segment, "address", place);
  if (!start) return start.error();
  const auto blocks = fields.list(segment, "blocks", place);
  if (!blocks) return blocks.error();
  std::uint64_t address = start.value();
  for (std::size_t i = 0; i < blocks.value()->size(); ++i) {
    const PickleId block = (*blocks.value())[i];
    const std::string block_place = fmt::format("{}.blocks[{}]", place, i);
    const Result<Bytes> bytes = fields.size(block, block_place);
    if (!bytes) return bytes.error();
    const Result<std::string_view> use = fields.text(block, "state", block_place);
    if (!use) return use.error();
    if (fields.document().find(block, "address")) {
      const Result<std::uint64_t> own = fields.number(block, "address", block_place);
      if (!own) return own.error();
      address = own.value();
    }
    state.reserved_bytes += bytes.value();
    if (state.reserved_bytes > kMostTraceBytes)
      return fields.wrong(block_place, "the blocks up to here add up to more than 2^60 bytes");
    if (use.value() == "active_allocated" && bytes.value() > 0) {
      if (find_overlap(live, address, bytes.value()) != live.end())
        return fields.wrong(block_place, fmt::format("address {} is in use twice", address));
      live.emplace(
          address,
          LiveBlock{.bytes = bytes.value(), .stream = fields.stream(segment), .origin = origins.origin_of(block)});
    }
    address += static_cast<std::uint64_t>(bytes.value());
  }
  return {};
}

struct PlacedSegment {
  std::size_t index = 0;  ///< of `segments`
  PickleId id{};
};
using SegmentsOfDevice = std::map<std::uint64_t, std::vector<PlacedSegment>>;

Result<SegmentsOfDevice> sort_segments(const SnapshotFields& fields, PickleId root) {
  const auto segments = fields.list(root, "segments", "the snapshot");
  if (!segments) return segments.error();
  SegmentsOfDevice sorted;
  for (std::size_t i = 0; i < segments.value()->size(); ++i) {
    const PickleId segment = (*segments.value())[i];
    const Result<std::uint64_t> owner = fields.number(segment, "device", fmt::format("segments[{}]", i));
    if (!owner) return owner.error();
    sorted[owner.value()].push_back({.index = i, .id = segment});
  }
  return sorted;
}

/// What a device has at the end of its history.
Result<FinalState> read_segments(const SnapshotFields& fields, const std::vector<PlacedSegment>& segments,
                                 SnapshotOrigins& origins) {
  FinalState state;
  std::size_t blocks = 0;
  for (const PlacedSegment& segment : segments) {
    const std::string place = fmt::format("segments[{}]", segment.index);
    if (Status status = add_segment(fields, segment.id, place, origins, state); !status) return status.error();
    // Every block is a dict of its own. Lists that segments share would be walked once for each.
    blocks += fields.list(segment.id, "blocks", place).value()->size();
    if (blocks > fields.document().size())
      return fields.wrong(place, "the blocks up to here are more than the values of the file; segments share a list");
  }
  return state;
}

struct History {
  std::vector<HistoryEntry> entries;
  std::set<std::string_view> unknown;  ///< actions; of the document
  std::int64_t backwards = 0;          ///< entries earlier than the one before
  std::int64_t failed = 0;             ///< allocations that the device had no memory for
  std::uint64_t failed_bytes = 0;      ///< of the largest of them; 0: not said
};

enum class EntryUse : std::uint8_t { alloc, free, grow, shrink, out_of_memory, none, unknown };

EntryUse use_of(std::string_view action) {
  using Row = std::pair<std::string_view, EntryUse>;
  constexpr auto kUses = std::to_array<Row>({{"alloc", EntryUse::alloc},
                                             {"free_requested", EntryUse::free},
                                             {"segment_alloc", EntryUse::grow},
                                             {"segment_map", EntryUse::grow},
                                             {"segment_free", EntryUse::shrink},
                                             {"segment_unmap", EntryUse::shrink},
                                             {"free_completed", EntryUse::none},
                                             {"snapshot", EntryUse::none},
                                             {"oom", EntryUse::out_of_memory}});
  const auto found = std::ranges::find(kUses, action, &Row::first);
  return found == kUses.end() ? EntryUse::unknown : found->second;
}

/// What is of no concern is nothing. Where a free was asked for says nothing of where its block was allocated.
Result<std::optional<HistoryEntry>> read_entry(const SnapshotFields& fields, PickleId entry, EntryUse use,
                                               const std::string& place, SnapshotOrigins& origins) {
  if (use == EntryUse::none || use == EntryUse::out_of_memory || use == EntryUse::unknown)
    return std::optional<HistoryEntry>{};
  const bool is_block = use == EntryUse::alloc || use == EntryUse::free;
  HistoryEntry read;
  if (is_block) {
    const Result<std::uint64_t> address = fields.number(entry, "addr", place);
    if (!address) return address.error();
    read.address = address.value();
  }
  const Result<Bytes> bytes = fields.size(entry, place);
  if (!bytes) return bytes.error();
  if (!is_block) {
    read.kind = HistoryEntry::Kind::reserve;
    read.reserved_bytes = use == EntryUse::grow ? bytes.value() : -bytes.value();
    return std::optional(read);
  }
  read.kind = use == EntryUse::alloc ? HistoryEntry::Kind::alloc : HistoryEntry::Kind::free;
  read.block = {.bytes = bytes.value(), .stream = fields.stream(entry)};
  if (use == EntryUse::alloc) read.block.origin = origins.origin_of(entry);
  return std::optional(read);
}

void note_failed(const SnapshotFields& fields, PickleId entry, History& history) {
  ++history.failed;
  const std::optional<PickleId> size = fields.document().find(entry, "size");
  const std::optional<std::uint64_t> bytes = size ? fields.document().find_unsigned(*size) : std::nullopt;
  history.failed_bytes = std::max(history.failed_bytes, bytes.value_or(0));
}

Result<History> read_history(const SnapshotFields& fields, const std::vector<PickleId>& entries, std::size_t device,
                             SnapshotOrigins& origins) {
  History history;
  Bytes sum = 0, reserved_sum = 0;
  std::int64_t last_us = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string place = fmt::format("device_traces[{}][{}]", device, i);
    const Result<std::string_view> action = fields.text(entries[i], "action", place);
    if (!action) return action.error();
    if (const auto us = fields.time_us(entries[i])) {
      if (*us < last_us) ++history.backwards;
      last_us = *us;
    }
    const EntryUse use = use_of(action.value());
    if (use == EntryUse::unknown) history.unknown.insert(action.value());
    if (use == EntryUse::out_of_memory) note_failed(fields, entries[i], history);
    const auto entry = read_entry(fields, entries[i], use, place, origins);
    if (!entry) return entry.error();
    if (!entry.value()) continue;
    sum += entry.value()->block.bytes;
    reserved_sum += std::max(entry.value()->reserved_bytes, -entry.value()->reserved_bytes);
    if (std::max(sum, reserved_sum) > kMostTraceBytes)
      return fields.wrong(place, "the sizes up to here add up to more than 2^60 bytes");
    if (entry.value()->block.bytes > 0 || entry.value()->reserved_bytes != 0) history.entries.push_back(*entry.value());
  }
  return history;
}

/// What was in use before the first entry, given what is after the last.
LiveBlocks rewind(const std::vector<HistoryEntry>& entries, LiveBlocks live) {
  for (std::size_t i = entries.size(); i-- > 0;) {
    if (entries[i].kind == HistoryEntry::Kind::alloc)
      live.erase(entries[i].address);
    else if (entries[i].kind == HistoryEntry::Kind::free)
      live.insert_or_assign(entries[i].address, entries[i].block);
  }
  return live;
}

/// What was in use before the history, with holes in it or not: no two blocks over each other. How many were left out.
std::int64_t drop_overlapping(LiveBlocks& live) {
  std::int64_t dropped = 0;
  for (auto at = live.begin(); at != live.end();) {
    const auto next = std::next(at);
    if (next == live.end() || next->first - at->first >= static_cast<std::uint64_t>(at->second.bytes)) {
      at = next;
    } else {
      live.erase(next);
      ++dropped;
    }
  }
  return dropped;
}

/// Held by the allocator before the first entry, given what is behind the last.
Bytes rewind_reserved(const std::vector<HistoryEntry>& entries, Bytes reserved_bytes) {
  for (const HistoryEntry& entry : entries) reserved_bytes -= entry.reserved_bytes;
  return std::max<Bytes>(reserved_bytes, 0);  // a history with gaps may have lost what was returned
}

/// The events, with what is live by address.
class TraceBuilder {
 public:
  TraceBuilder(const LiveBlocks& at_start, Bytes reserved_bytes) : reserved_bytes_(reserved_bytes) {
    run_.trace.source = "snapshot";
    for (const auto& [address, block] : at_start) add_block(address, block);
    run_.trace.live_at_start = static_cast<std::int32_t>(run_.trace.blocks.size());
    mark_reserved();
  }

  void add(const HistoryEntry& entry) {
    if (entry.kind == HistoryEntry::Kind::reserve) {
      reserved_bytes_ = std::max<Bytes>(reserved_bytes_ + entry.reserved_bytes, 0);
      mark_reserved();
    } else if (entry.kind == HistoryEntry::Kind::alloc) {
      allocate(entry);
    } else if (const auto found = live_.find(entry.address); found != live_.end()) {
      free(found);
    } else {
      ++lost_allocs_;
    }
  }

  [[nodiscard]] AttributedTrace take() {
    auto& notes = run_.trace.notes;
    if (lost_frees_ > 0) notes.push_back(fmt::format("{} frees are missing from the history", lost_frees_));
    if (lost_allocs_ > 0) notes.push_back(fmt::format("{} allocations are missing from the history", lost_allocs_));
    return std::move(run_);
  }

 private:
  using Action = AllocationTrace::Action;

  void allocate(const HistoryEntry& entry) {
    // What is allocated over blocks in use tells that they were freed before, where the history has a gap.
    for (auto found = find_overlap(live_, entry.address, entry.block.bytes); found != live_.end();
         found = find_overlap(live_, entry.address, entry.block.bytes)) {
      free(found);
      ++lost_frees_;
    }
    run_.trace.events.push_back(
        {.action = Action::alloc, .block = static_cast<std::int32_t>(run_.trace.blocks.size())});
    add_block(entry.address, entry.block);
  }
  void mark_reserved() { run_.reserved.push_back({.event = run_.trace.events.size(), .bytes = reserved_bytes_}); }
  void add_block(std::uint64_t address, const LiveBlock& block) {
    live_.insert_or_assign(address, block);
    block_at_.insert_or_assign(address, static_cast<std::int32_t>(run_.trace.blocks.size()));
    run_.trace.blocks.push_back({.bytes = block.bytes, .stream = block.stream, .address = address});
    run_.origin_of.push_back(block.origin);
  }
  void free(LiveBlocks::const_iterator found) {
    run_.trace.events.push_back({.action = Action::free, .block = block_at_.at(found->first)});
    live_.erase(found);
  }

  AttributedTrace run_;
  Bytes reserved_bytes_ = 0;
  LiveBlocks live_;
  std::map<std::uint64_t, std::int32_t> block_at_;  ///< the last one at each address
  std::int64_t lost_frees_ = 0, lost_allocs_ = 0;
};

AttributedTrace trace_of(FinalState at_end, const std::vector<HistoryEntry>& entries) {
  const Bytes reserved_bytes = rewind_reserved(entries, at_end.reserved_bytes);
  LiveBlocks at_start = rewind(entries, std::move(at_end.live));
  const std::int64_t dropped = drop_overlapping(at_start);
  TraceBuilder builder(at_start, reserved_bytes);
  for (const HistoryEntry& entry : entries) builder.add(entry);
  AttributedTrace run = builder.take();
  if (dropped > 0)
    run.trace.notes.push_back(
        fmt::format("{} blocks from before the history lie over others and are left out", dropped));
  return run;
}

std::vector<std::string> notes_of(const History& history) {
  std::vector<std::string> notes;
  if (!history.unknown.empty())
    notes.push_back(fmt::format("entries of actions {} are not used", shown_some(history.unknown)));
  if (history.backwards > 0)
    notes.push_back(
        fmt::format("{} entries are earlier than the entry before; their order in the file counts", history.backwards));
  return notes;
}

/// Why more may have been held than the trace shows.
std::vector<std::string> doubts_of(const History& history, const AttributedTrace& run) {
  std::vector<std::string> doubts;
  if (history.failed > 0) {
    const bool is_told = history.failed_bytes > 0 && history.failed_bytes <= std::uint64_t{kMostBlockBytes};
    doubts.push_back(
        fmt::format("the run did not fit: {} allocations{} failed for want of memory", history.failed,
                    is_told ? fmt::format(" of up to {}", format_bytes(Bytes(history.failed_bytes))) : ""));
  }
  if (history.entries.empty() && !history.unknown.empty())
    doubts.emplace_back("no entry of its history is of an action that is known");
  else if (run.trace.blocks.empty())
    doubts.emplace_back("it shows no allocation");
  return doubts;
}

/// The devices of a snapshot, each with its history and its segments.
class SnapshotDevices {
 public:
  /// Errors: no device has a history; histories that share a list, which would be walked once for each.
  static Result<SnapshotDevices> open(const PickleDocument& document, std::string_view file_name) {
    SnapshotDevices devices(document, file_name);
    const auto histories = devices.fields_.list(document.root(), "device_traces", "the snapshot");
    if (!histories) return histories.error();
    std::size_t entries = 0;
    for (std::size_t d = 0; d < histories.value()->size(); ++d) {
      const std::vector<PickleId>* history = document.find_items((*histories.value())[d]);
      if (history == nullptr) return devices.fields_.wrong(fmt::format("device_traces[{}]", d), "it is no list");
      entries += history->size();
      if (entries > document.size())
        return devices.fields_.wrong(fmt::format("device_traces[{}]", d),
                                     "the entries up to here are more than the values of the file; devices share a "
                                     "history");
      if (!history->empty()) devices.histories_[d] = history;
    }
    if (devices.histories_.empty())
      return devices.fields_.wrong(
          "device_traces", "no device has a history; record one with torch.cuda.memory._record_memory_history()");
    Result<SegmentsOfDevice> segments = sort_segments(devices.fields_, document.root());
    if (!segments) return segments.error();
    devices.segments_ = std::move(segments).value();
    return devices;
  }

  /// Of the devices, with a history or without, the one that held most; ties: the first. The others are noted.
  [[nodiscard]] Result<AttributedTrace> highest(bool needs_history) const {
    std::set<std::uint64_t> devices;
    for (const auto& [device, history] : histories_) devices.insert(device);
    if (!needs_history)
      for (const auto& [device, segments] : segments_) devices.insert(device);
    std::optional<AttributedTrace> best;
    std::uint64_t chosen = 0;
    Bytes most = -1;
    for (const std::uint64_t device : devices) {
      Result<AttributedTrace> run = read(device);
      if (!run) return run.error();
      const Bytes held = most_held(run.value());
      if (held <= most) continue;
      best = std::move(run).value();
      chosen = device;
      most = held;
    }
    note_others(chosen, *best);
    return std::move(*best);
  }

 private:
  SnapshotDevices(const PickleDocument& document, std::string_view file_name)
      : document_(&document), fields_(document, file_name) {}

  [[nodiscard]] Result<AttributedTrace> read(std::uint64_t device) const {
    static const std::vector<PickleId> kNoEntries;
    static const std::vector<PlacedSegment> kNoSegments;
    const auto history_of = histories_.find(device);
    const auto segments_of = segments_.find(device);
    SnapshotOrigins origins(*document_);
    const Result<History> history =
        read_history(fields_, history_of == histories_.end() ? kNoEntries : *history_of->second, device, origins);
    if (!history) return history.error();
    Result<FinalState> at_end =
        read_segments(fields_, segments_of == segments_.end() ? kNoSegments : segments_of->second, origins);
    if (!at_end) return at_end.error();
    AttributedTrace run = trace_of(std::move(at_end).value(), history.value().entries);
    const std::vector<std::string> notes = notes_of(history.value());
    run.trace.notes.insert(run.trace.notes.begin(), notes.begin(), notes.end());
    run.doubts = doubts_of(history.value(), run);
    if (history_of == histories_.end())
      run.doubts.push_back(
          fmt::format("device {} has no history: what it held at the end is known, not at its highest", device));
    origins.move_to(run);
    return run;
  }

  /// By the allocator, where that is told, or in blocks.
  static Bytes most_held(const AttributedTrace& run) {
    Bytes live = 0;
    for (std::int32_t block = 0; block < run.trace.live_at_start; ++block)
      live += run.trace.blocks[static_cast<std::size_t>(block)].bytes;
    Bytes most = live;
    for (const AllocationTrace::Event& event : run.trace.events) {
      const Bytes bytes = run.trace.blocks[static_cast<std::size_t>(event.block)].bytes;
      live += event.action == AllocationTrace::Action::alloc ? bytes : -bytes;
      most = std::max(most, live);
    }
    for (const ReservedMark& mark : run.reserved) most = std::max(most, mark.bytes);
    return most;
  }

  void note_others(std::uint64_t chosen, AttributedTrace& run) const {
    std::set<std::uint64_t> others;
    for (const auto& [device, history] : histories_) others.insert(device);
    for (const auto& [device, segments] : segments_) others.insert(device);
    others.erase(chosen);
    if (others.empty()) return;
    std::vector<std::string> names;
    for (const std::uint64_t device : others) names.push_back(fmt::format("{}", device));
    run.trace.notes.insert(run.trace.notes.begin(),
                           fmt::format("devices {} are not used; device {} is", shown_some(names), chosen));
  }

  const PickleDocument* document_;
  SnapshotFields fields_;
  std::map<std::uint64_t, const std::vector<PickleId>*> histories_;  ///< of devices that have entries
  SegmentsOfDevice segments_;
};

Result<AttributedTrace> read_highest(std::string_view bytes, std::string_view file_name, bool needs_history) {
  const Result<PickleDocument> document = read_pickle(bytes, file_name);
  if (!document) return document.error();
  const Result<SnapshotDevices> devices = SnapshotDevices::open(document.value(), file_name);
  if (!devices) return devices.error();
  return devices.value().highest(needs_history);
}

}  // namespace

Result<AttributedTrace> read_attributed_snapshot(std::string_view bytes, std::string_view file_name) {
  return read_highest(bytes, file_name, false);
}

Result<AllocationTrace> read_snapshot(std::string_view bytes, std::string_view file_name) {
  Result<AttributedTrace> run = read_highest(bytes, file_name, true);
  if (!run) return run.error();
  return std::move(run.value().trace);
}

}  // namespace tidemark::formats
