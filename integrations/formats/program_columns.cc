#include "integrations/formats/program_columns.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/verify_parts.h"
#include "integrations/formats/field_visitors.h"
#include "integrations/formats/int_column.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostBytes = kMostPlanBytes;

enum class Scaled : bool { no, yes };

// Bits of the column `full`.
constexpr std::int64_t kFullBefore = 1, kFullBehind = 2;

// One column of `count` rows; get(row) gives the value.
template <class Get>
void column(JsonText& json, std::string_view name, std::size_t count, Coding coding, Get get,
            Scaled scaled = Scaled::no) {
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int64_t>(get(i));
  json.line();
  json.key(name);
  append_column(json.raw(), values, coding, scaled == Scaled::yes);
}

// `first` of the next row, less that of this one.
template <class Member>
std::int64_t rows_of(const std::vector<Task>& tasks, std::size_t t, Member first, std::size_t all) {
  const std::int64_t end = t + 1 < tasks.size() ? tasks[t + 1].*first : static_cast<std::int64_t>(all);
  return end - tasks[t].*first;
}

void write_tasks(JsonText& json, const Schedule& s) {
  const auto& tasks = s.tasks;
  const std::size_t count = tasks.size();
  json.key("tasks");
  json.open_object();
  column(json, "kind", count, Coding::plain, [&](std::size_t t) { return tasks[t].kind; });
  column(json, "lane", count, Coding::plain, [&](std::size_t t) { return tasks[t].lane; });
  column(json, "op_template", count, Coding::plain, [&](std::size_t t) { return tasks[t].op_template; });
  column(json, "site", count, Coding::delta, [&](std::size_t t) { return tasks[t].site; });
  column(json, "op", count, Coding::delta, [&](std::size_t t) { return tasks[t].op; });
  column(json, "waits", count, Coding::plain,
         [&](std::size_t t) { return rows_of(tasks, t, &Task::first_wait, s.waits.size()); });
  column(json, "touches", count, Coding::plain,
         [&](std::size_t t) { return rows_of(tasks, t, &Task::first_touch, s.touches.size()); });
  std::vector<std::size_t> copies;
  for (std::size_t t = 0; t < count; ++t) {
    if (tasks[t].storage != kNone<StorageId>) copies.push_back(t);
  }
  column(json, "copy_task", copies.size(), Coding::delta, [&](std::size_t i) { return copies[i]; });
  column(json, "copy_storage", copies.size(), Coding::delta, [&](std::size_t i) { return tasks[copies[i]].storage; });
  json.close_object();
}

// Waits as distances back from the task that waits: these repeat where task numbers never do.
void write_waits(JsonText& json, const Schedule& s) {
  std::vector<std::int64_t> back;
  back.reserve(s.waits.size());
  for (std::size_t t = 0; t < s.tasks.size(); ++t) {
    for (const TaskId wait : s.waits_of(id_of<TaskId>(t))) {
      back.push_back(static_cast<std::int64_t>(t) - static_cast<std::int32_t>(wait));
    }
  }
  column(json, "wait_back", back.size(), Coding::plain, [&](std::size_t i) { return back[i]; });
}

void write_residencies(JsonText& json, const Program& program) {
  const auto& rows = program.schedule.residencies;
  const Layout& layout = program.layout;
  const std::size_t count = rows.size();
  json.line();
  json.key("residencies");
  json.open_object();
  column(json, "storage", count, Coding::delta, [&](std::size_t r) { return rows[r].storage; });
  column(json, "space", count, Coding::plain, [&](std::size_t r) { return rows[r].space; });
  column(
      json, "bytes", count, Coding::plain, [&](std::size_t r) { return rows[r].bytes; }, Scaled::yes);
  column(json, "first_task", count, Coding::delta, [&](std::size_t r) { return rows[r].first_task; });
  column(json, "last_task_after", count, Coding::plain, [&](std::size_t r) {
    return static_cast<std::int64_t>(rows[r].last_task) - static_cast<std::int64_t>(rows[r].first_task);
  });
  column(json, "acquire", count, Coding::delta, [&](std::size_t r) { return rows[r].acquire; });
  column(json, "release_after", count, Coding::plain,
         [&](std::size_t r) { return std::int64_t{rows[r].release} - rows[r].acquire; });
  column(json, "full", count, Coding::plain, [&](std::size_t r) {
    return (rows[r].full_before ? kFullBefore : 0) | (rows[r].full_behind ? kFullBehind : 0);
  });
  column(json, "arena", count, Coding::plain, [&](std::size_t r) { return layout.arena_of[r]; });
  column(
      json, "offset", count, Coding::recall, [&](std::size_t r) { return layout.offset_of[r]; }, Scaled::yes);
  json.close_object();
}

