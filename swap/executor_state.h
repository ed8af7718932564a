#pragma once
// What an Executor holds. Private to swap/executor*.cc.

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "swap/arena_memory.h"
#include "swap/bound_program.h"
#include "swap/chunk_stand.h"
#include "swap/dynamic_region.h"
#include "swap/executor.h"
#include "swap/host_memory.h"
#include "swap/load_ladder.h"
#include "swap/storage_versions.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// Members are destroyed last to first: streams wait for their work before windows and memory go.
struct Executor::State {
  State(const Program& p, Device& d, RunOptions o)
      : program(p),
        schedule(p.schedule),
        device(d),
        options(std::move(o)),
        host(d),
        memory(d),
        streams(d),
        transfers(streams),
        versions(p.schedule.rank) {}
  ~State() {
    // Nothing may be in flight when memory goes. A failure changes nothing: everything is given back all the same.
    if (submitted) (void)device.synchronize_device();
  }

  [[nodiscard]] Status open();
  [[nodiscard]] Status take_memory();
  void make_ladder();
  [[nodiscard]] Status issue();
  [[nodiscard]] Status issue_task(TaskId task);
  [[nodiscard]] DeviceCode run_chunks(TaskId end, const LoadLadder::Chunks& chunks);
  [[nodiscard]] DeviceCode submit_task(TaskId task, StreamRole role);
  [[nodiscard]] std::int64_t work_ns(TaskId task, std::int32_t chunks) const;
  [[nodiscard]] DeviceCode submit_work(TaskId task, StreamRole role);
  [[nodiscard]] DeviceCode submit_copy(TaskId task);
  /// `wanted`: version of each access; empty: the storage's latest, which a write restores.
  [[nodiscard]] DeviceCode launch(StreamRole role, std::span<const Schedule::Touch> accesses,
                                  std::span<const std::int32_t> wanted, Work work, const ChunkStand* chunk = nullptr);
  [[nodiscard]] DeviceCode touch_whole(ResidencyId residency, AccessKind kind);
  [[nodiscard]] DeviceCode copy_rest(const FullResidency& full, StreamRole role);
  [[nodiscard]] DeviceCode fill_first();
  [[nodiscard]] DeviceCode check_last();
  [[nodiscard]] DeviceCode check_copy_in(ResidencyId residency, std::int64_t id);
  [[nodiscard]] Result<RunReport> finish();
  [[nodiscard]] Result<RunReport> report();
  void add_warnings(RunReport& r) const;
  [[nodiscard]] const BoundMessage* message_of(TaskId task);
  [[nodiscard]] std::string name_of_task(TaskId task) const;
  [[nodiscard]] std::string who() const { return fmt::format("rank {}", schedule.rank); }
  /// `chunk`: where its section's storages stand; nullptr: where the plan has them, or the ladder put them.
  [[nodiscard]] Touch touch_of(ResidencyId residency, AccessKind kind, const ChunkStand* chunk = nullptr) {
    const StorageId storage = schedule.residencies[row(residency)].storage;
    if (chunk != nullptr)
      if (const ChunkStand::Part* part = chunk->part_of(storage); part != nullptr)
        return {
            .address = part->address, .bytes = part->bytes, .kind = kind, .seed = versions.seed(storage) ^ part->mark};
    const ResidencyId now = chunk != nullptr ? chunk->standing(storage, residency) : residency;
    return {.address = addresses[row(now)], .bytes = bytes[row(now)], .kind = kind, .seed = versions.seed(storage)};
  }

  const Program& program;
  const Schedule& schedule;
  Device& device;
  RunOptions options;
  BoundProgram bound;
  std::vector<Address> addresses;  ///< per residency, now
  std::vector<Bytes> bytes;        ///< per residency, scaled, now
  HostMemory host;
  ArenaMemory memory;
  std::optional<DynamicRegion> region;
  ArenaId region_arena = kNone<ArenaId>;
  ArenaId spare_host = kNone<ArenaId>;
  std::int64_t spare_pieces = 0;
  StreamSet streams;
  TransferEngine transfers;
  StorageVersions versions;
  std::optional<LoadLadder> ladder;
  std::vector<Touch> touches;
  std::size_t next_message = 0;
  std::int64_t verified_reads = 0;
  std::int64_t started_ns = 0;
  bool submitted = false;
  bool failed = false;

  /// The group is told once, whichever call of the step fails.
  void fail() {
    if (!failed && options.agree && options.leave) options.leave(schedule.rank);
    failed = true;
  }
};

}  // namespace tidemark::swap
