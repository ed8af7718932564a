// Question: would the exchange of rows in chunks, which hides one chunk's exchange behind another's expert matmuls,
// make the planned step shorter?
//
//   chunked_exchange_bench [MODEL FILE]     default: models/pangu-ultra-moe-718b.yaml
//
// Modelled: the programs of all ranks as planned, in the planner's simulator, memory left out. What a site does with
// routed rows between two sums of them (core/row_sections.h) is cut into equal chunks where no other such section runs
// beside it: there forward and backward hide each other's exchanges already. Each chunk pays its own launches and
// latencies. While a chunk is with the experts the next one is on its way; what waits for no row comes first, what
// waits for all rows last.
//
//   whole     moved alike, in one chunk: what the order alone does
//   free      exchanges of rows take no time at all, in these sections and in all; the order is the planned one

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/row_sections.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "planner/cost/cost_model.h"
#include "planner/planner.h"
#include "planner/schedule/scheduler.h"
#include "planner/simulate/simulator.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  fmt::print(stderr, "chunked_exchange_bench: {}\n", result.error().message);
  std::exit(2);
}

/// Tasks from the first to the last of a section that no other runs beside.
struct Stretch {
  std::int32_t begin = 0, end = 0;  ///< [begin, end)
  std::vector<char> is_cut;         ///< by task of the stretch
};

bool is_exchange(const Program& program, const Graph& graph, std::size_t task) {
  const Task& t = program.schedule.tasks[task];
  return t.op_template != kNone<OpTemplateId> && graph.op_templates[row(t.op_template)].routed &&
         (t.lane == Lane::intra_comm || t.lane == Lane::inter_comm);
}

/// Nothing whole stands between tasks that are cut: it would have to wait for all chunks, and they for it.
bool comes_apart(const Program& program, const Stretch& stretch) {
  const Schedule& schedule = program.schedule;
  std::vector<char> is_behind(stretch.is_cut.size(), 0);  // whole, and waits for rows
  for (std::int32_t task = stretch.begin; task < stretch.end; ++task) {
    const auto at = static_cast<std::size_t>(task - stretch.begin);
    for (const TaskId wait : schedule.waits_of(id_of<TaskId>(static_cast<std::size_t>(task)))) {
      const auto before = static_cast<std::int32_t>(wait) - stretch.begin;
      if (before < 0) continue;
      const auto b = static_cast<std::size_t>(before);
      if (stretch.is_cut[at] != 0 && is_behind[b] != 0) return false;
      if (stretch.is_cut[at] == 0 && (stretch.is_cut[b] != 0 || is_behind[b] != 0)) is_behind[at] = 1;
    }
  }
  return true;
}

std::vector<Stretch> stretches_of(const plan::RankPlan& rank) {
  const Program& program = rank.program;
  std::vector<std::pair<std::int32_t, std::int32_t>> spans;
  const std::vector<RowSection> sections = row_sections(program);
  for (const RowSection& s : sections)
    spans.emplace_back(static_cast<std::int32_t>(s.begin), static_cast<std::int32_t>(s.end) + 1);
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const auto [begin, end] = spans[i];
    const auto meets = [&, b = begin, e = end](const auto& other) { return other.first < e && b < other.second; };
    if (std::ranges::count_if(spans, meets) != 1) continue;
    Stretch stretch{.begin = begin, .end = end, .is_cut = std::vector<char>(static_cast<std::size_t>(end - begin), 0)};
    const auto cut = [&](TaskId task) {
      const Task& t = program.schedule.tasks[row(task)];
      const bool runs = t.kind == TaskKind::op || t.kind == TaskKind::recompute;
      if (runs && rank.graph.op_templates[row(t.op_template)].routed)
        stretch.is_cut[row(task) - static_cast<std::size_t>(begin)] = 1;
    };
    for (const TaskId task : sections[i].tasks) cut(task);
    cut(sections[i].end);
    if (comes_apart(program, stretch)) stretches.push_back(std::move(stretch));
  }
  return stretches;
}

