#include "integrations/formats/import_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "integrations/formats/pickle_reader.h"
#include "integrations/formats/shown.h"

namespace tidemark {
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
    if (state.value() == "active_allocated" && bytes.value() > 0 &&
        !live.emplace(address, LiveBlock{.bytes = bytes.value(), .stream = fields.stream(segment)}).second)
      return fields.wrong(block_place, fmt::format("address {} is in use twice", address));
    address += static_cast<std::uint64_t>(bytes.value());
  }
  return {};
}

/// The blocks in use at the end of the history of `device`.
Result<LiveBlocks> read_segments(const SnapshotFields& fields, PickleId root, std::uint64_t device) {
  const auto segments = fields.list(root, "segments", "the snapshot");
  if (!segments) return segments.error();
  LiveBlocks live;
  for (std::size_t i = 0; i < segments.value()->size(); ++i) {
    const PickleId segment = (*segments.value())[i];
    const std::string place = fmt::format("segments[{}]", i);
    const Result<std::uint64_t> owner = fields.number(segment, "device", place);
    if (!owner) return owner.error();
    if (owner.value() != device) continue;
    if (Status status = add_segment(fields, segment, place, live); !status) return status.error();
  }
  return live;
}

struct History {
  std::vector<HistoryEntry> entries;
  std::set<std::string, std::less<>> unknown;  ///< actions
};

Result<History> read_history(const SnapshotFields& fields, const std::vector<PickleId>& entries, std::size_t device) {
  constexpr std::array<std::string_view, 7> kOfNoConcern = {
      "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom"};
  History history;
  Bytes sum = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string place = fmt::format("device_traces[{}][{}]", device, i);
    const Result<std::string_view> action = fields.text(entries[i], "action", place);
    if (!action) return action.error();
    const bool is_alloc = action.value() == "alloc";
    if (!is_alloc && action.value() != "free_requested") {
      if (std::ranges::find(kOfNoConcern, action.value()) == kOfNoConcern.end())
        history.unknown.emplace(shown(action.value()));
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

AllocationTrace trace_of(const LiveBlocks& at_start, const std::vector<HistoryEntry>& entries) {
  AllocationTrace trace{.source = "snapshot"};
  std::map<std::uint64_t, std::int32_t> block_at;
  const auto add_block = [&](std::uint64_t address, const LiveBlock& block) {
    block_at.insert_or_assign(address, static_cast<std::int32_t>(trace.blocks.size()));
    trace.blocks.push_back({.bytes = block.bytes, .stream = block.stream, .address = address});
  };
  for (const auto& [address, block] : at_start) add_block(address, block);
  trace.live_at_start = static_cast<std::int32_t>(trace.blocks.size());
  std::int64_t lost_frees = 0, lost_allocs = 0;
  for (const HistoryEntry& entry : entries) {
    const auto found = block_at.find(entry.address);
    // An address that is allocated while it is in use was freed in between, where the history has a hole.
    if (found != block_at.end()) {
      trace.events.push_back({.action = AllocationTrace::Action::free, .block = found->second});
      block_at.erase(found);
      if (entry.is_alloc) ++lost_frees;
    } else if (!entry.is_alloc) {
      ++lost_allocs;
    }
    if (!entry.is_alloc) continue;
    trace.events.push_back(
        {.action = AllocationTrace::Action::alloc, .block = static_cast<std::int32_t>(trace.blocks.size())});
    add_block(entry.address, entry.block);
  }
  if (lost_frees > 0) trace.notes.push_back(fmt::format("{} frees are missing from the history", lost_frees));
  if (lost_allocs > 0) trace.notes.push_back(fmt::format("{} allocations are missing from the history", lost_allocs));
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
  std::vector<std::string> notes;
  for (std::size_t d = 0; d < histories.value()->size(); ++d) {
    const std::vector<PickleId>* entries = entries_of(d);
    if (entries == nullptr) return fields.wrong(fmt::format("device_traces[{}]", d), "it is no list");
    if (entries->empty()) continue;
    if (device < d) notes.push_back(fmt::format("device {} is not used; device {} is", d, device));
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
  for (const std::string& action : history.value().unknown)
    notes.push_back(fmt::format("entries of action {} are not used", action));
  trace.notes.insert(trace.notes.begin(), notes.begin(), notes.end());
  return trace;
}

}  // namespace tidemark
