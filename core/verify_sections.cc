// Sections that may run in chunks. That everything they need is in memory at their end follows from the compute clock
// (core/row_sections.h); here is that it holds what the chunks mean to read, and that no other task touches what they
// write before it is there, or while they add to it.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/row_sections.h"
#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

bool contains(const std::vector<TaskId>& ascending, TaskId task) {
  return std::ranges::binary_search(ascending, task);
}

bool is_copy(const Task& task) {
  return task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
}

class SectionCheck {
 public:
  SectionCheck(const Graph& graph, const Program& program, const TaskOrder& order)
      : graph_(graph), program_(program), schedule_(program.schedule), order_(order) {}

  Found run() {
    if (std::string why = check_ends(); !why.empty()) return broken(why);
    if (program_.section_ends.empty()) return {};
    index();
    for (const RowSection& section : row_sections(program_)) {
      if (std::string why = check_copies(section); !why.empty()) return broken(section, why);
      if (std::string why = check_room(section); !why.empty()) return broken(section, why);
      if (!section.fault.empty()) continue;
      if (std::string why = check_lanes(section); !why.empty()) return broken(section, why);
      for (const auto* list : {&section.once, &section.loop})
        for (const TaskId task : *list)
          if (std::string why = check_task(section, task); !why.empty()) return broken(section, why);
    }
    return {};
  }

 private:
  struct Touching {
    TaskId task = kNone<TaskId>;
    AccessKind kind = AccessKind::read;
  };