void write_routed(JsonText& json, const std::vector<RoutedResidency>& rows) {
  const std::size_t count = rows.size();
  json.line();
  json.key("routed");
  json.open_object();
  column(json, "residency", count, Coding::delta, [&](std::size_t i) { return rows[i].residency; });
  column(json, "site", count, Coding::delta, [&](std::size_t i) { return rows[i].site; });
  column(
      json, "fixed_bytes", count, Coding::plain, [&](std::size_t i) { return rows[i].fixed_bytes; }, Scaled::yes);
  column(json, "rows", count, Coding::plain, [&](std::size_t i) { return rows[i].rows; });
  column(
      json, "row_bytes", count, Coding::plain, [&](std::size_t i) { return rows[i].row_bytes; }, Scaled::yes);
  column(json, "rows_of", count, Coding::plain, [&](std::size_t i) { return rows[i].rows_of; });
  json.close_object();
}

void write_sends(JsonText& json, const std::vector<SendEvent>& rows) {
  const std::size_t count = rows.size();
  json.line();
  json.key("sends");
  json.open_object();
  column(json, "task", count, Coding::delta, [&](std::size_t i) { return rows[i].task; });
  column(json, "peer_rank", count, Coding::plain, [&](std::size_t i) { return rows[i].peer_rank; });
  column(json, "tag", count, Coding::delta, [&](std::size_t i) { return rows[i].tag; });
  json.close_object();
}

void write_receives(JsonText& json, const std::vector<ReceiveEvent>& rows) {
  const std::size_t count = rows.size();
  json.line();
  json.key("receives");
  json.open_object();
  column(json, "task", count, Coding::delta, [&](std::size_t i) { return rows[i].task; });
  column(json, "peer_rank", count, Coding::plain, [&](std::size_t i) { return rows[i].peer_rank; });
  column(json, "tag", count, Coding::delta, [&](std::size_t i) { return rows[i].tag; });
  column(json, "arrival_estimate_ns", count, Coding::delta, [&](std::size_t i) { return rows[i].arrival_estimate_ns; });
  json.close_object();
}

std::string hexadecimal(std::uint64_t value) {
  return fmt::format("{:#018x}", value);
}

std::uint64_t read_hexadecimal(const JsonNode& node) {
  const std::string text = node.text();
  std::uint64_t value = 0;
  const bool shaped =
      text.size() == 18 && text.starts_with("0x") && text.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
  if (!shaped) {
    node.wrong("must be 0x and 16 hexadecimal digits");
    return 0;
  }
  for (const char c : text.substr(2))
    value = value * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  return value;
}

// A column of ids into `size` rows, or -1.
template <class Id>
std::vector<Id> ids(const JsonNode& node, std::size_t count, std::int64_t size) {
  const auto values = node.column(count, -1, size - 1);
  std::vector<Id> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result[i] = static_cast<Id>(static_cast<std::int32_t>(values[i]));
  return result;
}

// A column of ids into `size` rows, ascending.
template <class Id>
std::vector<Id> ascending_ids(const JsonNode& node, std::int64_t size) {
  const auto values = node.column(JsonNode::kAnyCount, 0, size - 1);
  const auto falls = std::ranges::adjacent_find(values, std::greater_equal<>());
  if (falls != values.end())
    node.wrong(fmt::format("row {} must be above the {} before it", falls - values.begin() + 1, *falls));
  std::vector<Id> result;
  result.reserve(values.size());
  for (const std::int64_t value : values) result.push_back(id_of<Id>(static_cast<std::size_t>(value)));
  return result;
}

// Sets `member` of every row from a column.
template <class Rows, class Member>
void fill(const JsonNode& node, std::int64_t least, std::int64_t most, Rows& rows, Member member) {
  const auto values = node.column(rows.size(), least, most);
  using Value = std::remove_reference_t<decltype(rows.front().*member)>;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (RowId<Value>) {
      rows[i].*member = static_cast<Value>(static_cast<std::int32_t>(values[i]));
    } else {
      rows[i].*member = static_cast<Value>(values[i]);
    }
  }
}

