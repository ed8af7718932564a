#include "core/row_sections.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/dynamic_region.h"

namespace tidemark {
namespace {

constexpr Bytes kPlaceAlignment = 512;
constexpr std::int32_t kAllLoop = std::numeric_limits<std::int32_t>::max();

bool is_op(const Task& task) {
  return task.kind == TaskKind::op;
}

/// What every section asks of the program, found once.
class SectionIndex {
 public:
  explicit SectionIndex(const Program& program)
      : program_(program),
        schedule_(program.schedule),
        clock_(compute_clock(program.schedule)),
        routed_(storage_count(), -1),
        residencies_(storage_count()),
        writers_(storage_count()) {
    for (std::size_t i = 0; i < program.routed.size(); ++i)
      routed_[row(storage_of(program.routed[i].residency))] = static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < schedule_.residencies.size(); ++i)
      if (schedule_.residencies[i].space == MemorySpace::device)
        residencies_[row(schedule_.residencies[i].storage)].push_back(id_of<ResidencyId>(i));
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      if (!is_op(schedule_.tasks[t])) continue;
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
        if (touch.kind == AccessKind::write) writers_[row(storage_of(touch.residency))].push_back(id_of<TaskId>(t));
    }
  }

  [[nodiscard]] std::vector<RowSection> split() const;
  void add_gathering(const std::vector<std::int32_t>& section_of, std::vector<RowSection>& sections) const;
  [[nodiscard]] StorageId storage_of(ResidencyId r) const { return schedule_.residencies[row(r)].storage; }
  [[nodiscard]] bool is_routed(StorageId s) const { return routed_[row(s)] >= 0; }
  [[nodiscard]] std::int32_t routed(StorageId s) const { return routed_[row(s)]; }
  /// The op of this site that wrote the storage last before `task`.
  [[nodiscard]] std::optional<TaskId> writer_before(StorageId s, SiteId site, TaskId task) const {
    const std::vector<TaskId>& writers = writers_[row(s)];
    auto at = std::ranges::lower_bound(writers, task);
    while (at != writers.begin())
      if (schedule_.tasks[row(*--at)].site == site) return *at;
    return std::nullopt;
  }
  /// Where the storage is while the task runs, by the plan.
  [[nodiscard]] std::optional<ResidencyId> touched_by(TaskId task, StorageId s) const {
    for (const Schedule::Touch& touch : schedule_.touches_of(task))
      if (storage_of(touch.residency) == s && schedule_.residencies[row(touch.residency)].space == MemorySpace::device)
        return touch.residency;
    return std::nullopt;
  }
  [[nodiscard]] std::optional<ResidencyId> in_memory_at(TaskId end, StorageId s) const {
    const std::int32_t instant = 2 * clock_[row(end)];
    for (const ResidencyId r : residencies_[row(s)]) {
      const Residency& residency = schedule_.residencies[row(r)];
      if (residency.acquire <= std::max(0, instant - 1) && residency.release >= instant) return r;
    }
    return std::nullopt;
  }
  [[nodiscard]] bool stands_all_step(ResidencyId r) const {
    return schedule_.residencies[row(r)].full_before && schedule_.residencies[row(r)].full_behind;
  }
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  [[nodiscard]] std::size_t storage_count() const {
    std::size_t count = 0;
    for (const Residency& r : program_.schedule.residencies) count = std::max(count, row(r.storage) + 1);
    return count;
  }

  const Program& program_;
  const Schedule& schedule_;
  std::vector<std::int32_t> clock_;
  std::vector<std::int32_t> routed_;  ///< per storage
  std::vector<std::vector<ResidencyId>> residencies_;
  std::vector<std::vector<TaskId>> writers_;  ///< ops, per storage, ascending
};

