#include "planner/schedule/scheduler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "planner/cost/copy_cost.h"
#include "planner/cost/op_prices.h"

namespace tidemark::schedule {
namespace {

constexpr std::size_t kCompute = static_cast<std::size_t>(Lane::compute);
using LaneClock = std::array<std::int32_t, kLaneCount>;  ///< tasks of each lane known to be complete

/// Who touched the current content of a storage: what the next access must wait for, and what its bytes must outlive.
struct Content {
  ResidencyId residency = kNone<ResidencyId>;
  std::int32_t writer = -1;
  std::array<std::int32_t, kLaneCount> reader{-1, -1, -1, -1, -1, -1, -1};  ///< last reader per lane
};

/// A residency that has seen its last touch, waiting for the compute lane to learn of it.
struct Closing {
  ResidencyId residency = kNone<ResidencyId>;
  LaneClock needs{};             ///< tasks per lane that must be complete
  std::int64_t expected_ns = 0;  ///< nominal end of the last touch off the compute lane
  /// Compute task that must wait (copies out); no op: when expected_ns has passed.
  PlanPoint forced_at{};
  /// A copy in: nothing waits for it before what needs it. No op: no such bound.
  PlanPoint not_before{};
};

bool covers(const LaneClock& known, const LaneClock& needs) {
  for (std::size_t l = 0; l < kLaneCount; ++l)
    if (known[l] < needs[l]) return false;
  return true;
}

/// Steps up to and including the last one off the compute lane are issued ahead.
std::size_t steps_ahead(const Graph& graph, const Recipe& recipe) {
  std::size_t ahead = 0;
  for (std::size_t i = 0; i < recipe.steps.size(); ++i)
    if (graph.op_templates[row(recipe.steps[i].op)].lane != Lane::compute) ahead = i + 1;
  return ahead;
}

class Builder {
 public:
  explicit Builder(const ScheduleInput& input) : in_(input), g_(input.graph) {
    content_.resize(g_.storages.size());
    schedule_.rank = g_.rank;
    const std::size_t tasks = g_.ops.size() + 2 * in_.plan.swaps.size() + 4 * in_.plan.runs.size();
    schedule_.tasks.reserve(tasks);
    clocks_.reserve(tasks);
    schedule_.waits.reserve(tasks);
    schedule_.touches.reserve(g_.accesses.size() + g_.accesses.size() / 4);
    compute_ops_.reserve(g_.ops.size());
    for (std::size_t op = 0; op < g_.ops.size(); ++op)
      if (g_.template_of(id_of<OpId>(op)).phase == OpPhase::send)
        message_ns_ = std::max(message_ns_, in_.nominal.end_ns[op] - in_.nominal.start_ns[op]);
    schedule_.residencies.reserve(g_.storages.size() + 2 * in_.plan.swaps.size() + in_.plan.drops.size());
  }

  Result<Schedule> build();

 private:
  const Graph& graph() const { return g_; }
  std::string name_of_storage(StorageId storage) const { return describe(g_.storages[row(storage)].site, storage); }
  std::string describe(SiteId site, StorageId storage) const {
    return "storage '" + g_.template_of(storage).name + "' of chunk " + std::to_string(g_.sites[row(site)].chunk) +
           ", layer " + std::to_string(g_.sites[row(site)].layer) + ", micro-batch " +
           std::to_string(g_.sites[row(site)].micro_batch);
  }
  [[nodiscard]] bool is_touched(std::size_t storage) const {
    return in_.liveness.ranges[storage].begin < in_.liveness.ranges[storage].end;
  }

  void open_initial_residencies();
  void index_holds();
  ResidencyId open(StorageId storage, MemorySpace space);
  void close(StorageId storage, std::int64_t expected_ns, PlanPoint forced_at = {});
  void close_over(StorageId storage, PlanPoint done);
  void find_final_uses();
  TaskId begin_task(TaskKind kind, Lane lane, OpTemplateId op_template, SiteId site, OpId op, StorageId storage);
  void wait_for(std::int32_t task);
  void touch(StorageId storage, AccessKind kind);
  void touch_residency(ResidencyId residency, AccessKind kind);
  void finish_task();
  void settle_closing(PlanPoint now, std::int64_t now_ns);
  [[nodiscard]] std::int64_t lane_free_ns() const;

