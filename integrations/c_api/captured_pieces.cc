// Offloading between captured graphs, of the C interface.

#include "swap/captured_pieces.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/structs.h"
#include "swap/captured_executor.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

struct tidemark_captured {
  std::shared_ptr<Device> device;  ///< outlives the executor
  std::int32_t storage_count = 0;
  std::unique_ptr<swap::CapturedExecutor> executor;
  std::atomic_flag is_inside;  ///< a thread is inside a call
};

namespace {

constexpr std::int32_t kMostPieces = 1 << 16;
constexpr std::int32_t kMostStorages = 1 << 20;
constexpr std::int64_t kMostSpace = std::int64_t{1} << 46;  // of which devices can reserve addresses

/// `body(swap::CapturedExecutor&)` on a handle that no other thread is inside of.
template <class Body>
tidemark_status alone_in(tidemark_captured* captured, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (captured == nullptr) return invalid("captured is NULL");
    if (captured->is_inside.test_and_set(std::memory_order_acquire))
      return invalid("another thread is inside a call on this step of captured graphs; calls must not overlap");
    struct Leave {
      std::atomic_flag& flag;
      ~Leave() { flag.clear(std::memory_order_release); }
    } const leave{captured->is_inside};
    return body(*captured->executor);
  });
}

Outcome check_storage(const tidemark_captured* captured, std::int32_t storage) {
  if (captured == nullptr || (storage >= 0 && storage < captured->storage_count)) return {};
  return invalid("storage is " + std::to_string(storage) + "; there are " + std::to_string(captured->storage_count) +
                 ", numbered from 0");
}

/// What is wrong of a storage's numbers and arrays; empty: nothing, so that they may be read.
std::string problem_of(const tidemark_captured_storage& s, std::int32_t pieces) {
  const auto is_list = [pieces](const void* list, std::int32_t count) {
    return count >= 0 && count <= pieces && (count == 0 || list != nullptr);
  };
  if (s.bytes < 1 || s.bytes > kMostSpace) return "bytes is " + std::to_string(s.bytes) + "; it is from 1 to 2^46";
  if (s.between < TIDEMARK_BETWEEN_NOWHERE || s.between > TIDEMARK_BETWEEN_IN_HOST)
    return "between is " + std::to_string(s.between) + "; it is one of TIDEMARK_BETWEEN_*";
  if (!is_list(s.touches, s.touch_count))
    return "touch_count is " + std::to_string(s.touch_count) + "; it is the length of touches, at most one a piece";
  if (!is_list(s.away, s.away_count))
    return "away_count is " + std::to_string(s.away_count) + "; it is the length of away, and 0 without it";
  return {};
}

swap::PieceStorage storage_of(const tidemark_captured_storage& s) {
  swap::PieceStorage storage{.bytes = s.bytes, .between = static_cast<swap::BetweenSteps>(s.between)};
  for (std::int32_t i = 0; i < s.touch_count; ++i)
    storage.touches.push_back({.piece = static_cast<swap::PieceId>(s.touches[i].piece),
                               .reads = s.touches[i].reads != 0,
                               .writes = s.touches[i].writes != 0});
  for (std::int32_t i = 0; i < s.away_count; ++i)
    storage.away.push_back(
        {.first = static_cast<swap::PieceId>(s.away[i].first), .last = static_cast<swap::PieceId>(s.away[i].last)});
  return storage;
}

Outcome read_pieces(std::int32_t pieces, const tidemark_captured_storage* storages, std::int32_t count,
                    swap::CapturedPieces& step) {
  if (pieces < 1 || pieces > kMostPieces)
    return invalid("pieces is " + std::to_string(pieces) + "; a step has from 1 to " + std::to_string(kMostPieces));
  if (count < 0 || count > kMostStorages || (count > 0 && storages == nullptr))
    return invalid("storage_count is " + std::to_string(count) + "; it is the length of storages, to 2^20");
  step.pieces = pieces;
  std::int64_t sum = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    if (const std::string problem = problem_of(storages[i], pieces); !problem.empty())
      return invalid("storage " + std::to_string(i) + ": " + problem);
    if (sum += storages[i].bytes; sum > kMostSpace)
      return invalid("storages 0 to " + std::to_string(i) + " have more than 2^46 bytes");
    step.storages.push_back(storage_of(storages[i]));
  }
  return {};
}

/// The executor's own errors of a call that comes out of turn are a bug of the caller.
Outcome outcome_of_turn(const Status& status) {
  if (status) return {};
  return status.error().code == Error::Code::bad_input ? invalid(status.error().message) : outcome_of(status.error());
}

