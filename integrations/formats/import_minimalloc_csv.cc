#include "integrations/formats/import_minimalloc_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/interval_gaps.h"
#include "integrations/formats/name_index.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMostTime = std::int64_t{1} << 62;
constexpr Bytes kMostBytes = std::int64_t{1} << 50;
constexpr Bytes kMostAlignment = std::int64_t{1} << 40;
constexpr std::size_t kMostSuggested = 10'000;  // ids among which a near miss is looked for
constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

struct Columns {
  std::size_t id = kNoColumn, lower = kNoColumn, upper = kNoColumn, size = kNoColumn;
  std::size_t alignment = kNoColumn, gaps = kNoColumn, hint = kNoColumn, offset = kNoColumn;
  std::size_t fixed = kNoColumn, group = kNoColumn, apart = kNoColumn;
  std::string_view lower_name, upper_name;
  bool end_counts = false;  ///< `end` instead of `upper`
};

/// One thing that a column may say, under the names it is known by; the first is the one to suggest.
struct Meaning {
  std::array<std::string_view, 3> names;  ///< empty: no further one
  std::size_t Columns::*at = nullptr;
  bool required = false;
};

constexpr std::array kMeanings = {
    Meaning{.names = {"id", "buffer_id", "buffer"}, .at = &Columns::id, .required = true},
    Meaning{.names = {"lower", "start", "begin"}, .at = &Columns::lower, .required = true},
    Meaning{.names = {"upper", "end"}, .at = &Columns::upper, .required = true},
    Meaning{.names = {"size"}, .at = &Columns::size, .required = true},
    Meaning{.names = {"alignment"}, .at = &Columns::alignment},
    Meaning{.names = {"gaps"}, .at = &Columns::gaps},
    Meaning{.names = {"hint"}, .at = &Columns::hint},
    Meaning{.names = {"offset"}, .at = &Columns::offset},
    Meaning{.names = {"fixed"}, .at = &Columns::fixed},
    Meaning{.names = {"group"}, .at = &Columns::group},
    Meaning{.names = {"apart"}, .at = &Columns::apart},
};

/// The name that the header has for a meaning; empty: none. Errors: two names for one thing.
Result<std::string_view> name_in(const CsvTable& csv, const Meaning& meaning) {
  std::string_view found;
  for (const std::string_view name : meaning.names) {
    if (name.empty() || !csv.find(name)) continue;
    if (!found.empty())
      return csv.wrong(csv.header_line(),
                       fmt::format("columns {} and {} say the same; drop one", shown(found), shown(name)));
    found = name;
  }
  return found;
}

std::optional<std::string> note_of_unused(const CsvTable& csv) {
  std::set<std::string_view> known;
  for (const Meaning& meaning : kMeanings) known.insert(meaning.names.begin(), meaning.names.end());
  std::vector<std::string_view> unused;
  for (const std::string_view name : csv.header())
    if (!known.contains(name)) unused.push_back(name);
  if (unused.empty()) return std::nullopt;
  if (unused.size() == 1) return fmt::format("column {} is not used", shown(unused.front()));
  return fmt::format("columns {} are not used", shown_some(unused));
}

Result<Columns> find_columns(const CsvTable& csv) {
  Columns columns;
  for (const Meaning& meaning : kMeanings) {
    const Result<std::string_view> name = name_in(csv, meaning);
    if (!name) return name.error();
    if (name.value().empty() && !meaning.required) continue;
    const Result<std::size_t> found = csv.get(name.value().empty() ? meaning.names.front() : name.value());
    if (!found) return found.error();
    columns.*meaning.at = found.value();
  }
  columns.lower_name = csv.header()[columns.lower];
  columns.upper_name = csv.header()[columns.upper];
  columns.end_counts = columns.upper_name == "end";
  return columns;
}

/// Rows as they come, and what only all of them together can tell.
class Reader {
 public:
  Reader(const Columns& columns, IntervalTable& table) : columns_(columns), table_(table) {}

  Status add(const CsvRow& csv) {
    const std::string_view id = csv.fields[columns_.id];
    if (id.empty()) return bad_input("id is empty; every buffer has a name");
    IntervalTable::Row row{.id = std::string(id), .line = csv.line};
    if (Status status = read_life(csv, row); !status) return status;
    if (Status status = read_numbers(csv, row); !status) return status;
    if (Status status = read_links(csv, row); !status) return status;
    const NameIndex::Added added = ids_.add(id);
    if (!added.is_new)
      return bad_input(fmt::format("id {} is there twice, first in line {}", shown(id),
                                   table_.rows[static_cast<std::size_t>(added.number)].line));
    sum_ += row.bytes;
    if (sum_ > kMostTraceBytes) return bad_input("the sizes up to here add up to more than 2^60 bytes");
    table_.rows.push_back(std::move(row));
    return {};
  }