  Status run_op(OpId op);
  Status run_steps(std::size_t run, bool head, bool tail, OpId op);
  Status run_recomputes(OpId op);
  void hold(OpId op);
  void follow_compute(OpId receive);
  void issue_swap_ins(PlanPoint until);
  void issue_swap_outs(PlanPoint done);
  void comes_from(std::size_t swap, ResidencyId host, std::int32_t task);
  Status chain_swaps();
  void drop(PlanPoint done);

  const ScheduleInput& in_;
  const Graph& g_;
  Schedule schedule_;
  std::vector<LaneClock> clocks_;  ///< per task, itself included
  std::array<std::int32_t, kLaneCount> last_in_lane_{-1, -1, -1, -1, -1, -1, -1};
  struct ComputeOp {
    std::int32_t task = -1;
    OpId op = kNone<OpId>;
  };
  std::vector<ComputeOp> compute_ops_;  ///< issued so far
  std::int64_t message_ns_ = 0;         ///< nominal time of the longest send
  LaneClock current_{};                 ///< clock of the task being built, without itself
  std::vector<std::int32_t> pending_waits_;
  std::vector<Content> content_;
  std::vector<Closing> closing_;
  std::vector<ResidencyId> opened_;           ///< by the task being built
  std::vector<PlanPoint> final_use_;          ///< per storage: nothing needs it behind
  std::vector<std::vector<StorageId>> held_;  ///< per op with holds that end there
  std::vector<std::int32_t> holds_at_;        ///< per op: row of held_, or -1
  std::vector<ResidencyId> host_of_swap_;     ///< per swap
  std::vector<std::int32_t> next_swap_;       ///< per swap: the next one that reads the same copy, or -1
  std::vector<std::int32_t> out_task_of_swap_;
  /// A storage in host memory for the whole step.
  struct Rest {
    ResidencyId residency = kNone<ResidencyId>;
    std::int32_t reader = -1;  ///< the last copy in
  };
  std::vector<Rest> rest_;  ///< per storage
  std::size_t next_drop_ = 0, next_out_ = 0, next_in_ = 0, next_run_ = 0;
  std::vector<std::size_t> open_runs_;  ///< started, tail still to come
};

ResidencyId Builder::open(StorageId storage, MemorySpace space) {
  const ResidencyId id = id_of<ResidencyId>(schedule_.residencies.size());
  schedule_.residencies.push_back({.storage = storage, .space = space, .bytes = g_.storages[row(storage)].bytes});
  return id;
}

/// What holds content before the step is there from its first task on: in host memory what rests there.
void Builder::open_initial_residencies() {
  rest_.resize(g_.storages.size());
  std::vector<bool> rests(g_.storages.size(), false);
  for (const Plan::Swap& swap : in_.plan.swaps)
    if (swap.begins()) rests[row(swap.storage)] = true;
  for (std::size_t s = 0; s < g_.storages.size(); ++s) {
    const auto storage = id_of<StorageId>(s);
    if (!g_.template_of(storage).initial || !is_touched(s)) continue;
    const ResidencyId id = open(storage, rests[s] ? MemorySpace::host : MemorySpace::device);
    (rests[s] ? rest_[s].residency : content_[s].residency) = id;
    Residency& r = schedule_.residencies.back();
    r.acquire = 0;
    r.first_task = r.last_task = id_of<TaskId>(0);
    r.full_before = true;
  }
}

void Builder::index_holds() {
  holds_at_.assign(g_.ops.size(), -1);
  for (std::size_t s = 0; s < g_.storages.size(); ++s) {
    const OpId op = g_.storages[s].held_until;
    if (op == kNone<OpId> || !is_touched(s)) continue;
    std::int32_t& at = holds_at_[row(op)];
    if (at < 0) {
      at = static_cast<std::int32_t>(held_.size());
      held_.emplace_back();
    }
    held_[static_cast<std::size_t>(at)].push_back(id_of<StorageId>(s));
  }
}

TaskId Builder::begin_task(TaskKind kind, Lane lane, OpTemplateId op_template, SiteId site, OpId op,
                           StorageId storage) {
  const TaskId id = id_of<TaskId>(schedule_.tasks.size());
  schedule_.tasks.push_back({.kind = kind,
                             .lane = lane,
                             .op_template = op_template,
                             .site = site,
                             .op = op,
                             .storage = storage,
                             .first_wait = static_cast<std::int32_t>(schedule_.waits.size()),
                             .first_touch = static_cast<std::int32_t>(schedule_.touches.size())});
  const std::int32_t last = last_in_lane_[static_cast<std::size_t>(lane)];
  current_ = last < 0 ? LaneClock{} : clocks_[static_cast<std::size_t>(last)];
  pending_waits_.clear();
  opened_.clear();
  return id;
}

/// Orders the task being built after `task`, by a wait unless FIFO order or an earlier wait already does.
void Builder::wait_for(std::int32_t task) {
  if (task < 0 || static_cast<std::size_t>(task) >= clocks_.size()) return;  // nothing, or the task being built itself
  const LaneClock& theirs = clocks_[static_cast<std::size_t>(task)];
  const auto lane = static_cast<std::size_t>(schedule_.tasks[static_cast<std::size_t>(task)].lane);
  if (current_[lane] >= theirs[lane]) return;
  pending_waits_.push_back(task);
  for (std::size_t l = 0; l < kLaneCount; ++l) current_[l] = std::max(current_[l], theirs[l]);
}

void Builder::touch_residency(ResidencyId residency, AccessKind kind) {
  const TaskId task = id_of<TaskId>(schedule_.tasks.size() - 1);
  Residency& r = schedule_.residencies[row(residency)];
  if (r.first_task == kNone<TaskId>) {
    r.first_task = task;
    opened_.push_back(residency);
  }
  r.last_task = task;
  schedule_.touches.push_back({residency, kind});
}

/// One access of the task being built: data order, then the books.
void Builder::touch(StorageId storage, AccessKind kind) {
  Content& c = content_[row(storage)];
  const auto task = static_cast<std::int32_t>(schedule_.tasks.size() - 1);
  const auto lane = static_cast<std::size_t>(schedule_.tasks.back().lane);
  if (c.residency == kNone<ResidencyId>) {
    c = Content{};
    c.residency = open(storage, MemorySpace::device);
  }
  wait_for(c.writer);
  if (kind == AccessKind::write) {
    for (const std::int32_t reader : c.reader) wait_for(reader);
    c.reader.fill(-1);
    c.writer = task;
  } else {
    c.reader[lane] = task;
  }
  touch_residency(c.residency, kind);
}

void Builder::finish_task() {
  Task& task = schedule_.tasks.back();
  const auto id = static_cast<std::int32_t>(schedule_.tasks.size() - 1);
  const auto lane = static_cast<std::size_t>(task.lane);
  // Only the last of several waits on one lane is needed, and none that another wait implies.
  for (const std::int32_t wait : pending_waits_) {
    const Task& other = schedule_.tasks[static_cast<std::size_t>(wait)];
    const auto l = static_cast<std::size_t>(other.lane);
    const std::int32_t own = clocks_[static_cast<std::size_t>(wait)][l];
    const bool implied = std::any_of(pending_waits_.begin(), pending_waits_.end(), [&](std::int32_t w) {
      return w != wait && clocks_[static_cast<std::size_t>(w)][l] >= own &&
             (clocks_[static_cast<std::size_t>(w)][l] > own || w < wait ||
              schedule_.tasks[static_cast<std::size_t>(w)].lane != other.lane);
    });
    if (!implied) schedule_.waits.push_back(static_cast<TaskId>(wait));
  }
  std::sort(schedule_.waits.begin() + task.first_wait, schedule_.waits.end());
  for (const ResidencyId residency : opened_) {
    const std::int32_t known = current_[kCompute];
    schedule_.residencies[row(residency)].acquire = lane == kCompute ? 2 * known : std::max(0, 2 * known - 1);
  }
  ++current_[lane];
  clocks_.push_back(current_);
  last_in_lane_[lane] = id;
  if (lane == kCompute) ++schedule_.compute_tasks;
}

/// Ends the residency of a storage in device memory. Its release is known once the compute lane is ordered after its
/// touches.
void Builder::close(StorageId storage, std::int64_t expected_ns, PlanPoint forced_at) {
  Content& c = content_[row(storage)];
  Closing closing{.residency = c.residency, .expected_ns = expected_ns, .forced_at = forced_at};
  const auto require = [&](std::int32_t task) {
    if (task < 0) return;
    const auto lane = static_cast<std::size_t>(schedule_.tasks[static_cast<std::size_t>(task)].lane);
    closing.needs[lane] = std::max(closing.needs[lane], clocks_[static_cast<std::size_t>(task)][lane]);
  };
  require(c.writer);
  for (const std::int32_t reader : c.reader) require(reader);
  c.residency = kNone<ResidencyId>;

  Residency& r = schedule_.residencies[row(closing.residency)];
  const std::int32_t last = last_in_lane_[kCompute];
  const LaneClock known = last < 0 ? LaneClock{} : clocks_[static_cast<std::size_t>(last)];
  if (covers(known, closing.needs)) {
    r.release = std::max(r.acquire + 1, 2 * closing.needs[kCompute] - 1);
    // Touches off the compute lane were learnt of by some earlier wait; the last compute task is a safe witness.
    for (std::size_t l = 0; l < kLaneCount; ++l)
      if (l != kCompute && closing.needs[l] > 0) r.release = std::max(r.release, 2 * (schedule_.compute_tasks - 1));
    return;
  }
  closing_.push_back(closing);
}

/// When the compute lane nominally has run what was issued.
std::int64_t Builder::lane_free_ns() const {
  return compute_ops_.empty() ? 0 : in_.nominal.end_ns[row(compute_ops_.back().op)];
}

/// Before a compute task: wait for what must be over by now, and release what the task is ordered after. `now_ns`: when
/// the task nominally starts.
void Builder::settle_closing(PlanPoint now, std::int64_t now_ns) {
  if (closing_.empty()) return;
  for (const Closing& closing : closing_) {
    const bool due =
        closing.forced_at.op != kNone<OpId>
            ? now >= closing.forced_at
            : now_ns >= closing.expected_ns && (closing.not_before.op == kNone<OpId> || now >= closing.not_before);
    if (!due || covers(current_, closing.needs)) continue;
    const Residency& r = schedule_.residencies[row(closing.residency)];
    wait_for(static_cast<std::int32_t>(r.last_task));
  }
  std::erase_if(closing_, [&](const Closing& closing) {
    LaneClock needs = closing.needs;
    needs[kCompute] = 0;
    if (!covers(current_, needs)) return false;
    Residency& r = schedule_.residencies[row(closing.residency)];
    r.release = std::max({r.acquire + 1, 2 * schedule_.compute_tasks, 2 * closing.needs[kCompute] - 1});
    return true;
  });
}

Status Builder::run_steps(std::size_t number, bool head, bool tail, OpId op) {
  const Plan::Run& run = in_.plan.runs[number];
  const Recipe& recipe = g_.recipes[row(run.recipe)];
  const std::size_t split = steps_ahead(g_, recipe);
  const std::size_t begin = head ? 0 : split;
  const std::size_t end = tail ? recipe.steps.size() : split;
  for (std::size_t i = begin; i < end; ++i) {
    const Recipe::Step& step = recipe.steps[i];
    const Lane lane = g_.op_templates[row(step.op)].lane;
    begin_task(TaskKind::recompute, lane, step.op, run.site, op, kNone<StorageId>);
    for (const std::int32_t local : step.reads) {
      const StorageId storage = g_.storage_at(run.site, local);
      if (content_[row(storage)].residency == kNone<ResidencyId>)
        return internal_fault("recipe '" + recipe.name + "' needs " + describe(run.site, storage) +
                              ", which is not in memory");
      touch(storage, AccessKind::read);
    }
    for (const std::int32_t local : step.writes) touch(g_.storage_at(run.site, local), AccessKind::write);
    // It need not wait for what the op waits for.
    if (lane == Lane::compute) settle_closing({.op = op, .run = static_cast<std::int32_t>(number)}, lane_free_ns());
    finish_task();
  }
  if (tail)
    for (const std::int32_t local : recipe.transients) {
      const StorageId storage = g_.storage_at(run.site, local);
      if (content_[row(storage)].residency != kNone<ResidencyId>) close(storage, release_ns(g_, in_.nominal, op));
    }
  return {};
}

Status Builder::run_recomputes(OpId op) {
  const auto& runs = in_.plan.runs;
  while (next_run_ < runs.size() && runs[next_run_].start <= op) open_runs_.push_back(next_run_++);
  for (std::size_t i = 0; i < open_runs_.size();) {
    const std::size_t number = open_runs_[i];
    const PlanPoint now{.op = op, .run = static_cast<std::int32_t>(number)};
    const bool head = runs[number].start == op;
    const bool tail = runs[number].need <= op;
    issue_swap_ins(now);
    if (Status s = run_steps(number, head, tail, op); !s) return s;
    if (!tail) {
      ++i;
      continue;
    }
    issue_swap_outs(now);
    drop(now);
    for (const Recipe::Step& step : g_.recipes[row(runs[number].recipe)].steps)
      for (const auto* locals : {&step.reads, &step.writes})
        for (const std::int32_t local : *locals) close_over(g_.storage_at(runs[number].site, local), now);
    open_runs_.erase(open_runs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return {};
}

void Builder::issue_swap_ins(PlanPoint until) {
  const auto& order = in_.plan.swap_in_order;
  for (; next_in_ < order.size(); ++next_in_) {
    const auto index = static_cast<std::size_t>(order[next_in_]);
    const Plan::Swap& swap = in_.plan.swaps[index];
    if (swap.prefetch > until) return;
    begin_task(TaskKind::swap_in, Lane::h2d, kNone<OpTemplateId>, g_.storages[row(swap.storage)].site, until.op,
               swap.storage);
    wait_for(last_in_lane_[kCompute]);
    wait_for(out_task_of_swap_[index]);
    touch_residency(host_of_swap_[index], AccessKind::read);
    touch(swap.storage, AccessKind::write);
    finish_task();
    Rest& rest = rest_[row(swap.storage)];
    rest.reader = static_cast<std::int32_t>(schedule_.tasks.size()) - 1;
    // A copy in host memory is read once more, or lasts.
    if (next_swap_[index] >= 0 || rest.residency != kNone<ResidencyId>) continue;
    closing_.push_back({.residency = host_of_swap_[index],
                        .expected_ns = in_.nominal.start_ns[row(swap.needed.op)],
                        .not_before = swap.needed});
    closing_.back().needs[static_cast<std::size_t>(Lane::h2d)] = clocks_.back()[static_cast<std::size_t>(Lane::h2d)];
  }
}

void Builder::issue_swap_outs(PlanPoint done) {
  const auto& swaps = in_.plan.swaps;
  for (; next_out_ < swaps.size() && swaps[next_out_].ready <= done; ++next_out_) {
    const Plan::Swap& swap = swaps[next_out_];
    if (!swap.copies_out) {
      close(swap.storage, release_ns(g_, in_.nominal, done.op));
      continue;
    }
    const TaskId task = begin_task(TaskKind::swap_out, Lane::d2h, kNone<OpTemplateId>,
                                   g_.storages[row(swap.storage)].site, done.op, swap.storage);
    const Rest& rest = rest_[row(swap.storage)];
    const ResidencyId host =
        rest.residency == kNone<ResidencyId> ? open(swap.storage, MemorySpace::host) : rest.residency;
    touch(swap.storage, AccessKind::read);
    wait_for(rest.reader);
    // The data is complete once its writer is: the copy may run beside readers that are under way.
    touch_residency(host, AccessKind::write);
    finish_task();
    comes_from(next_out_, host, static_cast<std::int32_t>(task));
    close(swap.storage, std::numeric_limits<std::int64_t>::max(), swap.released);
  }
}

/// The copy that a swap, and those behind it that make none, read on the way in.
void Builder::comes_from(std::size_t swap, ResidencyId host, std::int32_t task) {
  for (auto i = static_cast<std::int32_t>(swap); i >= 0; i = next_swap_[static_cast<std::size_t>(i)]) {
    host_of_swap_[static_cast<std::size_t>(i)] = host;
    out_task_of_swap_[static_cast<std::size_t>(i)] = task;
  }
}

void Builder::drop(PlanPoint done) {
  const auto& drops = in_.plan.drops;
  for (; next_drop_ < drops.size() && drops[next_drop_].after <= done; ++next_drop_)
    close(drops[next_drop_].storage, release_ns(g_, in_.nominal, done.op));
}

Status Builder::run_op(OpId op) {
  const Op& o = g_.ops[row(op)];
  const OpTemplate& t = g_.op_templates[row(o.op_template)];
  begin_task(TaskKind::op, t.lane, o.op_template, o.site, op, kNone<StorageId>);
  for (const Access& access : g_.accesses_of(op)) {
    if (access.kind == AccessKind::read && content_[row(access.storage)].residency == kNone<ResidencyId>)
      return internal_fault("op '" + t.name + "' reads " +
                            describe(g_.storages[row(access.storage)].site, access.storage) +
                            ", which is not in memory");
    touch(access.storage, access.kind);
  }
  if (t.phase == OpPhase::receive) follow_compute(op);
  if (t.lane == Lane::compute) {
    settle_closing({.op = op}, in_.nominal.start_ns[row(op)]);
    compute_ops_.push_back({static_cast<std::int32_t>(schedule_.tasks.size()) - 1, op});
  }
  finish_task();
  return {};
}

/// A receive takes its buffer as late as it can without delaying who reads it: behind the last compute task that
/// nominally ends twice the time of a message before that. Posted any earlier, it would only hold memory.
void Builder::follow_compute(OpId receive) {
  std::int64_t needed_ns = std::numeric_limits<std::int64_t>::max();
  for (const Access& access : g_.accesses_of(receive)) {
    const auto touches = in_.liveness.touches_of(access.storage);
    const auto reader = std::upper_bound(touches.begin(), touches.end(), receive);
    if (reader != touches.end()) needed_ns = std::min(needed_ns, in_.nominal.start_ns[row(*reader)]);
  }
  for (std::size_t i = compute_ops_.size(); i-- > 0;) {
    if (in_.nominal.end_ns[row(compute_ops_[i].op)] > needed_ns - 2 * message_ns_) continue;
    wait_for(compute_ops_[i].task);
    return;
  }
}

/// Bytes that a framework holds until an op has run are in use by it, though it reads none of them.
void Builder::hold(OpId op) {
  if (holds_at_[row(op)] < 0) return;
  const auto task = static_cast<std::int32_t>(schedule_.tasks.size()) - 1;
  const auto lane = static_cast<std::size_t>(schedule_.tasks.back().lane);
  for (const StorageId storage : held_[static_cast<std::size_t>(holds_at_[row(op)])]) {
    Content& c = content_[row(storage)];
    if (c.residency == kNone<ResidencyId>) continue;
    c.reader[lane] = task;
    schedule_.residencies[row(c.residency)].last_task = static_cast<TaskId>(task);
  }
}

/// Where each storage is needed for the last time: by an op, a hold, or a recipe that runs later still. Transients come
/// and go with their recipe.
void Builder::find_final_uses() {
  final_use_.resize(g_.storages.size());
  for (std::size_t s = 0; s < final_use_.size(); ++s)
    if (is_touched(s)) final_use_[s].op = static_cast<OpId>(in_.liveness.ranges[s].end - 1);
  for (std::size_t r = 0; r < in_.plan.runs.size(); ++r) {
    const Plan::Run& run = in_.plan.runs[r];
    const Recipe& recipe = g_.recipes[row(run.recipe)];
    const std::size_t ahead = steps_ahead(g_, recipe);
    for (std::size_t i = 0; i < recipe.steps.size(); ++i)
      for (const auto* locals : {&recipe.steps[i].reads, &recipe.steps[i].writes})
        for (const std::int32_t local : *locals) {
          if (std::ranges::find(recipe.transients, local) != recipe.transients.end()) continue;
          PlanPoint& last = final_use_[row(g_.storage_at(run.site, local))];
          last = std::max(last, {.op = i < ahead ? run.start : run.need, .run = static_cast<std::int32_t>(r)});
        }
  }
}

/// Ends the last residency of a storage behind what is the last to need it.
void Builder::close_over(StorageId storage, PlanPoint done) {
  if (content_[row(storage)].residency == kNone<ResidencyId> || g_.template_of(storage).lasting) return;
  if (final_use_[row(storage)] == done) close(storage, release_ns(g_, in_.nominal, done.op));
}

/// Which swaps read the copy of another, or what rests in host memory.
Status Builder::chain_swaps() {
  const auto& swaps = in_.plan.swaps;
  host_of_swap_.assign(swaps.size(), kNone<ResidencyId>);
  out_task_of_swap_.assign(swaps.size(), -1);
  next_swap_.assign(swaps.size(), -1);
  std::vector<std::int32_t> last_swap(g_.storages.size(), -1);
  for (std::size_t i = 0; i < swaps.size(); ++i) {
    std::int32_t& last = last_swap[row(swaps[i].storage)];
    if (!swaps[i].copies_out && !swaps[i].begins()) {
      if (last < 0) return internal_fault("a swap of " + name_of_storage(swaps[i].storage) + " has no copy to read");
      next_swap_[static_cast<std::size_t>(last)] = static_cast<std::int32_t>(i);
    }
    last = static_cast<std::int32_t>(i);
  }
  for (; next_out_ < swaps.size() && swaps[next_out_].begins(); ++next_out_) {
    const ResidencyId rest = rest_[row(swaps[next_out_].storage)].residency;
    if (rest == kNone<ResidencyId>)
      return internal_fault(name_of_storage(swaps[next_out_].storage) + " has no content to rest in host memory");
    comes_from(next_out_, rest, -1);
  }
  return {};
}

Result<Schedule> Builder::build() {
  open_initial_residencies();
  index_holds();
  find_final_uses();
  if (Status s = chain_swaps(); !s) return s.error();

  for (std::size_t i = 0; i < g_.ops.size(); ++i) {
    const auto op = id_of<OpId>(i);
    issue_swap_ins(PlanPoint::ahead_of(op));
    if (Status s = run_recomputes(op); !s) return s.error();
    issue_swap_ins({.op = op});
    if (Status s = run_op(op); !s) return s.error();
    hold(op);
    issue_swap_outs({.op = op});
    drop({.op = op});
    for (const Access& access : g_.accesses_of(op)) close_over(access.storage, {.op = op});
    if (holds_at_[i] >= 0)
      for (const StorageId storage : held_[static_cast<std::size_t>(holds_at_[i])]) close_over(storage, {.op = op});
  }
  const std::int32_t end_of_clock = 2 * schedule_.compute_tasks;
  const TaskId last_task = id_of<TaskId>(schedule_.tasks.empty() ? 0 : schedule_.tasks.size() - 1);
  for (const Closing& closing : closing_) schedule_.residencies[row(closing.residency)].release = end_of_clock;
  for (std::size_t s = 0; s < g_.storages.size(); ++s) {
    const ResidencyId rest = rest_[s].residency;
    const ResidencyId last = rest == kNone<ResidencyId> ? content_[s].residency : rest;
    if (last == kNone<ResidencyId>) continue;
    Residency& r = schedule_.residencies[row(last)];
    r.release = end_of_clock;
    if (!g_.template_of(id_of<StorageId>(s)).lasting) continue;
    r.last_task = last_task;
    r.full_behind = true;
  }
  return std::move(schedule_);
}

}  // namespace

Result<Schedule> build_schedule(const ScheduleInput& input) {
  return Builder(input).build();
}

namespace {

cost::CopyCost copy_cost(const Graph& graph, const Task& copy, const Machine& machine) {
  return copy.kind == TaskKind::swap_out ? cost::copy_out_cost(graph, copy.storage, machine)
                                         : cost::copy_in_cost(graph, copy.storage, machine);
}

}  // namespace

std::vector<std::int64_t> task_durations(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                         double time_scale) {
  cost::OpTimes times(graph, machine, time_scale);
  std::vector<std::int64_t> durations;
  durations.reserve(schedule.tasks.size());
  for (const Task& task : schedule.tasks) {
    if (task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in) {
      durations.push_back(copy_cost(graph, task, machine).link_ns);
      continue;
    }
    durations.push_back(times.ns(task.op_template, task.site));
  }
  return durations;
}

std::int64_t release_ns(const Graph& graph, const simulate::Timeline& nominal, OpId op) {
  constexpr std::int64_t kMostMarginNs = 100'000;
  const Lane lane = graph.template_of(op).lane;
  const std::int64_t end_ns = nominal.end_ns[row(op)];
  if (lane != Lane::intra_comm && lane != Lane::inter_comm) return end_ns;
  return end_ns + std::min(kMostMarginNs, (end_ns - nominal.start_ns[row(op)]) / 4);
}

std::vector<std::int64_t> charged_durations(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                            std::vector<std::int64_t> durations) {
  const auto first = std::ranges::find(schedule.tasks, Lane::compute, &Task::lane);
  if (first == schedule.tasks.end()) return durations;
  auto last_compute = static_cast<std::size_t>(first - schedule.tasks.begin());
  for (std::size_t t = 0; t < durations.size(); ++t) {
    const Task& task = schedule.tasks[t];
    if (task.lane == Lane::compute) last_compute = t;
    if (task.kind != TaskKind::swap_out && task.kind != TaskKind::swap_in) continue;
    durations[last_compute] += copy_cost(graph, task, machine).compute_ns;
  }
  return durations;
}

}  // namespace tidemark::schedule