/// Tasks on rows of each site, cut at the ends.
std::vector<RowSection> SectionIndex::split() const {
  std::vector<RowSection> sections;
  std::size_t sites = 0;
  for (const Task& task : schedule_.tasks)
    if (task.site != kNone<SiteId>) sites = std::max(sites, row(task.site) + 1);
  std::vector<std::vector<std::size_t>> of_site(sites);
  for (const TaskId end : program_.section_ends) {
    const SiteId site = schedule_.tasks[row(end)].site;
    if (site == kNone<SiteId>) continue;
    of_site[row(site)].push_back(sections.size());
    sections.push_back({.site = site, .end = end});
  }
  std::vector<std::size_t> next(sites, 0);
  std::vector<std::int32_t> section_of(schedule_.tasks.size(), -1);
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
    const Task& task = schedule_.tasks[t];
    if (task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in || task.site == kNone<SiteId>) continue;
    const std::vector<std::size_t>& list = of_site[row(task.site)];
    if (list.empty()) continue;
    std::size_t& at = next[row(task.site)];
    while (at + 1 < list.size() && sections[list[at]].end < id_of<TaskId>(t)) ++at;
    // What is made again is for what comes behind the forward pass, however early it is made.
    const bool is_early = at == 0 && task.kind == TaskKind::recompute && list.size() > 1;
    RowSection& section = sections[list[is_early ? 1 : at]];
    bool on_rows = false;
    for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
      if (is_routed(storage_of(touch.residency))) {
        section.rows.push_back(touch.residency);
        on_rows = true;
      }
    if (!on_rows) continue;
    section.tasks.push_back(id_of<TaskId>(t));
    section_of[t] = static_cast<std::int32_t>(&section - sections.data());
  }
  add_gathering(section_of, sections);
  for (RowSection& section : sections) {
    std::ranges::sort(section.rows);
    section.rows.erase(std::ranges::unique(section.rows).begin(), section.rows.end());
    if (!section.tasks.empty()) section.begin = section.tasks.front();
  }
  return sections;
}

/// Collectives that make something for one section alone, such as tokens that rows are picked from: in chunks it is
/// made again, so there they do nothing at their own places either.
void SectionIndex::add_gathering(const std::vector<std::int32_t>& section_of, std::vector<RowSection>& sections) const {
  struct Gathering {
    TaskId task = kNone<TaskId>;
    std::int32_t section = -1;  ///< of those that read it; -1: none so far
    bool is_shared = false;
  };
  std::vector<Gathering> found;
  std::vector<std::int32_t> made_by(schedule_.residencies.size(), -1);
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
    const Task& task = schedule_.tasks[t];
    if ((task.lane != Lane::intra_comm && task.lane != Lane::inter_comm) || section_of[t] >= 0) continue;
    Gathering gathering{.task = id_of<TaskId>(t)};
    for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t))) {
      if (touch.kind != AccessKind::write) continue;
      made_by[row(touch.residency)] = static_cast<std::int32_t>(found.size());
      gathering.is_shared = gathering.is_shared || schedule_.residencies[row(touch.residency)].full_behind;
    }
    found.push_back(gathering);
  }
  if (found.empty()) return;
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t)
    for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t))) {
      if (made_by[row(touch.residency)] < 0) continue;
      Gathering& gathering = found[static_cast<std::size_t>(made_by[row(touch.residency)])];
      if (gathering.task == id_of<TaskId>(t)) continue;
      const bool reads_first = gathering.section < 0 && section_of[t] >= 0;
      if (reads_first) gathering.section = section_of[t];
      gathering.is_shared = gathering.is_shared || section_of[t] != gathering.section || section_of[t] < 0;
    }
  for (const Gathering& gathering : found) {
    if (gathering.section < 0 || gathering.is_shared) continue;
    RowSection& section = sections[static_cast<std::size_t>(gathering.section)];
    if (schedule_.tasks[row(gathering.task)].site != section.site) continue;
    section.tasks.insert(std::ranges::upper_bound(section.tasks, gathering.task), gathering.task);
  }
}

/// Which ops the chunks of a section run, and where what they touch stands.
class ChunkPlanner {
 public:
  ChunkPlanner(const SectionIndex& index, RowSection& section) : index_(index), section_(section) {}

