#include "integrations/formats/import_rmm_log.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr Bytes kMostBlockBytes = std::int64_t{1} << 50;

struct Line {
  bool is_alloc = false;
  AllocationTrace::Block block;
};

/// Lines with blocks numbered by birth; blocks of the start get their numbers when their end is met.
class LogReader {
 public:
  Status add(const Line& line) {
    const std::uint64_t address = *line.block.address;
    sum_ += line.block.bytes;
    if (sum_ > kMostTraceBytes) return bad_input("the sizes up to here add up to more than 2^60 bytes");
    const auto found = block_at_.find(address);
    if (line.is_alloc) {
      if (Status status = check_vacant(address, line.block.bytes); !status) return status;
      block_at_[address] = born_.size();
      events_.push_back({.is_alloc = true, .row = born_.size()});
      born_.push_back(line.block);
    } else if (found != block_at_.end()) {
      if (born_[found->second].bytes != line.block.bytes) ++other_sizes_;
      events_.push_back({.is_alloc = false, .row = found->second});
      block_at_.erase(found);
    } else {
      events_.push_back({.is_alloc = false, .at_start = true, .row = at_start_.size()});
      at_start_.push_back(line.block);
    }
    return {};
  }

  /// Frees that state another size than the allocation did.
  [[nodiscard]] std::int64_t other_sizes() const { return other_sizes_; }

  [[nodiscard]] AllocationTrace trace() const {
    AllocationTrace trace{.source = "rmm_log", .blocks = at_start_};
    trace.live_at_start = static_cast<std::int32_t>(at_start_.size());
    trace.blocks.insert(trace.blocks.end(), born_.begin(), born_.end());
    for (const Event& event : events_)
      trace.events.push_back({.action = event.is_alloc ? AllocationTrace::Action::alloc : AllocationTrace::Action::free,
                              .block = static_cast<std::int32_t>(event.row + (event.at_start ? 0 : at_start_.size()))});
    return trace;
  }

 private:
  /// No live block may lie within [address, address + bytes).
  [[nodiscard]] Status check_vacant(std::uint64_t address, Bytes bytes) const {
    const auto behind = block_at_.lower_bound(address);
    if (behind != block_at_.end() && behind->first == address)
      return bad_input(fmt::format("pointer 0x{:x} is allocated while it is in use; a free is missing", address));
    if (behind != block_at_.end() && behind->first - address < static_cast<std::uint64_t>(bytes))
      return bad_input(overlap(address, behind->first));
    if (behind == block_at_.begin()) return {};
    const auto& [before, row] = *std::prev(behind);
    if (address - before < static_cast<std::uint64_t>(born_[row].bytes)) return bad_input(overlap(address, before));
    return {};
  }
  [[nodiscard]] static std::string overlap(std::uint64_t address, std::uint64_t other) {
    return fmt::format("the block at 0x{:x} lies over the one at 0x{:x}, which is in use; a free is missing", address,
                       other);
  }

  struct Event {
    bool is_alloc = false;
    bool at_start = false;
    std::size_t row = 0;  ///< of at_start_ or born_
  };
  std::vector<AllocationTrace::Block> at_start_, born_;
  std::vector<Event> events_;
  std::map<std::uint64_t, std::size_t> block_at_;
  Bytes sum_ = 0;
  std::int64_t other_sizes_ = 0;
};

struct Columns {
  std::size_t action = 0, pointer = 0, size = 0, stream = 0;
  std::optional<std::size_t> time;
};

/// Counts lines whose time, of a fixed width as the logger writes it, is before that of the line above. Order is that
/// of the lines all the same: midnight passes, and threads may overtake each other on the way to the log.
class Clock {
 public:
  void see(std::string_view time) {
    if (time.size() == last_.size() && time < last_) ++backwards_;
    last_ = time;
  }
  [[nodiscard]] std::int64_t backwards() const { return backwards_; }

 private:
  std::string_view last_;
  std::int64_t backwards_ = 0;
};

Result<Columns> find_columns(const CsvTable& csv) {
  Columns columns;
  const std::pair<std::string_view, std::size_t*> wanted[] = {
      {"Action", &columns.action}, {"Pointer", &columns.pointer}, {"Size", &columns.size}, {"Stream", &columns.stream}};
  for (const auto& [name, column] : wanted) {
    const Result<std::size_t> found = csv.get(name);
    if (!found) return found.error();
    *column = found.value();
  }
  columns.time = csv.find("Time");
  return columns;
}

Result<AllocationTrace::Block> read_block(const CsvRow& csv, const Columns& columns) {
  const Result<std::int64_t> pointer = read_whole("Pointer", csv.fields[columns.pointer], 0, kMost);
  if (!pointer) return pointer.error();
  const Result<std::int64_t> bytes = read_whole("Size", csv.fields[columns.size], 0, kMostBlockBytes);
  if (!bytes) return bytes.error();
  const Result<std::int64_t> stream = read_whole("Stream", csv.fields[columns.stream], 0, kMost);
  if (!stream) return stream.error();
  return AllocationTrace::Block{.bytes = bytes.value(),
                                .stream = static_cast<std::uint64_t>(stream.value()),
                                .address = static_cast<std::uint64_t>(pointer.value())};
}

}  // namespace

Result<AllocationTrace> read_rmm_log(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<Columns> columns = find_columns(csv.value());
  if (!columns) return columns.error();
  LogReader reader;
  Clock clock;
  std::int64_t unused = 0;
  const Status status = csv.value().for_each([&](const CsvRow& line) -> Status {
    const std::string_view action = line.fields[columns.value().action];
    if (columns.value().time) clock.see(line.fields[*columns.value().time]);
    if (action != "allocate" && action != "free") {
      ++unused;
      return {};
    }
    const Result<AllocationTrace::Block> block = read_block(line, columns.value());
    if (!block) return block.error();
    if (block.value().bytes == 0) return {};
    return reader.add({.is_alloc = action == "allocate", .block = block.value()});
  });
  if (!status) return status.error();
  AllocationTrace trace = reader.trace();
  if (clock.backwards() > 0)
    trace.notes.push_back(
        fmt::format("{} lines are earlier than the line before; the order of the lines counts", clock.backwards()));
  if (reader.other_sizes() > 0)
    trace.notes.push_back(
        fmt::format("{} frees state another size than their allocation, which counts", reader.other_sizes()));
  if (unused > 0) trace.notes.push_back(fmt::format("{} lines are neither allocate nor free", unused));
  return trace;
}

}  // namespace tidemark::formats
