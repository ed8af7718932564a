#include "integrations/formats/export_perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "integrations/formats/memory_series.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

/// A JSON string literal, quotes included; bytes that are not UTF-8 become the replacement character.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out) : out_(out) {}

  void write(const plan::PlanOutcome& outcome, const std::vector<const plan::RankPlan*>& ranks,
             std::int32_t memory_points) {
    text_ += "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"times\":\"modelled\"},\"traceEvents\":[";
    for (const plan::RankPlan* rank : ranks) {
      write_names(*rank);
      write_tasks(*rank);
      write_memory(*rank, outcome.step.step_ns, memory_points);
    }
    text_ += "\n]}\n";
    flush();
  }

 private:
  template <class... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    constexpr std::size_t kPiece = 1 << 16;
    if (text_.size() >= kPiece) flush();
  }

  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  void write_names(const plan::RankPlan& rank) {
    const std::int32_t pid = rank.figures.rank;
    event(R"_({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0}, modelled"}}}})_", pid);
    event(R"_({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})_", pid);
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      event(R"_({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})_", pid, lane,
            lane_text(static_cast<Lane>(lane)));
      event(R"_({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})_", pid, lane,
            lane);
    }
  }

  /// Names as JSON literals, made once per template.
  struct Names {
    std::vector<std::string> ops, again, storages;
  };
  static Names names_of(const Graph& graph) {
    Names names;
    for (const OpTemplate& op : graph.op_templates) {
      names.ops.push_back(quoted(op.name));
      names.again.push_back(quoted("again: " + op.name));
    }
    for (const StorageTemplate& storage : graph.storage_templates) names.storages.push_back(quoted(storage.name));
    return names;
  }

  static const std::string& name_of(const plan::RankPlan& rank, const Names& names, const Task& task) {
    if (task.kind == TaskKind::op) return names.ops[row(task.op_template)];
    if (task.kind == TaskKind::recompute) return names.again[row(task.op_template)];
    return names.storages[row(rank.graph.storages[row(task.storage)].storage_template)];
  }

  void write_tasks(const plan::RankPlan& rank) {
    const Names names = names_of(rank.graph);
    const Schedule& schedule = rank.program.schedule;
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
      const Task& task = schedule.tasks[t];
      const std::int64_t start = rank.timeline.start_ns[t], duration = rank.timeline.end_ns[t] - start;
      if (duration <= 0) continue;
      event(R"_({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{}{}}})_", rank.figures.rank,
            static_cast<int>(task.lane), microseconds(start), microseconds(duration), name_of(rank, names, task),
            place_of(rank.graph, task.site));
    }
  }

  /// `,"args":{...}` with what is set of chunk, layer and micro-batch.
  static std::string place_of(const Graph& graph, SiteId id) {
    if (id == kNone<SiteId>) return "";
    const Site& site = graph.sites[row(id)];
    if (site.micro_batch < 0) return "";
    return site.layer < 0
               ? fmt::format(R"(,"args":{{"c":{},"mb":{}}})", site.chunk, site.micro_batch)
               : fmt::format(R"(,"args":{{"c":{},"l":{},"mb":{}}})", site.chunk, site.layer, site.micro_batch);
  }

  /// The unit of trace time stamps, down to 0.1 us: as few digits as the picture needs.
  static std::string microseconds(std::int64_t ns) {
    const std::int64_t tenths = (ns + 50) / 100;
    return tenths % 10 == 0 ? fmt::format("{}", tenths / 10) : fmt::format("{}.{}", tenths / 10, tenths % 10);
  }

  void write_memory(const plan::RankPlan& rank, std::int64_t step_ns, std::int32_t points) {
    for (const MemorySample& sample : memory_samples(rank, step_ns, points)) {
      std::string values;
      for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
        values += fmt::format(R"({}"{}":{:.3f})", role == 0 ? "" : ",", role_text(static_cast<StorageRole>(role)),
                              static_cast<double>(sample.bytes[role]) / static_cast<double>(kGiB));
      }
      event(R"_({{"ph":"C","pid":{},"ts":{},"name":"device memory, GiB","args":{{{}}}}})_", rank.figures.rank,
            microseconds(sample.time_ns), values);
    }
  }

  std::ostream& out_;
  std::string text_;
  bool first_ = true;
};

const plan::RankPlan* find_rank(const plan::PlanOutcome& outcome, std::int32_t rank) {
  const auto it = std::find_if(outcome.ranks.begin(), outcome.ranks.end(),
                               [&](const plan::RankPlan& r) { return r.figures.rank == rank; });
  return it == outcome.ranks.end() ? nullptr : &*it;
}

}  // namespace

Status write_perfetto(std::ostream& out, const plan::PlanOutcome& outcome, const PerfettoOptions& options) {
  std::vector<const plan::RankPlan*> ranks;
  for (const std::int32_t rank : options.ranks) {
    ranks.push_back(find_rank(outcome, rank));
    if (ranks.back() == nullptr) return bad_input(fmt::format("rank {} was not planned", rank));
  }
  if (options.ranks.empty()) {
    for (const plan::RankPlan& rank : outcome.ranks) ranks.push_back(&rank);
  }
  TraceWriter(out).write(outcome, ranks, options.memory_points);
  if (!out) return bad_input("the trace could not be written completely");
  return {};
}

}  // namespace tidemark::formats
