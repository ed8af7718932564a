#include "swap/followed_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

namespace tidemark::swap {
namespace {

using Kind = FollowedAction::Kind;

class Binder {
 public:
  Binder(const Program& program, const FollowedLoop& loop)
      : s_(program.schedule), layout_(program.layout), loop_(loop) {}

  Result<FollowedProgram> bind() {
    if (Status s = list_ops(); !s) return s.error();
    if (Status s = list_managed(); !s) return s.error();
    find_uses();
    list_rebuilds();
    list_consumers();
    find_begins();
    for (std::size_t n = 0; n < out_.storages.size(); ++n) add_residencies(static_cast<std::int32_t>(n));
    std::ranges::stable_sort(out_.actions, {}, [](const FollowedAction& a) { return std::pair(a.time, a.kind); });
    return std::move(out_);
  }

 private:
  static constexpr std::int32_t kNever = -1;

  [[nodiscard]] const Task& task(std::int32_t time) const { return s_.tasks[static_cast<std::size_t>(time)]; }
  [[nodiscard]] static bool is_work(const Task& task) {
    return task.kind == TaskKind::op || task.kind == TaskKind::recompute;
  }
  [[nodiscard]] std::span<const Schedule::Touch> touches(std::size_t time) const {
    return s_.touches_of(id_of<TaskId>(time));
  }
  [[nodiscard]] const Residency& residency(const Schedule::Touch& touch) const {
    return s_.residencies[row(touch.residency)];
  }

  Status list_ops() {
    std::vector<OpId> op_of_template;
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      const Task& one = s_.tasks[t];
      if (one.lane == Lane::compute) compute_.push_back(static_cast<std::int32_t>(t));
      if (one.kind != TaskKind::op) continue;
      if (row(one.op) >= out_.time_of.size()) out_.time_of.resize(row(one.op) + 1, kNever);
      out_.time_of[row(one.op)] = static_cast<std::int32_t>(t);
      const std::size_t name = row(one.op_template);
      if (name >= op_of_template.size()) op_of_template.resize(name + 1, kNone<OpId>);
      op_of_template[name] = op_of_template[name] == kNone<OpId> ? one.op : kAmbiguous;
    }
    const std::size_t ops = out_.time_of.size();
    if (std::ranges::count(out_.time_of, kNever) > 0) return bad_input("the plan does not have all ops of its step");
    for (const auto& [what, size] :
         {std::pair("parts", loop_.part_of_op.size()), std::pair("told", loop_.is_told.size())})
      if (size != 0 && size != ops)
        return bad_input(fmt::format("{} are given for {} ops, and the plan has {}", what, size, ops));
    out_.part_of = loop_.part_of_op.empty() ? std::vector<std::int32_t>(ops, 0) : loop_.part_of_op;
    if (std::ranges::any_of(out_.part_of, [&](std::int32_t part) { return part < 0 || part >= 1 << 20; }))
      return bad_input("a part of a step has a number from 0 to 2^20 - 1");
    std::map<std::int32_t, std::int32_t> number_of_part;  // as given, which may leave numbers out
    for (std::int32_t& part : out_.part_of)
      part = number_of_part.try_emplace(part, static_cast<std::int32_t>(number_of_part.size())).first->second;
    out_.parts = std::max(static_cast<std::int32_t>(number_of_part.size()), 1);
    told_.resize(static_cast<std::size_t>(out_.parts));
    for (std::size_t op = 0; op < ops; ++op)
      if (loop_.is_told.empty() || loop_.is_told[op])
        told_[static_cast<std::size_t>(out_.part_of[op])].push_back(out_.time_of[op]);
    for (auto& times : told_) std::ranges::sort(times);
    again_.assign(s_.tasks.size(), kNone<OpId>);
    out_.is_rebuilt.assign(ops, false);
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      if (s_.tasks[t].kind != TaskKind::recompute) continue;
      const std::size_t name = row(s_.tasks[t].op_template);
      const OpId op = name < op_of_template.size() ? op_of_template[name] : kNone<OpId>;
      if (op == kNone<OpId> || op == kAmbiguous)
        return bad_input(
            fmt::format("task {} runs an op again that stands in the step {}; a session follows steps in "
                        "which each op has a template of its own",
                        t, op == kNone<OpId> ? "nowhere" : "more than once"));
      again_[t] = op;
      out_.is_rebuilt[row(op)] = true;
    }
    return {};
  }

