#include "integrations/formats/import_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "integrations/formats/pickle_reader.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr Bytes kMostBlockBytes = std::int64_t{1} << 50;

struct LiveBlock {
  Bytes bytes = 0;
  std::uint64_t stream = 0;
};
using LiveBlocks = std::map<std::uint64_t, LiveBlock>;  // by address

/// One entry of the history that matters here.
struct HistoryEntry {
  bool is_alloc = false;
  std::uint64_t address = 0;
  LiveBlock block;
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
Status add_segment(const SnapshotFields& fields, PickleId segment, const std::string& place, LiveBlocks& live) {
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
    const Result<std::string_view> state = fields.text(block, "state", block_place);
    if (!state) return state.error();
    if (fields.document().find(block, "address")) {
      const Result<std::uint64_t> own = fields.number(block, "address", block_place);
      if (!own) return own.error();
      address = own.value();
    }
    if (state.value() == "active_allocated" && bytes.value() > 0) {
      if (find_overlap(live, address, bytes.value()) != live.end())
        return fields.wrong(block_place, fmt::format("address {} is in use twice", address));
      live.emplace(address, LiveBlock{.bytes = bytes.value(), .stream = fields.stream(segment)});
    }
    address += static_cast<std::uint64_t>(bytes.value());
  }
  return {};
}

/// The blocks in use at the end of the history of `device`.
Result<LiveBlocks> read_segments(const SnapshotFields& fields, PickleId root, std::uint64_t device) {
  const auto segments = fields.list(root, "segments", "the snapshot");
  if (!segments) return segments.error();
  LiveBlocks live;
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < segments.value()->size(); ++i) {
    const PickleId segment = (*segments.value())[i];
    const std::string place = fmt::format("segments[{}]", i);
    const Result<std::uint64_t> owner = fields.number(segment, "device", place);
    if (!owner) return owner.error();
    if (owner.value() != device) continue;
    if (Status status = add_segment(fields, segment, place, live); !status) return status.error();
    // Every block is a dict of its own. Lists that segments share would be walked once for each.
    blocks += fields.list(segment, "blocks", place).value()->size();
    if (blocks > fields.document().size())
      return fields.wrong(place, "the blocks up to here are more than the values of the file; segments share a list");
  }
  Bytes sum = 0;
  for (const auto& [address, block] : live) {
    sum += block.bytes;
    if (sum > kMostTraceBytes) return fields.wrong("segments", "the blocks in use add up to more than 2^60 bytes");
  }
  return live;
}

struct History {
  std::vector<HistoryEntry> entries;
  std::set<std::string_view> unknown;  ///< actions; of the document
  std::int64_t backwards = 0;          ///< entries earlier than the one before
};

Result<History> read_history(const SnapshotFields& fields, const std::vector<PickleId>& entries, std::size_t device) {
  constexpr std::array<std::string_view, 7> kOfNoConcern = {
      "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom"};
  History history;
  Bytes sum = 0;
  std::int64_t last_us = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string place = fmt::format("device_traces[{}][{}]", device, i);
    const Result<std::string_view> action = fields.text(entries[i], "action", place);
    if (!action) return action.error();
    if (const auto us = fields.time_us(entries[i])) {
      if (*us < last_us) ++history.backwards;
      last_us = *us;
    }
    const bool is_alloc = action.value() == "alloc";
    if (!is_alloc && action.value() != "free_requested") {
      if (std::ranges::find(kOfNoConcern, action.value()) == kOfNoConcern.end()) history.unknown.insert(action.value());
      continue;
    }
    const Result<std::uint64_t> address = fields.number(entries[i], "addr", place);
    if (!address) return address.error();
    const Result<Bytes> bytes = fields.size(entries[i], place);
    if (!bytes) return bytes.error();
    sum += bytes.value();
    if (sum > kMostTraceBytes) return fields.wrong(place, "the sizes up to here add up to more than 2^60 bytes");
    if (bytes.value() == 0) continue;
    history.entries.push_back({.is_alloc = is_alloc,
                               .address = address.value(),
                               .block = {.bytes = bytes.value(), .stream = fields.stream(entries[i])}});
  }
  return history;
}