tidemark_captured_figures to_c(const swap::CapturedExecutor& executor) {
  const swap::CapturedFigures figures = executor.figures();
  const swap::FixedLayout& layout = executor.layout();
  return {.struct_size = 0,
          .peak_bytes = layout.peak_bytes(),
          .address_bytes = layout.space_granules * layout.units.granule_bytes,
          .pinned_bytes = executor.pinned_bytes(),
          .host_waits_a_step = layout.host_waits(),
          .late_waits_a_step = layout.late_waits(),
          .steps = figures.steps,
          .host_waits = figures.host_waits,
          .moves = figures.moves,
          .moved_granules = figures.moved_granules,
          .copies_out = figures.out.copies,
          .copied_out_bytes = figures.out.bytes,
          .copies_in = figures.in.copies,
          .copied_in_bytes = figures.in.bytes};
}

}  // namespace

extern "C" {

tidemark_status tidemark_captured_open(tidemark_device* device, int32_t pieces,
                                       const tidemark_captured_storage* storages, int32_t storage_count,
                                       const tidemark_captured_options* options, tidemark_captured** captured,
                                       tidemark_error** error) noexcept {
  if (captured != nullptr) *captured = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (captured == nullptr) return invalid("captured is NULL");
    if (device == nullptr) return invalid("device is NULL");
    tidemark_captured_options known;
    if (Outcome o = read_options(options, "tidemark_captured_options", known); !o.ok()) return o;
    if (Outcome o =
            check_numbers("tidemark_captured_options",
                          {{.name = "spare_bytes", .value = known.spare_bytes, .least = 1, .most = kMostSpace}});
        !o.ok())
      return o;
    swap::CapturedPieces step;
    if (Outcome o = read_pieces(pieces, storages, storage_count, step); !o.ok()) return o;
    Result<std::unique_ptr<swap::CapturedExecutor>> opened =
        swap::CapturedExecutor::open(*device->device, step, known.spare_bytes);
    if (!opened) return outcome_of(opened.error());
    auto made = std::make_unique<tidemark_captured>();
    made->device = device->device;
    made->storage_count = storage_count;
    made->executor = std::move(opened).value();
    *captured = made.release();
    return {};
  });
}

void tidemark_captured_close(tidemark_captured* captured) noexcept {
  delete captured;
}

tidemark_status tidemark_captured_get_address(tidemark_captured* captured, int32_t storage, tidemark_address* address,
                                              tidemark_error** error) noexcept {
  return alone_in(captured, error, [&](swap::CapturedExecutor& executor) -> Outcome {
    if (address == nullptr) return invalid("address is NULL");
    if (Outcome o = check_storage(captured, storage); !o.ok()) return o;
    *address = executor.address_of(static_cast<StorageId>(storage));
    return {};
  });
}

tidemark_status tidemark_captured_get_host_side(tidemark_captured* captured, int32_t storage,
                                                tidemark_host_range* ranges, int32_t capacity, int32_t* count,
                                                tidemark_error** error) noexcept {
  return alone_in(captured, error, [&](swap::CapturedExecutor& executor) -> Outcome {
    if (count == nullptr) return invalid("count is NULL");
    if (capacity < 0 || (capacity > 0 && ranges == nullptr))
      return invalid("capacity is " + std::to_string(capacity) + "; it is the length of ranges, and 0 without it");
    if (Outcome o = check_storage(captured, storage); !o.ok()) return o;
    const std::vector<swap::HostRange> all = executor.host_side(static_cast<StorageId>(storage));
    for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(capacity); ++i)
      ranges[i] = {.address = all[i].address, .bytes = all[i].bytes};
    *count = static_cast<std::int32_t>(all.size());
    return {};
  });
}

tidemark_status tidemark_captured_before_piece(tidemark_captured* captured, int32_t piece, tidemark_stream stream,
                                               tidemark_error** error) noexcept {
  return alone_in(captured, error, [&](swap::CapturedExecutor& executor) -> Outcome {
    const swap::FrameworkStream named = stream == TIDEMARK_CALLING_THREAD
                                            ? swap::FrameworkStream{}
                                            : swap::FrameworkStream{static_cast<StreamHandle>(stream)};
    return outcome_of_turn(executor.before_piece(static_cast<swap::PieceId>(piece), named));
  });
}

tidemark_status tidemark_captured_end_step(tidemark_captured* captured, tidemark_error** error) noexcept {
  return alone_in(captured, error,
                  [](swap::CapturedExecutor& executor) { return outcome_of_turn(executor.end_step()); });
}

tidemark_status tidemark_captured_get_figures(tidemark_captured* captured, tidemark_captured_figures* figures,
                                              tidemark_error** error) noexcept {
  return alone_in(captured, error,
                  [&](swap::CapturedExecutor& executor) { return write_result(to_c(executor), "figures", figures); });
}

}  // extern "C"