  void run() {
    for (const TaskId task : section_.tasks)
      if (is_op(task_of(task)) || brings_what_is_read(task)) include(task);
    find_gathered();
    for (const TaskId task : tasks_) (is_by_rows(task) ? section_.loop : section_.once).push_back(task);
    order_by_part();
    place();
    find_room();
  }

 private:
  [[nodiscard]] const Schedule& schedule() const { return index_.program().schedule; }
  [[nodiscard]] const Task& task_of(TaskId task) const { return schedule().tasks[row(task)]; }
  void fail(std::string why) {
    if (section_.fault.empty()) section_.fault = std::move(why);
  }

  /// Recomputes of rows are what the chunks do anyway; others bring back what tasks outside the section read.
  [[nodiscard]] bool brings_what_is_read(TaskId task) const {
    return std::ranges::any_of(schedule().touches_of(task), [&](const Schedule::Touch& touch) {
      return touch.kind == AccessKind::write && standing(index_.storage_of(touch.residency));
    });
  }

  void include(TaskId task) {
    if (!tasks_.insert(task).second) return;
    for (const Schedule::Touch& touch : schedule().touches_of(task))
      if (touch.kind == AccessKind::read) need(index_.storage_of(touch.residency), task);
  }

  /// What is read: written by the chunks themselves, or in memory at the end, or made again.
  void need(StorageId storage, TaskId reader) {
    if (!index_.is_routed(storage) && is_source(storage)) return;
    const std::optional<TaskId> writer = index_.writer_before(storage, section_.site, std::min(reader, section_.end));
    if (!writer) return fail("what its ops read is not in memory at its end, and no op of its site makes it");
    include(*writer);
  }

  [[nodiscard]] bool is_source(StorageId storage) const {
    if (index_.touched_by(section_.end, storage)) return true;
    const std::optional<ResidencyId> r = index_.in_memory_at(section_.end, storage);
    return r && index_.stands_all_step(*r);
  }

  /// Where a storage that is not routed stands by the plan: one that the section reads or writes. What is made again in
  /// front of the chunks is theirs alone.
  [[nodiscard]] std::optional<ResidencyId> standing(StorageId storage) const {
    if (index_.is_routed(storage)) return std::nullopt;
    if (const auto r = index_.touched_by(section_.end, storage)) return r;
    const std::optional<ResidencyId> r = index_.in_memory_at(section_.end, storage);
    return r && (index_.stands_all_step(*r) || is_sum(storage)) ? r : std::nullopt;
  }
  [[nodiscard]] bool is_sum(StorageId storage) const {
    return std::ranges::any_of(section_.tasks, [&](TaskId task) {
      return std::ranges::any_of(schedule().touches_of(task), [&](const Schedule::Touch& touch) {
        return touch.kind == AccessKind::write && index_.storage_of(touch.residency) == storage;
      });
    });
  }

  [[nodiscard]] bool is_by_rows(TaskId task) const {
    return std::ranges::any_of(schedule().touches_of(task), [&](const Schedule::Touch& touch) {
      const StorageId s = index_.storage_of(touch.residency);
      return index_.is_routed(s) || gathered_.contains(s);
    });
  }

  [[nodiscard]] std::vector<StorageId> rows_of(TaskId task) const {
    std::vector<StorageId> rows;
    for (const Schedule::Touch& touch : schedule().touches_of(task))
      if (const StorageId s = index_.storage_of(touch.residency); index_.is_routed(s)) rows.push_back(s);
    return rows;
  }