/// The work of a rank with its stretches in chunks.
class Chunked {
 public:
  Chunked(const plan::RankPlan& rank, const simulate::RankWork& whole, const Machine& machine, std::int32_t chunks)
      : rank_(rank), whole_(whole), machine_(machine), chunks_(chunks), parts_(whole.lanes.size()) {}

  [[nodiscard]] simulate::RankWork work() && {
    std::int32_t next = 0;
    for (const Stretch& stretch : stretches_of(rank_)) {
      if (stretch.begin < next) continue;
      for (; next < stretch.begin; ++next) put(next, 0, 1);
      put_stretch(stretch);
      next = stretch.end;
    }
    for (; next < std::ssize(whole_.lanes); ++next) put(next, 0, 1);
    out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
    for (simulate::RankWork::Message message : whole_.messages) {
      message.task = parts_[static_cast<std::size_t>(message.task)].front();
      out_.messages.push_back(message);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::span<const std::int32_t> waits_of(std::int32_t task) const {
    const auto first = whole_.first_wait.begin() + task;
    return {whole_.waits.data() + *first, whole_.waits.data() + *(first + 1)};
  }

  /// Whole tasks that wait for rows, directly or not, come behind the last chunk.
  void put_stretch(const Stretch& stretch) {
    std::vector<char> waits(stretch.is_cut.size(), 0);
    for (std::int32_t task = stretch.begin; task < stretch.end; ++task)
      for (const std::int32_t wait : waits_of(task))
        if (wait >= stretch.begin) {
          const auto at = static_cast<std::size_t>(wait - stretch.begin);
          if (stretch.is_cut[at] != 0 || waits[at] != 0) waits[static_cast<std::size_t>(task - stretch.begin)] = 1;
        }
    const auto each = [&](const auto& visit) {
      for (std::int32_t task = stretch.begin; task < stretch.end; ++task)
        visit(task, static_cast<std::size_t>(task - stretch.begin));
    };
    // Stages follow each other as lanes change: while one chunk is in a stage the next is in the one before, and its
    // exchange is called first.
    std::vector<std::int32_t> stage(stretch.is_cut.size(), 0);
    std::int32_t last = -1;
    Lane lane = Lane::receive;
    each([&](std::int32_t task, std::size_t at) {
      if (stretch.is_cut[at] == 0) return;
      const Lane now = whole_.lanes[static_cast<std::size_t>(task)];
      if (last < 0 || now != lane) ++last;
      stage[at] = last;
      lane = now;
    });
    each([&](std::int32_t task, std::size_t at) {
      if (stretch.is_cut[at] == 0 && waits[at] == 0) put(task, 0, 1);
    });
    for (std::int32_t time = 0; time < last + chunks_; ++time)
      for (std::int32_t s = std::max(0, time - chunks_ + 1); s <= std::min(last, time); ++s)
        each([&](std::int32_t task, std::size_t at) {
          if (stretch.is_cut[at] != 0 && stage[at] == s) put(task, time - s, chunks_);
        });
    each([&](std::int32_t task, std::size_t at) {
      if (stretch.is_cut[at] == 0 && waits[at] != 0) put(task, 0, 1);
    });
  }

  void put(std::int32_t task, std::int32_t chunk, std::int32_t chunks) {
    const auto t = static_cast<std::size_t>(task);
    out_.first_wait.push_back(static_cast<std::int32_t>(out_.waits.size()));
    for (const std::int32_t wait : waits_of(task)) {
      const std::vector<std::int32_t>& of = parts_[static_cast<std::size_t>(wait)];
      const bool same = chunks > 1 && of.size() > 1 && std::ssize(of) > chunk && is_with(task, wait);
      out_.waits.push_back(same ? of[static_cast<std::size_t>(chunk)] : of.back());
    }
    parts_[t].push_back(static_cast<std::int32_t>(out_.lanes.size()));
    out_.lanes.push_back(whole_.lanes[t]);
    out_.duration_ns.push_back(chunks == 1 ? whole_.duration_ns[t] : chunk_ns(t, chunks));
  }
  /// Of one site: a chunk's task waits for its own chunk alone.
  [[nodiscard]] bool is_with(std::int32_t task, std::int32_t other) const {
    const auto& tasks = rank_.program.schedule.tasks;
    return tasks[static_cast<std::size_t>(task)].site == tasks[static_cast<std::size_t>(other)].site;
  }
  [[nodiscard]] std::int64_t chunk_ns(std::size_t task, std::int32_t chunks) const {
    const Task& t = rank_.program.schedule.tasks[task];
    const auto load = static_cast<double>(rank_.graph.sites[row(t.site)].fullest_load);
    return std::llround(cost::chunk_ns(rank_.graph.op_templates[row(t.op_template)], machine_, load, chunks));
  }

  const plan::RankPlan& rank_;
  const simulate::RankWork& whole_;
  const Machine& machine_;
  std::int32_t chunks_;
  std::vector<std::vector<std::int32_t>> parts_;  ///< of each whole task
  simulate::RankWork out_;
};

void print(const std::string& what, const std::vector<simulate::RankWork>& work, std::int64_t planned_ns) {
  const simulate::StepTiming timing = must(simulate::simulate_step(work));
  double exposed = 0;
  for (const simulate::Timeline& rank : timing.ranks)
    exposed += static_cast<double>(rank.intra_wait_ns + rank.inter_wait_ns);
  fmt::print("{:>28} {:>9.3f} {:>+9.2f} {:>19.1f}\n", what, 1e-9 * static_cast<double>(timing.step_ns),
             100.0 * static_cast<double>(timing.step_ns - planned_ns) / static_cast<double>(planned_ns),
             1e-6 * exposed / static_cast<double>(timing.ranks.size()));
}

void run_bench(const std::string& model) {
  plan::PlanRequest request;
  request.job = must(formats::read_job(must(formats::read_file(model)), model));
  const std::string device = std::string(TIDEMARK_SOURCE_DIR) + "/devices/" + request.job.device + ".yaml";
  request.machine = must(formats::read_machine(must(formats::read_file(device)), device));
  request.policy = policies::find_policy("optimal");
  const plan::PlanOutcome plan = must(plan::plan_step(request));
  std::vector<simulate::RankWork> whole;
  std::size_t alone = 0, all = 0;
  for (const plan::RankPlan& rank : plan.ranks) {
    whole.push_back(simulate::work_of(
        rank.graph, rank.program.schedule,
        schedule::charged_durations(rank.graph, rank.program.schedule, request.machine, rank.program.estimate_ns)));
    alone += stretches_of(rank).size();
    all += row_sections(rank.program).size();
  }
  fmt::print("{} on {}, modelled: {} of {} sections run alone\n", request.job.model.name, request.machine.name, alone,
             all);
  fmt::print("{:>28} {:>9} {:>9} {:>19}\n", "exchange", "step s", "%", "exposed ms a rank");
  print("as planned", whole, plan.step.step_ns);
  for (const std::int32_t chunks : {1, 2, 4, 8}) {
    std::vector<simulate::RankWork> cut;
    for (std::size_t r = 0; r < whole.size(); ++r)
      cut.push_back(Chunked(plan.ranks[r], whole[r], request.machine, chunks).work());
    print(chunks == 1 ? "whole, rows last" : fmt::format("{} chunks", chunks), cut, plan.step.step_ns);
  }
  for (const bool everywhere : {false, true}) {
    std::vector<simulate::RankWork> free = whole;
    for (std::size_t r = 0; r < free.size(); ++r) {
      const plan::RankPlan& rank = plan.ranks[r];
      std::vector<char> in(free[r].lanes.size(), everywhere ? 1 : 0);
      for (const Stretch& s : stretches_of(rank)) std::fill(in.begin() + s.begin, in.begin() + s.end, 1);
      for (std::size_t t = 0; t < in.size(); ++t)
        if (in[t] != 0 && is_exchange(rank.program, rank.graph, t)) free[r].duration_ns[t] = 0;
    }
    print(everywhere ? "free, in all" : "free, in these", free, plan.step.step_ns);
  }
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::run_bench(argc > 1 ? argv[1] : std::string(TIDEMARK_SOURCE_DIR) + "/models/pangu-ultra-moe-718b.yaml");
}