  /// Behind the last row: names may be of rows that follow.
  Status resolve_apart(const CsvTable& csv) {
    for (const auto& [row, name] : apart_) {
      const std::optional<std::int32_t> other = ids_.find(name);
      const int line = table_.rows[static_cast<std::size_t>(row)].line;
      if (!other) return csv.wrong(line, fmt::format("apart names {}, which is no id{}", shown(name), hint_for(name)));
      if (*other == row) return csv.wrong(line, fmt::format("apart names {}, the buffer itself", shown(name)));
      table_.apart.emplace_back(std::min(row, *other), std::max(row, *other));
    }
    std::ranges::sort(table_.apart);
    table_.apart.erase(std::unique(table_.apart.begin(), table_.apart.end()), table_.apart.end());
    return {};
  }

 private:
  Status read_life(const CsvRow& csv, IntervalTable::Row& row) const {
    const Result<std::int64_t> lower = read_whole(columns_.lower_name, csv.fields[columns_.lower], 0, kMostTime);
    if (!lower) return lower.error();
    const Result<std::int64_t> upper = read_whole(columns_.upper_name, csv.fields[columns_.upper], 0, kMostTime);
    if (!upper) return upper.error();
    row.lower = lower.value();
    row.upper = upper.value() + (columns_.end_counts ? 1 : 0);
    if (row.upper <= row.lower)
      return bad_input(fmt::format("{} is {}; it must be {} {}, {}", columns_.upper_name, upper.value(),
                                   columns_.end_counts ? "at least" : "above", columns_.lower_name, lower.value()));
    return {};
  }

  /// A number where there is one: a column that is not there or an empty field leaves `value` as it is.
  template <class Value>
  static Status read_number(const CsvRow& csv, std::string_view name, std::size_t column, std::int64_t least,
                            std::int64_t most, Value& value) {
    if (column == kNoColumn || csv.fields[column].empty()) return {};
    const Result<std::int64_t> number = read_whole(name, csv.fields[column], least, most);
    if (!number) return number.error();
    value = number.value();
    return {};
  }

  Status read_numbers(const CsvRow& csv, IntervalTable::Row& row) const {
    const Result<std::int64_t> bytes = read_whole("size", csv.fields[columns_.size], 1, kMostBytes);
    if (!bytes) return bytes.error();
    row.bytes = bytes.value();
    Status status = read_number(csv, "alignment", columns_.alignment, 1, kMostAlignment, row.alignment_bytes);
    if (status) status = read_number(csv, "hint", columns_.hint, 0, kMostBytes, row.hint);
    if (status) status = read_number(csv, "offset", columns_.offset, 0, kMostBytes, row.offset);
    if (status) status = read_number(csv, "fixed", columns_.fixed, 0, kMostBytes, row.fixed);
    return status;
  }

  /// What ties the row to others, and its gaps.
  Status read_links(const CsvRow& csv, IntervalTable::Row& row) {
    const auto number = static_cast<std::int32_t>(table_.rows.size());
    if (columns_.group != kNoColumn && !csv.fields[columns_.group].empty()) {
      const std::string_view name = csv.fields[columns_.group];
      const NameIndex::Added added = groups_.add(name);
      row.group = added.number;
      if (added.is_new) table_.groups.emplace_back(name);
    }
    if (columns_.apart != kNoColumn) split_apart(csv.fields[columns_.apart], number);
    if (columns_.gaps == kNoColumn || csv.fields[columns_.gaps].empty()) return {};
    const GapPlace place{.lower = row.lower, .upper = row.upper, .bytes = row.bytes, .end_counts = columns_.end_counts};
    const std::size_t first = table_.gaps.size();
    if (Status status = read_gaps(csv.fields[columns_.gaps], place, table_.gaps); !status) return status;
    for (std::size_t i = first; i < table_.gaps.size(); ++i) table_.gaps[i].row = number;
    return {};
  }

  void split_apart(std::string_view names, std::int32_t row) {
    for (;;) {
      names.remove_prefix(std::min(names.find_first_not_of(" \t"), names.size()));
      if (names.empty()) return;
      const std::string_view name = names.substr(0, names.find_first_of(" \t"));
      apart_.emplace_back(row, name);
      names.remove_prefix(name.size());
    }
  }

