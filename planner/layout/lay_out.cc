#include "planner/layout/lay_out.h"

#include <algorithm>
#include <numeric>

#include "planner/layout/packer.h"

namespace tidemark::layout {
namespace {

// Shares of the load above it.
constexpr Bytes kPerfect = 1024;
constexpr Bytes kGood =
    54;  // a little more than what is left where targets are that much below the budget (built_plan.h)

/// What is good enough of `load` bytes, above the `base` of an arena with so much room. A brief layout of what exceeds
/// the room only tells how much is needed; but where there is no room at all, as little as can be is asked for.
Bytes enough_bytes(Bytes load, Bytes room_bytes, Bytes base, bool is_brief) {
  const Bytes perfect = load + load / kPerfect;
  if (!is_brief || room_bytes <= 0) return std::max(perfect, std::min(room_bytes, load + load / kGood));
  const Bytes good = load + (base + load) / kGood;
  return load > room_bytes ? good : std::max(perfect, std::min(room_bytes, good));
}

constexpr std::size_t kBriefOrders = 2;

PackAnswer pack_to(const PackProblem& problem, Bytes enough, const LayoutRequest& request) {
  PackLimits limits{.work = request.work, .should_stop = request.should_stop, .enough_bytes = enough};
  if (request.is_brief) limits.most_orders = kBriefOrders;
  return find_packer("auto")->pack(problem, limits);
}

bool lives_all_step(const Residency& residency, const Schedule& schedule) {
  return residency.acquire <= 0 && residency.release >= 2 * schedule.compute_tasks - 1;
}

std::size_t first_of(const std::vector<Arena>& arenas, MemorySpace space) {
  return static_cast<std::size_t>(std::ranges::find(arenas, space, [](const Arena& arena) { return arena.space; }) -
                                  arenas.begin());
}

std::vector<ArenaId> arenas_of(const Schedule& schedule, const LayoutRequest& request) {
  const std::size_t device = first_of(request.arenas, MemorySpace::device);
  const std::size_t host = first_of(request.arenas, MemorySpace::host);
  std::vector<ArenaId> arena_of(schedule.residencies.size());
  for (std::size_t r = 0; r < arena_of.size(); ++r) {
    const std::size_t usual = schedule.residencies[r].space == MemorySpace::device ? device : host;
    arena_of[r] = id_of<ArenaId>(request.arena_of ? request.arena_of(id_of<ResidencyId>(r)) : usual);
  }
  return arena_of;
}

/// Has content before the step and behind it.
bool outlives_step(const Residency& residency) {
  return residency.full_before && residency.full_behind;
}

/// As gradients: made in the step, and there at its end.
bool is_left_behind(const Residency& residency, const Schedule& schedule) {
  return !residency.full_before && residency.full_behind && residency.release >= 2 * schedule.compute_tasks - 1;
}

/// What all sizes are multiples of: blocks stand on one another at such offsets, and packers that place from above are
/// to as well, as who serves a framework's requests has blocks of such units.
Bytes unit_of(const PackProblem& problem) {
  Bytes unit = 0;
  for (const PackItem& item : problem.items) unit = std::gcd(unit, round_up(item.bytes, problem.alignment));
  return std::max(unit, problem.alignment);
}

/// Offsets, one above another from 0 on in the order in which they are made, of the items at these rows.
std::vector<Bytes> pile_up(const PackProblem& problem, std::vector<std::size_t> rows) {
  std::ranges::stable_sort(rows, {}, [&](std::size_t i) { return problem.items[i].begin; });
  std::vector<Bytes> offsets(problem.items.size(), kAnywhere);
  Bytes top = 0;
  for (const std::size_t i : rows) {
    offsets[i] = top;
    top += round_up(problem.items[i].bytes, problem.alignment);
  }
  return offsets;
}

/// With the rows of `lasting` piled up at the bottom, where that packs low enough or no higher than without: steps that
/// depart from the plan need memory in one piece, and what stays in between cannot be moved.
PackAnswer pack_above(const PackProblem& problem, std::vector<std::size_t> lasting, Bytes enough, Bytes room_bytes,
                      const LayoutRequest& request) {
  if (lasting.empty()) return pack_to(problem, enough, request);
  PackProblem piled = problem;
  piled.fixed_offset = pile_up(problem, std::move(lasting));
  PackAnswer above = pack_to(piled, enough, request);
  if (above.packing.height_bytes > std::min(enough, room_bytes) && !request.is_brief) {
    PackAnswer anywhere = pack_to(problem, enough, request);
    if (anywhere.packing.height_bytes < above.packing.height_bytes) return anywhere;
  }
  above.bound_bytes = packing_load(problem);
  return above;
}

/// Places the residencies of one arena and sets its height. What lives all step lies at the bottom of device memory: it
/// costs nobody a gap. Lowest is what outlives the step, by id, as who follows the plan has it elsewhere.
PackAnswer lay_out_arena(const Schedule& schedule, ArenaId id, const LayoutRequest& request, Layout& layout) {
  Arena& arena = layout.arenas[row(id)];
  PackProblem problem{.alignment = arena.alignment_bytes};
  std::vector<std::size_t> residencies, left_behind;  // the latter by row of the problem
  Bytes base = 0;
  const auto place_lowest = [&](std::size_t r) {
    layout.offset_of[r] = base;
    base += round_up(schedule.residencies[r].bytes, arena.alignment_bytes);
  };
  const bool is_device = arena.space == MemorySpace::device;
  for (std::size_t r = 0; is_device && r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (layout.arena_of[r] == id && lives_all_step(residency, schedule) && outlives_step(residency)) place_lowest(r);
  }
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    if (layout.arena_of[r] != id) continue;
    const Residency& residency = schedule.residencies[r];
    if (is_device && lives_all_step(residency, schedule)) {
      if (!outlives_step(residency)) place_lowest(r);
      continue;
    }
    if (is_device && is_left_behind(residency, schedule)) left_behind.push_back(problem.items.size());
    problem.items.push_back({residency.acquire, residency.release, residency.bytes});
    residencies.push_back(r);
  }
  problem.alignment = unit_of(problem);
  const Bytes room = arena.capacity_bytes > 0 ? std::max<Bytes>(arena.capacity_bytes - base, 1) : 0;
  const Bytes enough = enough_bytes(packing_load(problem), room, base, request.is_brief);
  PackAnswer answer = pack_above(problem, std::move(left_behind), enough, room, request);
  for (std::size_t i = 0; i < residencies.size(); ++i)
    layout.offset_of[residencies[i]] = base + answer.packing.offsets[i];
  arena.height_bytes = base + answer.packing.height_bytes;
  answer.bound_bytes += base;
  return answer;
}

}  // namespace

std::vector<Arena> device_and_host(Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment) {
  return {{.space = MemorySpace::device,
           .kind = Arena::Kind::mapped,
           .capacity_bytes = capacity_bytes,
           .alignment_bytes = alignment},
          {.space = MemorySpace::host,
           .kind = Arena::Kind::pinned,
           .capacity_bytes = host_capacity_bytes,
           .alignment_bytes = alignment}};
}

Layout lay_out(const Schedule& schedule, const LayoutRequest& request) {
  Layout layout{.arenas = request.arenas, .arena_of = arenas_of(schedule, request)};
  layout.offset_of.resize(schedule.residencies.size(), 0);
  for (std::size_t a = 0; a < layout.arenas.size(); ++a) {
    layout.arenas[a].dynamic_bytes = 0;
    const PackAnswer answer = lay_out_arena(schedule, id_of<ArenaId>(a), request, layout);
    if (a > 0) continue;
    layout.device_load_bytes = answer.bound_bytes;
    layout.packer = answer.packer;
  }
  return layout;
}

Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment) {
  return lay_out(schedule, {.arenas = device_and_host(capacity_bytes, host_capacity_bytes, alignment), .arena_of = {}});
}

}  // namespace tidemark::layout