  /// Parts of an exchange have no rows in common but at the end, and are planned one beside the other. Chunks run one
  /// op behind the other: part by part, so that the rows of one stand at a time. What gathers for all comes first.
  void order_by_part() {
    if (rows_of(section_.end).size() < 2) return;
    std::vector<std::int32_t> part(section_.loop.size(), -1);  // the first op that shares rows with it
    std::map<StorageId, std::int32_t> part_of;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (section_.loop[i] == section_.end) continue;
        for (const StorageId s : rows_of(section_.loop[i])) {
          if (part[i] < 0) part[i] = static_cast<std::int32_t>(i);
          std::int32_t& known = part_of.try_emplace(s, part[i]).first->second;
          moved = moved || known != part[i];
          known = part[i] = std::min(known, part[i]);
        }
      }
    }
    for (std::size_t i = 0; i < part.size(); ++i)
      if (section_.loop[i] == section_.end) part[i] = *std::ranges::max_element(part);
    std::vector<std::size_t> order(part.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return part[i]; });
    std::vector<TaskId> loop;
    for (const std::size_t i : order) loop.push_back(section_.loop[i]);
    section_.loop = std::move(loop);
  }

  /// What collectives gather for ops of the compute lane to pick rows from: each row is one token of it.
  void find_gathered() {
    for (const TaskId task : tasks_) {
      if (task_of(task).lane != Lane::compute) continue;
      const auto touches = schedule().touches_of(task);
      const auto rows = std::ranges::find_if(touches, [&](const Schedule::Touch& touch) {
        return touch.kind == AccessKind::write && index_.is_routed(index_.storage_of(touch.residency));
      });
      if (rows == touches.end()) continue;
      for (const Schedule::Touch& touch : touches) {
        const StorageId s = index_.storage_of(touch.residency);
        if (touch.kind == AccessKind::read && is_gathered(s, task)) pick_rows(s, rows->residency);
      }
    }
  }
  void pick_rows(StorageId from, ResidencyId rows) {
    PickedRows& picked = gathered_[from];
    const auto bytes = [&](ResidencyId r) { return schedule().residencies[row(r)].bytes; };
    if (picked.into.empty() || bytes(rows) > bytes(picked.most)) picked.most = rows;
    picked.into.insert(index_.storage_of(rows));
  }
  [[nodiscard]] bool is_gathered(StorageId s, TaskId reader) const {
    if (index_.is_routed(s) || standing(s)) return false;
    const std::optional<TaskId> writer = index_.writer_before(s, section_.site, reader);
    return writer && tasks_.contains(*writer) && task_of(*writer).lane != Lane::compute;
  }

  void place() {
    for (const TaskId task : section_.once) place_touches(task, -1);
    for (std::size_t i = 0; i < section_.loop.size(); ++i)
      place_touches(section_.loop[i], static_cast<std::int32_t>(i));
    std::ranges::sort(section_.standing, {}, &StandingPlace::storage);
  }

  void place_touches(TaskId task, std::int32_t step) {
    for (const Schedule::Touch& touch : schedule().touches_of(task)) {
      const StorageId s = index_.storage_of(touch.residency);
      if (const auto known = std::ranges::find(section_.places, s, &ChunkPlace::storage);
          known != section_.places.end()) {
        known->last = std::max(known->last, step);
        continue;
      }
      if (std::ranges::find(section_.standing, s, &StandingPlace::storage) != section_.standing.end()) continue;
      if (const std::optional<ResidencyId> r = standing(s)) {
        section_.standing.push_back({.storage = s, .residency = *r});
        continue;
      }
      section_.places.push_back(place_in_room(touch.residency, step));
    }
  }

  [[nodiscard]] ChunkPlace place_in_room(ResidencyId residency, std::int32_t step) const {
    const StorageId s = index_.storage_of(residency);
    const Bytes bytes = schedule().residencies[row(residency)].bytes;
    if (const auto gathered = gathered_.find(s); gathered != gathered_.end()) {
      ChunkPlace place = place_in_room(gathered->second.most, step);
      place.storage = s;
      place.times = static_cast<std::int32_t>(gathered->second.into.size());
      place.most = bytes;
      return place;
    }
    const bool by_rows = index_.is_routed(s);
    return {.storage = s,
            .routed = index_.routed(s),
            .bytes = bytes,
            .first = by_rows ? step : -1,
            .last = by_rows ? step : kAllLoop};
  }

  void find_room() {
    Bytes most = 0;
    for (const Schedule::Touch& touch : schedule().touches_of(section_.end)) {
      const Residency& r = schedule().residencies[row(touch.residency)];
      if (!index_.is_routed(r.storage) || r.space != MemorySpace::device || r.bytes <= most) continue;
      most = r.bytes;
      section_.room = touch.residency;
    }
    if (section_.room == kNone<ResidencyId>) return fail("its end touches no routed storage");
    if (!std::ranges::binary_search(section_.tasks, section_.end)) fail("its end is no task of its own");
  }

  /// Rows picked from gathered tokens: as many of each part of the exchange, but for one.
  struct PickedRows {
    ResidencyId most = kNone<ResidencyId>;
    std::set<StorageId> into;
  };

  const SectionIndex& index_;
  RowSection& section_;
  std::set<TaskId> tasks_;  ///< in issue order
  std::map<StorageId, PickedRows> gathered_;
};