// Row counts to row pointers; returns how many rows there are in all.
template <class Member>
std::size_t point(const JsonNode& node, std::vector<Task>& tasks, Member first) {
  const auto counts = node.column(tasks.size(), 0, kMost);
  std::int64_t at = 0;
  for (std::size_t t = 0; t < counts.size(); ++t) {
    tasks[t].*first = static_cast<std::int32_t>(at);
    at += counts[t];
    if (at > kMost) {
      node.wrong("counts more than 2^31 rows");
      return 0;
    }
  }
  return static_cast<std::size_t>(at);
}

void read_tasks(const JsonNode& node, const GraphOutline& outline, Schedule& s, std::size_t& waits,
                std::size_t& touches) {
  auto& tasks = s.tasks;
  tasks.resize(node.at("kind").column(JsonNode::kAnyCount, 0, std::int64_t{kTaskWords.size()} - 1).size());
  fill(node.at("kind"), 0, std::int64_t{kTaskWords.size()} - 1, tasks, &Task::kind);
  fill(node.at("lane"), 0, std::int64_t{kLaneCount} - 1, tasks, &Task::lane);
  fill(node.at("op_template"), -1, static_cast<std::int64_t>(outline.op_templates.size()) - 1, tasks,
       &Task::op_template);
  fill(node.at("site"), -1, static_cast<std::int64_t>(outline.sites.size()) - 1, tasks, &Task::site);
  fill(node.at("op"), -1, kMost, tasks, &Task::op);
  waits = point(node.at("waits"), tasks, &Task::first_wait);
  touches = point(node.at("touches"), tasks, &Task::first_touch);
  const auto copies = node.at("copy_task").column(JsonNode::kAnyCount, 0, static_cast<std::int64_t>(tasks.size()) - 1);
  const auto storages = ids<StorageId>(node.at("copy_storage"), copies.size(), outline.storage_count);
  for (std::size_t i = 0; i < storages.size(); ++i) tasks[static_cast<std::size_t>(copies[i])].storage = storages[i];
}

void read_waits(const JsonNode& node, Schedule& s, std::size_t count) {
  const auto back = node.column(count, 1, kMost);
  if (!node.clean()) return;
  s.waits.resize(count);
  for (std::size_t t = 0; t < s.tasks.size(); ++t) {
    const std::size_t end = t + 1 < s.tasks.size() ? static_cast<std::size_t>(s.tasks[t + 1].first_wait) : count;
    for (auto w = static_cast<std::size_t>(s.tasks[t].first_wait); w < end; ++w) {
      if (back[w] > static_cast<std::int64_t>(t)) {
        node.wrong(fmt::format("row {} waits {} tasks before task {}", w, back[w], t));
        return;
      }
      s.waits[w] = id_of<TaskId>(t - static_cast<std::size_t>(back[w]));
    }
  }
}

// Sums of two columns that must stay within an int32.
void read_last(const JsonNode& node, std::vector<Residency>& rows, std::int64_t tasks) {
  const auto after = node.column(rows.size(), 0, kMost);
  for (std::size_t r = 0; r < after.size(); ++r) {
    const std::int64_t last = static_cast<std::int64_t>(rows[r].first_task) + after[r];
    if (last >= tasks) {
      node.wrong(fmt::format("row {} ends at task {} of {}", r, last, tasks));
      return;
    }
    rows[r].last_task = static_cast<TaskId>(static_cast<std::int32_t>(last));
  }
}

void read_release(const JsonNode& node, std::vector<Residency>& rows) {
  const auto after = node.column(rows.size(), -kMost, kMost);
  for (std::size_t r = 0; r < after.size(); ++r) {
    const std::int64_t release = rows[r].acquire + after[r];
    if (release < 0 || release > kMost) {
      node.wrong(fmt::format("row {} is released at {}", r, release));
      return;
    }
    rows[r].release = static_cast<std::int32_t>(release);
  }
}

