// Residencies to items, items to addresses.

#include <algorithm>

#include "planner/layout/packer.h"

namespace tidemark {
namespace {

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
  std::vector<PackItem> items;
  std::vector<std::size_t> residencies;
};

template <class Wanted>
Selection select(const Schedule& schedule, Wanted wanted) {
  Selection selection;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (!wanted(residency)) continue;
    selection.items.push_back({residency.acquire, residency.release, residency.bytes});
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

Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment) {
  Layout layout;
  const std::size_t count = schedule.residencies.size();
  layout.arena_of.resize(count, kDeviceArena);
  layout.offset_of.resize(count, 0);
  for (std::size_t r = 0; r < count; ++r) {
    if (schedule.residencies[r].space == MemorySpace::host) layout.arena_of[r] = kHostArena;
  }

  const Bytes base = lay_out_static(schedule, layout, alignment);
  const Selection device = select(
      schedule, [&](const Residency& r) { return r.space == MemorySpace::device && !lives_all_step(r, schedule); });
  const BestPacking best = pack_best(device.items, alignment, capacity_bytes - base);
  place(device, best.packing, base, layout);

  const Selection host = select(schedule, [](const Residency& r) { return r.space == MemorySpace::host; });
  const BestPacking host_best = pack_best(host.items, alignment, host_capacity_bytes);
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
  layout.device_load_bytes = base + best.load_bytes;
  layout.packer = best.packer;
  return layout;
}

}  // namespace tidemark