  /// What is copied or recomputed, what that is recomputed from, and what may be spilled. What outlives the step its
  /// framework holds; what was there before is its own affair altogether.
  Status list_managed() {
    std::size_t storages = 0;
    for (const Residency& r : s_.residencies) storages = std::max(storages, row(r.storage) + 1);
    std::vector<std::uint8_t> is_held(storages), is_managed(storages);
    std::vector<std::uint8_t> is_older(storages);
    for (const Residency& r : s_.residencies) {
      if (r.full_before || r.full_behind) is_held[row(r.storage)] = 1;
      if (r.full_before) is_older[row(r.storage)] = 1;
    }
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      if (s_.tasks[t].kind == TaskKind::op) continue;
      for (const Schedule::Touch& touch : touches(t)) {
        const std::size_t storage = row(residency(touch).storage);
        const bool comes_back = s_.tasks[t].kind != TaskKind::recompute || touch.kind == AccessKind::write;
        if (is_held[storage] != 0 && comes_back)
          return bad_input(
              fmt::format("storage {} holds content before or behind the step, and the plan {} it; its "
                          "framework holds such storages: keep it, by the graph",
                          storage, s_.tasks[t].kind == TaskKind::recompute ? "recomputes" : "swaps"));
        is_managed[storage] = is_older[storage] == 0 ? 1 : 0;
      }
    }
    for (const StorageId s : loop_.may_spill)
      if (row(s) < storages && is_held[row(s)] == 0) is_managed[row(s)] = 1;
    out_.number_of.assign(storages, -1);
    for (std::size_t s = 0; s < storages; ++s) {
      if (is_managed[s] == 0) continue;
      out_.number_of[s] = static_cast<std::int32_t>(out_.storages.size());
      out_.storages.push_back({.storage = id_of<StorageId>(s)});
    }
    out_.residencies.resize(out_.storages.size());
    out_.recompute_times.resize(out_.storages.size());
    residencies_.resize(out_.storages.size());
    part_of_storage_.assign(out_.storages.size(), 0);
    return {};
  }

  [[nodiscard]] std::int32_t number_of(const Schedule::Touch& touch) const {
    return out_.number_of[row(residency(touch).storage)];
  }

  /// First and last use of every residency by an op, or by a recomputed one.
  void find_uses() {
    const auto count = s_.residencies.size();
    first_use_.assign(count, kNever);
    last_use_.assign(count, kNever);
    for (std::size_t t = 0; t < s_.tasks.size(); ++t)
      for (const Schedule::Touch& touch : touches(t)) {
        const std::int32_t n = number_of(touch);
        if (n < 0 || residency(touch).space == MemorySpace::host) continue;
        const auto time = static_cast<std::int32_t>(t);
        const std::size_t r = row(touch.residency);
        if (!is_work(s_.tasks[t])) continue;
        if (first_use_[r] == kNever) first_use_[r] = time;
        last_use_[r] = time;
      }
    for (std::size_t r = 0; r < count; ++r) {
      const Residency& one = s_.residencies[r];
      const std::int32_t n = out_.number_of[row(one.storage)];
      if (n < 0 || one.space == MemorySpace::host) continue;
      residencies_[static_cast<std::size_t>(n)].push_back(static_cast<std::int32_t>(r));
      out_.storages[static_cast<std::size_t>(n)].bytes = one.bytes;
    }
    for (std::size_t n = 0; n < residencies_.size(); ++n) {
      std::erase_if(residencies_[n], [&](std::int32_t r) { return is_passing(static_cast<std::size_t>(r)); });
      std::ranges::sort(residencies_[n], {},
                        [&](std::int32_t r) { return s_.residencies[static_cast<std::size_t>(r)].first_task; });
      for (const std::int32_t r : residencies_[n])
        out_.residencies[n].push_back({.first = first_use_[static_cast<std::size_t>(r)],
                                       .last = s_.residencies[static_cast<std::size_t>(r)].full_behind
                                                   ? static_cast<std::int32_t>(s_.tasks.size())
                                                   : last_use_[static_cast<std::size_t>(r)]});
    }
  }

  /// Of what an op makes again for the sake of its other outputs, and nothing reads: the framework never has it.
  [[nodiscard]] bool is_passing(std::size_t r) const {
    const Residency& one = s_.residencies[r];
    return first_use_[r] != kNever && first_use_[r] == last_use_[r] &&
           task(first_use_[r]).kind == TaskKind::recompute &&
           s_.tasks[row(one.first_task)].kind == TaskKind::recompute &&
           s_.tasks[row(one.last_task)].kind != TaskKind::swap_out;
  }

  void list_rebuilds() {
    out_.reads_of.resize(out_.time_of.size());
    std::vector<std::uint8_t> has_part(out_.storages.size());
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      const Task& one = s_.tasks[t];
      if (one.kind == TaskKind::op)
        for (const Schedule::Touch& touch : touches(t))
          if (const std::int32_t n = number_of(touch); n >= 0 && touch.kind == AccessKind::write)
            if (std::exchange(has_part[static_cast<std::size_t>(n)], std::uint8_t{1}) == 0)
              part_of_storage_[static_cast<std::size_t>(n)] = out_.part_of[row(one.op)];
      if (one.kind == TaskKind::recompute) add_rebuild(t, again_[t]);
    }
    std::vector<bool> runs_later(out_.time_of.size());
    for (FollowedAction& action : out_.actions | std::views::reverse) {  // rebuilds, by time
      action.last = !runs_later[row(action.op)];
      runs_later[row(action.op)] = true;
    }
  }

  void list_consumers() {
    out_.consumers_of.resize(out_.storages.size());
    for (std::size_t n = 0; n < out_.storages.size(); ++n) {
      const OpId op = out_.storages[n].made_by;
      if (op == kNone<OpId>) continue;
      for (const std::int32_t source : out_.reads_of[row(op)])
        out_.consumers_of[static_cast<std::size_t>(source)].push_back(static_cast<std::int32_t>(n));
    }
  }

  void add_rebuild(std::size_t t, OpId op) {
    const auto time = static_cast<std::int32_t>(t);
    FollowedAction action{.time = time,
                          .kind = Kind::rebuild,
                          .op = op,
                          .part = out_.part_of[row(op)],
                          .first_wanted = static_cast<std::int32_t>(out_.wanted.size())};
    std::vector<std::int32_t>& reads = out_.reads_of[row(op)];
    for (const Schedule::Touch& touch : touches(t)) {
      const std::int32_t number = number_of(touch);
      if (number < 0) continue;
      const auto n = static_cast<std::size_t>(number);
      if (touch.kind == AccessKind::read) {
        out_.recompute_times[n].push_back(time);
        if (std::ranges::find(reads, number) == reads.end()) reads.push_back(number);
        continue;
      }
      out_.storages[n].made_by = op;
      const bool leaves = s_.tasks[row(residency(touch).last_task)].kind == TaskKind::swap_out;
      if (leaves || last_use_[row(touch.residency)] > time) out_.wanted.push_back(number);
    }
    action.wanted_count = static_cast<std::int32_t>(out_.wanted.size()) - action.first_wanted;
    add(action);
  }

  void add_residencies(std::int32_t number) {
    const auto n = static_cast<std::size_t>(number);
    const std::vector<std::int32_t>& list = residencies_[n];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto r = static_cast<std::size_t>(list[i]);
      const Residency& one = s_.residencies[r];
      if (first_use_[r] == kNever) continue;  // copied in and out again, for no op
      const auto put = [&](Kind kind, std::int32_t time, bool last = false) {
        add({.time = time, .kind = kind, .storage = number, .last = last, .part = part_of_storage_[n]});
      };
      if (s_.tasks[row(one.first_task)].kind == TaskKind::swap_in) {
        const TaskId in = one.first_task;
        put(Kind::copy_in, std::min(time_of_clock(one.acquire), first_use_[r]),
            s_.residencies[host_of(in)].last_task == in);
        out_.actions.back().arena = layout_.arena_of[r];
        out_.actions.back().offset = layout_.offset_of[r];
        put(Kind::settle_in, first_use_[r]);
      }
      if (s_.tasks[row(one.last_task)].kind == TaskKind::swap_out) {
        const std::size_t host = host_of(one.last_task);
        put(Kind::copy_out, out_begin_[row(one.last_task)]);
        out_.actions.back().arena = layout_.arena_of[host];
        out_.actions.back().offset = layout_.offset_of[host];
        if (one.release < 2 * s_.compute_tasks)
          put(Kind::settle_out, std::max(time_of_clock(one.release), last_use_[r] + 1));
      } else if (!one.full_behind) {
        put(Kind::end_residency, last_use_[r] + 1, i + 1 == list.size());
      }
    }
  }

  /// A copy out may begin once its content is there, which may be long before its last use: behind what it waits for,
  /// and what the copies before it wait for.
  void find_begins() {
    out_begin_.assign(s_.tasks.size(), kNever);
    std::int32_t begin = 0;
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      if (s_.tasks[t].kind != TaskKind::swap_out) continue;
      for (const TaskId wait : s_.waits_of(id_of<TaskId>(t)))
        if (s_.tasks[row(wait)].lane == Lane::compute) begin = std::max(begin, static_cast<std::int32_t>(wait) + 1);
      out_begin_[t] = begin;
    }
  }

  /// The host side of a copy.
  [[nodiscard]] std::size_t host_of(TaskId copy) const {
    for (const Schedule::Touch& touch : s_.touches_of(copy))
      if (residency(touch).space == MemorySpace::host) return row(touch.residency);
    return 0;  // core/verify does not let that pass
  }

  [[nodiscard]] std::int32_t time_of_clock(std::int32_t half_step) const {
    const auto k = static_cast<std::size_t>(half_step / 2);
    if (k >= compute_.size()) return static_cast<std::int32_t>(s_.tasks.size());
    return compute_[k] + half_step % 2;
  }

  void add(FollowedAction action) {
    const auto& told = told_[static_cast<std::size_t>(action.part)];
    const auto next = std::ranges::lower_bound(told, action.time);
    action.after = next == told.begin() ? kNever : *std::prev(next);
    out_.actions.push_back(action);
  }

  static constexpr auto kAmbiguous = static_cast<OpId>(-2);

  const Schedule& s_;
  const Layout& layout_;
  const FollowedLoop& loop_;
  FollowedProgram out_;
  std::vector<std::int32_t> compute_;                   ///< times of compute tasks
  std::vector<OpId> again_;                             ///< per task: the op that it recomputes
  std::vector<std::vector<std::int32_t>> told_;         ///< per part: times, ascending
  std::vector<std::int32_t> first_use_, last_use_;      ///< per residency
  std::vector<std::vector<std::int32_t>> residencies_;  ///< per managed storage, by time
  std::vector<std::int32_t> part_of_storage_;
  std::vector<std::int32_t> out_begin_;  ///< per task, of copies out: when it may begin
};

}  // namespace

Result<FollowedProgram> bind_followed(const Program& program, const FollowedLoop& loop) {
  return Binder(program, loop).bind();
}

}  // namespace tidemark::swap