// Every stay lies below the height of its arena; whether stays overlap is for core/verify.
void check_places(const JsonNode& node, const Program& program) {
  if (!node.clean()) return;
  const Layout& layout = program.layout;
  for (std::size_t r = 0; r < layout.arena_of.size(); ++r) {
    if (layout.arena_of[r] == kNone<ArenaId>) continue;
    const Arena& arena = layout.arenas[row(layout.arena_of[r])];
    const Bytes end = layout.offset_of[r] + program.schedule.residencies[r].bytes;
    if (end <= arena.height_bytes) continue;
    node.at("offset").wrong(fmt::format("row {} ends at byte {}, beyond the {} of its arena {}", r, end,
                                        arena.height_bytes, row(layout.arena_of[r])));
    return;
  }
}

void read_residencies(const JsonNode& node, const GraphOutline& outline, Program& program) {
  auto& rows = program.schedule.residencies;
  const auto tasks = static_cast<std::int64_t>(program.schedule.tasks.size());
  rows.resize(node.at("storage").column(JsonNode::kAnyCount, 0, std::int64_t{outline.storage_count} - 1).size());
  fill(node.at("storage"), 0, std::int64_t{outline.storage_count} - 1, rows, &Residency::storage);
  fill(node.at("space"), 0, 1, rows, &Residency::space);
  fill(node.at("bytes"), 0, kMostBytes, rows, &Residency::bytes);
  fill(node.at("first_task"), -1, tasks - 1, rows, &Residency::first_task);
  read_last(node.at("last_task_after"), rows, tasks);
  fill(node.at("acquire"), 0, kMost, rows, &Residency::acquire);
  read_release(node.at("release_after"), rows);
  const auto full = node.at("full").column(rows.size(), 0, kFullBefore | kFullBehind);
  for (std::size_t r = 0; r < full.size(); ++r) {
    rows[r].full_before = (full[r] & kFullBefore) != 0;
    rows[r].full_behind = (full[r] & kFullBehind) != 0;
  }
  program.layout.arena_of =
      ids<ArenaId>(node.at("arena"), rows.size(), static_cast<std::int64_t>(program.layout.arenas.size()));
  program.layout.offset_of = node.at("offset").column(rows.size(), 0, kMostBytes);
  check_places(node, program);
}

void read_routed(const JsonNode& node, const GraphOutline& outline, Program& program) {
  auto& rows = program.routed;
  const auto residencies = static_cast<std::int64_t>(program.schedule.residencies.size());
  rows.resize(node.at("residency").column(JsonNode::kAnyCount, 0, residencies - 1).size());
  fill(node.at("residency"), 0, residencies - 1, rows, &RoutedResidency::residency);
  fill(node.at("site"), 0, static_cast<std::int64_t>(outline.sites.size()) - 1, rows, &RoutedResidency::site);
  fill(node.at("fixed_bytes"), 0, kMostBytes, rows, &RoutedResidency::fixed_bytes);
  fill(node.at("rows"), 0, kMost, rows, &RoutedResidency::rows);
  fill(node.at("row_bytes"), 0, kMost, rows, &RoutedResidency::row_bytes);
  fill(node.at("rows_of"), 0, 1, rows, &RoutedResidency::rows_of);
}

void read_sends(const JsonNode& node, Program& program) {
  auto& rows = program.sends;
  const auto tasks = static_cast<std::int64_t>(program.schedule.tasks.size());
  rows.resize(node.at("task").column(JsonNode::kAnyCount, 0, tasks - 1).size());
  fill(node.at("task"), 0, tasks - 1, rows, &SendEvent::task);
  fill(node.at("peer_rank"), 0, kMost, rows, &SendEvent::peer_rank);
  fill(node.at("tag"), std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), rows,
       &SendEvent::tag);
}

void read_receives(const JsonNode& node, Program& program) {
  auto& rows = program.receives;
  const auto tasks = static_cast<std::int64_t>(program.schedule.tasks.size());
  rows.resize(node.at("task").column(JsonNode::kAnyCount, -1, tasks - 1).size());
  fill(node.at("task"), -1, tasks - 1, rows, &ReceiveEvent::task);
  fill(node.at("peer_rank"), 0, kMost, rows, &ReceiveEvent::peer_rank);
  fill(node.at("tag"), std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), rows,
       &ReceiveEvent::tag);
  fill(node.at("arrival_estimate_ns"), 0, kMostStepNs, rows, &ReceiveEvent::arrival_estimate_ns);
}

void write_arenas(JsonText& json, const Layout& layout) {
  json.line();
  json.key("arenas");
  json.open_list();
  for (const Arena& arena : layout.arenas) write_object(json, arena);
  json.close_list();
}

}  // namespace

