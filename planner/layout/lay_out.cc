#include "planner/layout/lay_out.h"

#include <algorithm>

namespace tidemark {
namespace {

// Shares of the load above it.
constexpr Bytes kPerfect = 1024;
constexpr Bytes kGoodWhereItFits = 64;

constexpr ArenaId kDeviceArena = id_of<ArenaId>(0);
constexpr ArenaId kHostArena = id_of<ArenaId>(1);

bool lives_all_step(const Residency& residency, const Schedule& schedule) {
  return residency.acquire <= 0 && residency.release >= 2 * schedule.compute_tasks - 1;
}

// Whatever lives all step lies at the bottom, in order of id: it costs nobody a gap.
Bytes lay_out_static(const Schedule& schedule, Layout& layout, Bytes alignment) {
  Bytes top = 0;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (residency.space != MemorySpace::device || !lives_all_step(residency, schedule)) continue;
    layout.offset_of[r] = top;
    top += round_up(residency.bytes, alignment);
  }
  return top;
}

struct Selection {
  PackProblem problem;
  std::vector<std::size_t> residencies;
};

template <class Wanted>
Selection select(const Schedule& schedule, Bytes alignment, Wanted wanted) {
  Selection selection{.problem = {.alignment = alignment}};
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (!wanted(residency)) continue;
    selection.problem.items.push_back({residency.acquire, residency.release, residency.bytes});
    selection.residencies.push_back(r);
  }
  return selection;
}

void place(const Selection& selection, const Packing& packing, Bytes base, Layout& layout) {
  for (std::size_t i = 0; i < selection.residencies.size(); ++i) {
    layout.offset_of[selection.residencies[i]] = base + packing.offsets[i];
  }
}

}  // namespace

PackAnswer pack_to_fit(const PackProblem& problem, Bytes room_bytes) {
  const Bytes load = packing_load(problem);
  const Bytes enough = std::max(load + load / kPerfect, std::min(room_bytes, load + load / kGoodWhereItFits));
  return find_packer("auto")->pack(problem, {.work = 0, .enough_bytes = enough});
}

Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment) {
  Layout layout;
  const std::size_t count = schedule.residencies.size();
  layout.arena_of.resize(count, kDeviceArena);
  layout.offset_of.resize(count, 0);
  for (std::size_t r = 0; r < count; ++r) {
    if (schedule.residencies[r].space == MemorySpace::host) layout.arena_of[r] = kHostArena;
  }

  const Bytes base = lay_out_static(schedule, layout, alignment);
  const Selection device = select(schedule, alignment, [&](const Residency& r) {
    return r.space == MemorySpace::device && !lives_all_step(r, schedule);
  });
  const PackAnswer best = pack_to_fit(device.problem, capacity_bytes - base);
  place(device, best.packing, base, layout);

  const Selection host = select(schedule, alignment, [](const Residency& r) { return r.space == MemorySpace::host; });
  const PackAnswer host_best = pack_to_fit(host.problem, host_capacity_bytes);
  place(host, host_best.packing, 0, layout);

  layout.arenas = {
      {.space = MemorySpace::device,
       .kind = Arena::Kind::mapped,
       .capacity_bytes = capacity_bytes,
       .alignment_bytes = alignment,
       .height_bytes = base + best.packing.height_bytes},
      {.space = MemorySpace::host,
       .kind = Arena::Kind::pinned,
       .capacity_bytes = host_capacity_bytes,
       .alignment_bytes = alignment,
       .height_bytes = host_best.packing.height_bytes},
  };
  layout.device_load_bytes = base + best.bound_bytes;
  layout.packer = best.packer;
  return layout;
}

}  // namespace tidemark