  [[nodiscard]] std::string hint_for(std::string_view name) const {
    if (table_.rows.size() > kMostSuggested) return "";
    std::vector<std::string> ids;
    for (const IntervalTable::Row& row : table_.rows) ids.push_back(row.id);
    const std::optional<std::string> near = find_near_miss(name, ids);
    return near ? fmt::format("; is it {}?", shown(*near)) : "";
  }

  const Columns& columns_;
  IntervalTable& table_;
  NameIndex ids_, groups_;  // numbers are those of rows and groups
  std::vector<std::pair<std::int32_t, std::string_view>> apart_;
  Bytes sum_ = 0;
};

}  // namespace

Result<IntervalTable> read_minimalloc_csv(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<Columns> columns = find_columns(csv.value());
  if (!columns) return columns.error();
  IntervalTable table;
  if (std::optional<std::string> note = note_of_unused(csv.value())) table.notes.push_back(std::move(*note));
  Reader reader(columns.value(), table);
  if (Status status = csv.value().for_each([&](const CsvRow& row) { return reader.add(row); }); !status)
    return status.error();
  if (Status status = reader.resolve_apart(csv.value()); !status) return status.error();
  return table;
}

std::vector<IntervalStay> stays_of(const IntervalTable& table) {
  std::vector<IntervalStay> stays;
  stays.reserve(table.rows.size() + 2 * table.gaps.size());
  auto gap = table.gaps.begin();
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const IntervalTable::Row& row = table.rows[r];
    const auto number = static_cast<std::int32_t>(r);
    std::int64_t time = row.lower;
    for (; gap != table.gaps.end() && gap->row == number; ++gap) {
      if (time < gap->lower) stays.push_back({.row = number, .begin = time, .end = gap->lower, .bytes = row.bytes});
      if (gap->window_begin < gap->window_end)
        stays.push_back({.row = number,
                         .begin = gap->lower,
                         .end = gap->upper,
                         .shift = gap->window_begin,
                         .bytes = gap->window_end - gap->window_begin});
      time = gap->upper;
    }
    if (time < row.upper) stays.push_back({.row = number, .begin = time, .end = row.upper, .bytes = row.bytes});
  }
  return stays;
}

namespace {

void note_what_is_not_asked(const IntervalTable& table, std::vector<std::string>& notes) {
  const auto windows = std::ranges::count_if(
      table.gaps, [](const IntervalTable::Gap& gap) { return gap.window_begin < gap.window_end; });
  const auto placed =
      std::ranges::count_if(table.rows, [](const IntervalTable::Row& row) { return row.fixed || row.offset; });
  if (windows > 0) notes.push_back(fmt::format("{} gaps keep a window, which is replayed as a block", windows));
  if (!table.groups.empty())
    notes.push_back(fmt::format("{} groups are replayed as blocks of their own", table.groups.size()));
  if (!table.apart.empty()) notes.push_back(fmt::format("{} pairs kept apart are not replayed", table.apart.size()));
  if (placed > 0) notes.push_back(fmt::format("{} addresses are not replayed", placed));
}

}  // namespace

AllocationTrace trace_of(const IntervalTable& table) {
  struct Moment {
    std::int64_t time = 0;
    bool is_alloc = false;  // false first
    std::size_t stay = 0;
    auto key() const { return std::tuple(time, is_alloc, stay); }
  };
  const std::vector<IntervalStay> stays = stays_of(table);
  std::vector<Moment> moments;
  moments.reserve(2 * stays.size());
  for (std::size_t stay = 0; stay < stays.size(); ++stay) {
    moments.push_back({.time = stays[stay].begin, .is_alloc = true, .stay = stay});
    moments.push_back({.time = stays[stay].end, .is_alloc = false, .stay = stay});
  }
  std::ranges::sort(moments, {}, &Moment::key);
  AllocationTrace trace{.source = "minimalloc", .notes = table.notes};
  note_what_is_not_asked(table, trace.notes);
  std::vector<std::int32_t> block_of(stays.size());
  for (const Moment& moment : moments) {
    if (moment.is_alloc) {
      block_of[moment.stay] = static_cast<std::int32_t>(trace.blocks.size());
      trace.blocks.push_back({.bytes = stays[moment.stay].bytes});
    }
    trace.events.push_back({.action = moment.is_alloc ? AllocationTrace::Action::alloc : AllocationTrace::Action::free,
                            .block = block_of[moment.stay]});
  }
  return trace;
}

}  // namespace tidemark::formats
