#include "integrations/run/host_room.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "device/host_pages.h"

namespace tidemark::run {
namespace {

constexpr std::int64_t kSmallestScale = 64;
/// Stays free: what the machine must keep, and threads, queues and records of the run.
constexpr Bytes kKeepFree = 512 * kMiB;

/// Address space and resident bytes of this process; zeros where the system does not tell.
std::pair<Bytes, Bytes> process_bytes() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) pages = resident = 0;
    std::fclose(file);
  }
  const Bytes page = ::sysconf(_SC_PAGESIZE);
  return {pages * page, resident * page};
}

const plan::RankPlan& largest_rank(std::span<const plan::RankPlan> ranks, std::int64_t scale) {
  return *std::ranges::max_element(
      ranks, {}, [scale](const plan::RankPlan& rank) { return host_need(rank, scale).total_bytes(); });
}

bool fits(std::span<const plan::RankPlan> ranks, std::int64_t scale, const HostRoom& room) {
  return host_need(largest_rank(ranks, scale), scale).total_bytes() <= room.available_bytes - kKeepFree;
}

/// The largest sizes that fit, or nothing.
std::optional<std::int64_t> fitting_scale(std::span<const plan::RankPlan> ranks, std::int64_t above,
                                          const HostRoom& room) {
  for (std::int64_t scale = 2 * above; scale <= kSmallestScale; scale *= 2)
    if (fits(ranks, scale, room)) return scale;
  return std::nullopt;
}

}  // namespace

HostNeed host_need(const plan::RankPlan& rank, std::int64_t scale) {
  HostNeed need;
  for (const Arena& arena : rank.program.layout.arenas) {
    const Bytes bytes = (arena.height_bytes + scale - 1) / scale;
    (arena.space == MemorySpace::device ? need.device_bytes : need.pinned_bytes) += bytes;
  }
  return need;
}

HostRoom host_room() {
  const auto [address_space, resident] = process_bytes();
  AvailableMemory available = available_host_memory();
  HostRoom room{.available_bytes = available.bytes, .in_use_bytes = resident, .limit = std::move(available.limit)};
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return room;
  const Bytes addresses = std::max<Bytes>(static_cast<Bytes>(limit.rlim_cur) - address_space, 0);
  if (addresses >= room.available_bytes) return room;
  room.available_bytes = addresses;
  room.limit = "limit of address space (ulimit -v)";
  return room;
}

Status check_host_room(std::span<const plan::RankPlan> ranks, std::int64_t scale, const HostRoom& room) {
  if (ranks.empty() || fits(ranks, scale, room)) return {};
  const plan::RankPlan& rank = largest_rank(ranks, scale);
  const HostNeed need = host_need(rank, scale);
  const std::optional<std::int64_t> fitting = fitting_scale(ranks, scale, room);
  return infeasible(fmt::format(
      "rank {} needs {} of this machine's memory at --scale {}: {} as device memory, {} pinned; {} are "
      "available{} beside the {} in use for the plan, and {} stay free; {}",
      rank.figures.rank, format_bytes(need.total_bytes()), scale == 1 ? "1" : fmt::format("1/{}", scale),
      format_bytes(need.device_bytes), format_bytes(need.pinned_bytes), format_bytes(room.available_bytes),
      room.limit.empty() ? "" : " (" + room.limit + ")", format_bytes(room.in_use_bytes), format_bytes(kKeepFree),
      fitting ? fmt::format("--scale 1/{} would fit", *fitting) : "no --scale down to 1/64 would fit"));
}

}  // namespace tidemark::run
