#include "integrations/formats/export_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <map>
#include <string_view>

namespace tidemark::formats {
namespace {

/// Instructions of protocol 2. Texts are written once and fetched from the memo afterwards.
class PickleText {
 public:
  PickleText() { out_ = "\x80\x02"; }

  void open_list() { out_ += "]("; }
  void close_list() { out_ += 'e'; }
  void open_dict() { out_ += "}("; }
  void close_dict() { out_ += 'u'; }

  void text(std::string_view value) {
    const auto [found, is_new] = memo_.try_emplace(std::string(value), static_cast<std::uint32_t>(memo_.size()));
    if (is_new) {
      out_ += 'X';
      little_endian(static_cast<std::uint32_t>(value.size()), 4);
      out_ += value;
    }
    out_ += is_new ? 'r' : 'j';
    little_endian(found->second, 4);
  }

  /// As LONG1: any 64-bit number, with a byte of sign in front where an unsigned one needs it.
  template <std::integral Value>
  void number(Value value) {
    if constexpr (std::same_as<Value, bool>) {
      out_ += value ? '\x88' : '\x89';
    } else {
      const bool padded = std::unsigned_integral<Value> && static_cast<std::int64_t>(value) < 0;
      out_ += '\x8a';
      out_ += static_cast<char>(padded ? 9 : 8);
      little_endian(static_cast<std::uint64_t>(value), 8);
      if (padded) out_ += '\0';
    }
  }
  void zero_pair() { out_ += std::string_view("K\0K\0\x86", 5); }

  void field(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  template <std::integral Value>
  void field(std::string_view key, Value value) {
    text(key);
    number(value);
  }

  [[nodiscard]] std::string take() && { return std::move(out_) + '.'; }

 private:
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFFU);
  }

  std::string out_;
  std::map<std::string, std::uint32_t, std::less<>> memo_;
};

std::string_view state_name(allocator::SnapshotBlock::State state) {
  switch (state) {
    case allocator::SnapshotBlock::State::active_allocated:
      return "active_allocated";
    case allocator::SnapshotBlock::State::active_pending_free:
      return "active_pending_free";
    case allocator::SnapshotBlock::State::inactive:
      break;
  }
  return "inactive";
}

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const SnapshotExport& options) : options_(options) {}

  std::string write(const allocator::Snapshot& snapshot) && {
    pickle_.open_dict();
    pickle_.text("segments");
    pickle_.open_list();
    for (const allocator::SnapshotSegment& segment : snapshot.segments) write_segment(segment);
    pickle_.close_list();
    pickle_.text("device_traces");
    write_traces(snapshot);
    pickle_.text("allocator_settings");
    pickle_.open_dict();
    for (const auto& [name, value] : snapshot.settings) pickle_.field(name, value);
    pickle_.close_dict();
    pickle_.text("external_annotations");
    pickle_.open_list();
    pickle_.close_list();
    pickle_.close_dict();
    return std::move(pickle_).take();
  }

 private:
  void write_frames(std::uint32_t owner) {
    pickle_.text("frames");
    pickle_.open_list();
    if (owner != 0) {
      pickle_.open_dict();
      pickle_.field("name", options_.owner_name ? options_.owner_name(owner) : fmt::format("owner {}", owner));
      pickle_.field("filename", std::string_view("owner"));
      pickle_.field("line", owner);
      pickle_.close_dict();
    }
    pickle_.close_list();
  }

  void write_block(const allocator::SnapshotBlock& block) {
    pickle_.open_dict();
    pickle_.field("address", block.address);
    pickle_.field("size", block.size);
    pickle_.field("requested_size", block.requested_size);
    pickle_.field("state", state_name(block.state));
    pickle_.field("stream", static_cast<std::uint64_t>(block.stream));
    write_frames(block.owner);
    pickle_.close_dict();
  }

  void write_segment(const allocator::SnapshotSegment& segment) {
    pickle_.open_dict();
    pickle_.field("device", segment.device);
    pickle_.field("address", segment.address);
    pickle_.field("total_size", segment.total_size);
    pickle_.field("allocated_size", segment.allocated_size);
    pickle_.field("active_size", segment.active_size);
    pickle_.field("requested_size", segment.requested_size);
    pickle_.field("stream", static_cast<std::uint64_t>(segment.stream));
    pickle_.field("segment_type", std::string_view(segment.is_large ? "large" : "small"));
    pickle_.field("is_expandable", segment.is_expandable);
    pickle_.text("segment_pool_id");
    pickle_.zero_pair();
    write_frames(0);
    pickle_.text("blocks");
    pickle_.open_list();
    for (const allocator::SnapshotBlock& block : segment.blocks) write_block(block);
    pickle_.close_list();
    pickle_.close_dict();
  }

  void write_event(const allocator::TraceEvent& event) {
    constexpr std::int64_t kNsPerUs = 1000;
    pickle_.open_dict();
    pickle_.field("action", std::string_view(allocator::name_of(event.action)));
    pickle_.field("addr", event.address);
    pickle_.field("size", event.size);
    pickle_.field("stream", static_cast<std::uint64_t>(event.stream));
    pickle_.field("time_us", event.time_ns / kNsPerUs);
    if (event.action == allocator::TraceAction::oom) pickle_.field("device_free", event.device_free);
    write_frames(event.owner);
    pickle_.close_dict();
  }

  /// One history a device number; ours is the last, the ones before are empty.
  void write_traces(const allocator::Snapshot& snapshot) {
    const int device = snapshot.segments.empty() ? 0 : snapshot.segments.front().device;
    pickle_.open_list();
    for (int other = 0; other < device; ++other) {
      pickle_.open_list();
      pickle_.close_list();
    }
    pickle_.open_list();
    for (const allocator::TraceEvent& event : snapshot.trace) write_event(event);
    pickle_.close_list();
    pickle_.close_list();
  }

  const SnapshotExport& options_;
  PickleText pickle_;
};

}  // namespace

std::string snapshot_pickle(const allocator::Snapshot& snapshot, const SnapshotExport& options) {
  return SnapshotWriter(options).write(snapshot);
}

}  // namespace tidemark::formats