/// What was in use before the first entry, given what is after the last.
LiveBlocks rewind(const std::vector<HistoryEntry>& entries, LiveBlocks live) {
  for (std::size_t i = entries.size(); i-- > 0;) {
    if (entries[i].is_alloc)
      live.erase(entries[i].address);
    else
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

/// The events, with what is live by address.
class TraceBuilder {
 public:
  explicit TraceBuilder(const LiveBlocks& at_start) {
    for (const auto& [address, block] : at_start) add_block(address, block);
    trace_.live_at_start = static_cast<std::int32_t>(trace_.blocks.size());
  }

  void add(const HistoryEntry& entry) {
    if (entry.is_alloc) {
      // What is allocated over blocks in use tells that they were freed before, where the history has a hole.
      for (auto found = find_overlap(live_, entry.address, entry.block.bytes); found != live_.end();
           found = find_overlap(live_, entry.address, entry.block.bytes)) {
        free(found);
        ++lost_frees_;
      }
      trace_.events.push_back({.action = Action::alloc, .block = static_cast<std::int32_t>(trace_.blocks.size())});
      add_block(entry.address, entry.block);
    } else if (const auto found = live_.find(entry.address); found != live_.end()) {
      free(found);
    } else {
      ++lost_allocs_;
    }
  }

  [[nodiscard]] AllocationTrace take() {
    if (lost_frees_ > 0) trace_.notes.push_back(fmt::format("{} frees are missing from the history", lost_frees_));
    if (lost_allocs_ > 0)
      trace_.notes.push_back(fmt::format("{} allocations are missing from the history", lost_allocs_));
    return std::move(trace_);
  }

 private:
  using Action = AllocationTrace::Action;

  void add_block(std::uint64_t address, const LiveBlock& block) {
    live_.insert_or_assign(address, block);
    block_at_.insert_or_assign(address, static_cast<std::int32_t>(trace_.blocks.size()));
    trace_.blocks.push_back({.bytes = block.bytes, .stream = block.stream, .address = address});
  }
  void free(LiveBlocks::const_iterator found) {
    trace_.events.push_back({.action = Action::free, .block = block_at_.at(found->first)});
    live_.erase(found);
  }

  AllocationTrace trace_{.source = "snapshot"};
  LiveBlocks live_;
  std::map<std::uint64_t, std::int32_t> block_at_;  ///< the last one at each address
  std::int64_t lost_frees_ = 0, lost_allocs_ = 0;
};

AllocationTrace trace_of(LiveBlocks at_start, const std::vector<HistoryEntry>& entries) {
  const std::int64_t dropped = drop_overlapping(at_start);
  TraceBuilder builder(at_start);
  for (const HistoryEntry& entry : entries) builder.add(entry);
  AllocationTrace trace = builder.take();
  if (dropped > 0)
    trace.notes.push_back(fmt::format("{} blocks from before the history lie over others and are left out", dropped));
  return trace;
}

}  // namespace

Result<AllocationTrace> read_snapshot(std::string_view bytes, std::string_view file_name) {
  const Result<PickleDocument> document = read_pickle(bytes, file_name);
  if (!document) return document.error();
  const SnapshotFields fields(document.value(), file_name);
  const PickleId root = document.value().root();
  const auto histories = fields.list(root, "device_traces", "the snapshot");
  if (!histories) return histories.error();
  const auto entries_of = [&](std::size_t device) { return document.value().find_items((*histories.value())[device]); };
  std::size_t device = histories.value()->size();
  std::vector<std::string> unused_devices;
  for (std::size_t d = 0; d < histories.value()->size(); ++d) {
    const std::vector<PickleId>* entries = entries_of(d);
    if (entries == nullptr) return fields.wrong(fmt::format("device_traces[{}]", d), "it is no list");
    if (entries->empty()) continue;
    if (device < d) unused_devices.push_back(fmt::format("{}", d));
    device = std::min(device, d);
  }
  if (device == histories.value()->size())
    return fields.wrong("device_traces",
                        "no device has a history; record one with torch.cuda.memory._record_memory_history()");
  const Result<History> history = read_history(fields, *entries_of(device), device);
  if (!history) return history.error();
  Result<LiveBlocks> at_end = read_segments(fields, root, device);
  if (!at_end) return at_end.error();
  AllocationTrace trace = trace_of(rewind(history.value().entries, std::move(at_end).value()), history.value().entries);
  std::vector<std::string> notes;
  if (!unused_devices.empty())
    notes.push_back(fmt::format("devices {} are not used; device {} is", shown_some(unused_devices), device));
  if (!history.value().unknown.empty())
    notes.push_back(fmt::format("entries of actions {} are not used", shown_some(history.value().unknown)));
  if (history.value().backwards > 0)
    notes.push_back(fmt::format("{} entries are earlier than the entry before; their order in the file counts",
                                history.value().backwards));
  trace.notes.insert(trace.notes.begin(), notes.begin(), notes.end());
  return trace;
}

}  // namespace tidemark::formats