/// Part [n * chunk, n * (chunk + 1)) of `whole`, with n what the first has.
std::int64_t part_of(std::int64_t whole, std::int32_t chunks, std::int32_t chunk) {
  const std::int64_t each = (whole + chunks - 1) / chunks;
  return std::min(whole, each * (chunk + 1)) - std::min(whole, each * chunk);
}

}  // namespace

Bytes chunk_bytes(const Program& program, const ChunkPlace& place, const SiteLoad& load, std::int32_t chunks,
                  std::int32_t chunk) {
  if (place.routed < 0) return place.bytes;
  const RoutedResidency& r = program.routed[static_cast<std::size_t>(place.routed)];
  const std::int64_t rows = r.row_bytes > 0 ? (routed_bytes(r, load) - r.fixed_bytes) / r.row_bytes : 0;
  const Bytes part = r.fixed_bytes + part_of(rows, chunks, chunk) * r.row_bytes;
  return part > place.most / place.times ? place.most : place.times * part;
}

std::vector<RowSection> row_sections(const Program& program) {
  if (program.section_ends.empty()) return {};
  const SectionIndex index(program);
  std::vector<RowSection> sections = index.split();
  for (RowSection& section : sections) ChunkPlanner(index, section).run();
  return sections;
}

/// Lowest bytes first that no place in use at the same time has: a handful of places.
std::vector<Bytes> room_offsets(const Program& program, const RowSection& section, const SiteLoad& load,
                                std::int32_t chunks) {
  std::vector<Bytes> offsets, sizes;
  for (std::size_t i = 0; i < section.places.size(); ++i) {
    const ChunkPlace& place = section.places[i];
    const Bytes size = round_up(chunk_bytes(program, place, load, chunks, 0), kPlaceAlignment);
    Bytes offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < i; ++k) {
        const ChunkPlace& other = section.places[k];
        const bool at_once = place.first <= other.last && other.first <= place.last;
        if (!at_once || offset >= offsets[k] + sizes[k] || offsets[k] >= offset + size) continue;
        offset = offsets[k] + sizes[k];
        moved = true;
      }
    }
    offsets.push_back(offset);
    sizes.push_back(size);
  }
  return offsets;
}

Bytes room_bytes(const Program& program, const RowSection& section, const SiteLoad& load, std::int32_t chunks) {
  const std::vector<Bytes> offsets = room_offsets(program, section, load, chunks);
  Bytes most = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i)
    most = std::max(most, offsets[i] + chunk_bytes(program, section.places[i], load, chunks, 0));
  return most;
}

std::int32_t least_chunks(const Program& program, const RowSection& section, const SiteLoad& load, Bytes room) {
  if (!section.fault.empty()) return 0;
  // More chunks need less, but for how they lie: the first power of two that does bounds the search.
  std::int32_t many = kFewestChunks;  // does
  while (many < kMostChunks && room_bytes(program, section, load, many) > room) many *= 2;
  if (room_bytes(program, section, load, many) > room) return 0;
  std::int32_t few = many / 2;  // does not, or is below kFewestChunks
  while (many - few > 1) {
    const std::int32_t middle = few + (many - few) / 2;
    (room_bytes(program, section, load, middle) <= room ? many : few) = middle;
  }
  return many;
}

}  // namespace tidemark