void write_program(JsonText& json, const Program& program) {
  const Schedule& s = program.schedule;
  json.open_object();
  json.key("graph_fingerprint");
  json.value(hexadecimal(program.graph_fingerprint));
  json.key("machine_fingerprint");
  json.value(hexadecimal(program.machine_fingerprint));
  json.key("rank");
  json.value(s.rank);
  json.key("compute_tasks");
  json.value(s.compute_tasks);
  json.key("packer");
  json.value(program.layout.packer);
  json.key("device_load_bytes");
  json.value(program.layout.device_load_bytes);
  write_arenas(json, program.layout);
  json.line();
  write_tasks(json, s);
  write_waits(json, s);
  column(json, "touch_residency", s.touches.size(), Coding::recall,
         [&](std::size_t i) { return s.touches[i].residency; });
  column(json, "touch_kind", s.touches.size(), Coding::plain, [&](std::size_t i) { return s.touches[i].kind; });
  write_residencies(json, program);
  const auto& estimates = program.estimate_ns;
  column(json, "estimate_ns", estimates.size(), Coding::plain, [&](std::size_t t) { return estimates[t]; });
  write_sends(json, program.sends);
  write_receives(json, program.receives);
  write_routed(json, program.routed);
  const auto& slots = program.routing_slots;
  column(json, "routing_slots", slots.size(), Coding::delta, [&](std::size_t i) { return slots[i]; });
  const auto& ends = program.section_ends;
  column(json, "section_ends", ends.size(), Coding::delta, [&](std::size_t i) { return ends[i]; });
  json.close_object();
}

Program read_program(const JsonNode& node, const GraphOutline& outline) {
  Program program;
  Schedule& s = program.schedule;
  program.graph_fingerprint = read_hexadecimal(node.at("graph_fingerprint"));
  program.machine_fingerprint = read_hexadecimal(node.at("machine_fingerprint"));
  s.rank = static_cast<std::int32_t>(node.at("rank").integer(0, kMost));
  s.compute_tasks = static_cast<std::int32_t>(node.at("compute_tasks").integer(0, kMost));
  program.layout.packer = node.at("packer").text();
  program.layout.device_load_bytes = node.at("device_load_bytes").integer(0, kMostBytes);
  const JsonNode arenas = node.at("arenas");
  program.layout.arenas.resize(arenas.size());
  for (std::size_t a = 0; a < program.layout.arenas.size(); ++a) read_object(arenas.item(a), program.layout.arenas[a]);

  std::size_t waits = 0;
  std::size_t touches = 0;
  read_tasks(node.at("tasks"), outline, s, waits, touches);
  read_waits(node.at("wait_back"), s, waits);
  read_residencies(node.at("residencies"), outline, program);
  if (!node.clean()) return {};
  // As many as the column really has: what the counts add up to may be any number.
  const auto touched =
      node.at("touch_residency").column(touches, 0, static_cast<std::int64_t>(s.residencies.size()) - 1);
  s.touches.resize(touched.size());
  for (std::size_t i = 0; i < touched.size(); ++i)
    s.touches[i].residency = static_cast<ResidencyId>(static_cast<std::int32_t>(touched[i]));
  fill(node.at("touch_kind"), 0, 1, s.touches, &Schedule::Touch::kind);
  program.estimate_ns = node.at("estimate_ns").column(JsonNode::kAnyCount, 0, kMostTaskNs);
  if (program.estimate_ns.size() != s.tasks.size()) {
    node.at("estimate_ns")
        .wrong(fmt::format("has {} rows where {} belong", program.estimate_ns.size(), s.tasks.size()));
  }
  read_sends(node.at("sends"), program);
  read_receives(node.at("receives"), program);
  read_routed(node.at("routed"), outline, program);
  const JsonNode slots = node.at("routing_slots");
  program.routing_slots = ids<ResidencyId>(slots, JsonNode::kAnyCount, static_cast<std::int64_t>(s.residencies.size()));
  program.section_ends = ascending_ids<TaskId>(node.at("section_ends"), static_cast<std::int64_t>(s.tasks.size()));
  if (!node.clean()) return {};
  if (const auto found = verify::check_shape(s)) node.at("tasks").wrong(found->detail);
  return program;
}

}  // namespace tidemark::formats