  [[nodiscard]] std::string check_ends() const {
    std::size_t next = 0;
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const Task& task = schedule_.tasks[t];
      if (is_copy(task) || !graph_.op_templates[row(task.op_template)].ends_rows) continue;
      if (next == program_.section_ends.size() || program_.section_ends[next] != id_of<TaskId>(t))
        return fmt::format("{} sums rows up and is not listed as the end of a section", name(id_of<TaskId>(t)));
      ++next;
    }
    if (next == program_.section_ends.size()) return {};
    return fmt::format("{} ends of sections are listed, there are {}", program_.section_ends.size(), next);
  }

  void index() {
    touching_.resize(graph_.storages.size());
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t)
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
        if (schedule_.residencies[row(touch.residency)].space == MemorySpace::device)
          touching_[row(storage_of(touch.residency))].push_back({id_of<TaskId>(t), touch.kind});
  }

  /// A message is sent once: its other end has no chunks.
  [[nodiscard]] std::string check_lanes(const RowSection& section) const {
    for (const auto* list : {&section.tasks, &section.once, &section.loop})
      for (const TaskId task : *list)
        if (const Lane lane = schedule_.tasks[row(task)].lane; lane == Lane::send || lane == Lane::receive)
          return name(task) + " is a message to another rank";
    return {};
  }

  /// Where there is no room for a copy out the sections behind it run in chunks, which the one that has begun cannot.
  [[nodiscard]] std::string check_copies(const RowSection& section) const {
    for (const ResidencyId back : section.rows) {
      const TaskId in = schedule_.residencies[row(back)].first_task;
      if (in <= section.begin || schedule_.tasks[row(in)].kind != TaskKind::swap_in) continue;
      for (const Schedule::Touch& touch : schedule_.touches_of(in)) {
        const TaskId out = schedule_.residencies[row(touch.residency)].first_task;
        if (touch.kind == AccessKind::read && out >= section.begin)
          return name_of(&graph_, storage_of(back)) + " leaves device memory and is read again within it";
      }
    }
    return {};
  }

  /// Chunks write to a room that is older than the section, where the plan only reads. What is issued behind their
  /// begin is theirs, or a copy that is left out.
  [[nodiscard]] std::string check_room(const RowSection& section) const {
    if (section.room == kNone<ResidencyId>) return {};
    const StorageId storage = storage_of(section.room);
    for (const Touching& t : touching_[row(storage)])
      if (t.task < section.begin && schedule_.tasks[row(t.task)].lane != Lane::compute &&
          touches(t.task, section.room) && !order_.before(t.task, section.end))
        return fmt::format("{} may touch {} while chunks stand there", name(t.task), name_of(&graph_, storage));
    return {};
  }
  [[nodiscard]] bool touches(TaskId task, ResidencyId residency) const {
    return std::ranges::any_of(schedule_.touches_of(task),
                               [&](const Schedule::Touch& touch) { return touch.residency == residency; });
  }

  [[nodiscard]] std::string check_task(const RowSection& section, TaskId task) const {
    for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
      const StorageId storage = storage_of(touch.residency);
      const auto found = std::ranges::lower_bound(section.standing, storage, {}, &StandingPlace::storage);
      const bool standing = found != section.standing.end() && found->storage == storage;
      const bool on_rows = graph_.template_of(storage).routed_rows > 0;
      const bool sum = touch.kind == AccessKind::write && !on_rows && contains(section.tasks, task);
      if (!standing && !sum) continue;
      std::string why =
          touch.kind == AccessKind::read ? check_source(section, task, storage) : check_sum(section, task, storage);
      if (!why.empty()) return why;
    }
    return {};
  }

  /// What a chunk reads is what its task reads by the plan: no task outside the section writes in between.
  [[nodiscard]] std::string check_source(const RowSection& section, TaskId reader, StorageId storage) const {
    const TaskId from = std::min(reader, section.end), to = std::max(reader, section.end);
    for (const Touching& t : touching_[row(storage)]) {
      if (t.kind != AccessKind::write || t.task <= from || t.task >= to || belongs(section, t.task)) continue;
      if (!adds(t.task, storage) && schedule_.tasks[row(t.task)].kind == TaskKind::op)
        return fmt::format("{} would read {} as {} has left it", name(reader), name_of(&graph_, storage), name(t.task));
    }
    return {};
  }

  /// What a chunk writes is written later, or earlier, than by the plan: other tasks do no more than add to it in
  /// between, and none touches it at the same time.
  [[nodiscard]] std::string check_sum(const RowSection& section, TaskId writer, StorageId storage) const {
    const TaskId from = std::min(writer, section.end), to = std::max(writer, section.end);
    const bool again = !contains(section.tasks, writer);  // made once more, as it was
    for (const Touching& t : touching_[row(storage)]) {
      if (belongs(section, t.task)) continue;
      const bool between = !again && t.task > from && t.task < to;
      if (between && !adds(t.task, storage))
        return fmt::format("{} touches {}, which {} has not written yet in chunks", name(t.task),
                           name_of(&graph_, storage), name(writer));
      if (schedule_.tasks[row(t.task)].lane != Lane::compute && !order_.before(t.task, section.end) &&
          !order_.before(section.end, t.task))
        return fmt::format("{} may touch {} while chunks write it", name(t.task), name_of(&graph_, storage));
    }
    return {};
  }

  [[nodiscard]] bool belongs(const RowSection& section, TaskId task) const {
    return contains(section.tasks, task) || contains(section.once, task) || contains(section.loop, task);
  }
  /// Sums of one lane may be added up in another order: gradients, to which backward ops add.
  [[nodiscard]] bool adds(TaskId task, StorageId storage) const {
    const Task& t = schedule_.tasks[row(task)];
    if (graph_.template_of(storage).role != StorageRole::gradient || t.kind != TaskKind::op) return false;
    const OpPhase phase = graph_.op_templates[row(t.op_template)].phase;
    return t.lane == Lane::compute && (phase == OpPhase::backward || phase == OpPhase::weight_gradient);
  }
  [[nodiscard]] StorageId storage_of(ResidencyId r) const { return schedule_.residencies[row(r)].storage; }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] static Violation broken(const std::string& why) {
    return {.rule = Violation::Rule::section, .detail = why};
  }
  [[nodiscard]] Violation broken(const RowSection& section, const std::string& why) const {
    return broken(fmt::format("the section that ends with {}: {}", name(section.end), why));
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  std::vector<std::vector<Touching>> touching_;  // per storage, device side, in issue order
};

}  // namespace

Found check_sections(const Graph& graph, const Program& program, const TaskOrder& order) {
  return SectionCheck(graph, program, order).run();
}

}  // namespace tidemark::verify
