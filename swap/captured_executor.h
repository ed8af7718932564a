#pragma once
// Offloading between the pieces of a step that runs as captured graphs: carries out a FixedLayout on a Device.
//
//   framework   |capture or launch piece 0|  |capture or launch piece 1|  ...  |... last piece|
//   here        ^ before_piece(0, stream)    ^ before_piece(1, stream)                        ^ end_step()
//
// The framework keeps its graphs: it captures them on addresses from here and launches them itself. Before each launch
// it says so here, on the stream it launches on; then copies are submitted to streams of this object, granules that are
// out of use are moved, and the stream is made to wait for what the piece needs. While a graph is captured nothing is
// called here, so nothing is mapped, recorded or waited for. Where the calling thread does a piece's work itself, as on
// a CPU, it is the thread that waits.
//
// The host waits only for granules that it moves, for the work that touched them last: host_waits() of the layout says
// how often a step. What is not listed there (workspaces, the graph's own pool) is not seen here.
//
// Failures. An action that the device refuses ends the call with an Error; the same call again goes on with that
// action. A step that is given up is announced to its end without launches: a piece that is not launched touches
// nothing. Destroying waits for the device, then gives everything back.
//
// Threads: none. Cost: O(actions) of a boundary besides the device's calls; a move costs the driver an unmap and a map
// a granule. Device memory: peak_bytes() of the layout, from open() on, never more or less.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "core/result.h"
#include "device/device.h"
#include "swap/captured_pieces.h"
#include "swap/event_pool.h"
#include "swap/fixed_layout.h"
#include "swap/framework_streams.h"
#include "swap/host_memory.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// Since opening.
struct CapturedFigures {
  std::int64_t steps = 0;
  std::int64_t host_waits = 0;
  std::int64_t moves = 0;           ///< calls of Device::remap()
  std::int64_t moved_granules = 0;  ///< by them
  CopyFigures out, in;
};

class CapturedExecutor {
 public:
  /// Lays out, has it verified, and takes all memory; `spare_bytes` as lay_out_fixed()'s granules. Errors:
  /// find_problem()'s (bad_input); what the device refuses or cannot (infeasible). The device must outlive the
  /// executor.
  [[nodiscard]] static Result<std::unique_ptr<CapturedExecutor>> open(Device& device, const CapturedPieces& step,
                                                                      Bytes spare_bytes = 0);
  /// Waits for the device. REQUIRES: no stream is being captured.
  ~CapturedExecutor();
  CapturedExecutor(const CapturedExecutor&) = delete;
  CapturedExecutor& operator=(const CapturedExecutor&) = delete;

  [[nodiscard]] const FixedLayout& layout() const { return layout_; }
  /// For good. There is memory behind it in the pieces that the storage has memory in.
  [[nodiscard]] Address address_of(StorageId storage) const {
    return base_ + static_cast<Address>(layout_.offset_of[row(storage)]);
  }
  /// Pinned memory that holds the storage while it is away, one piece behind the other. Before the first step, where
  /// the content of a storage that is in host memory between steps is to be put. Empty: it is never copied.
  [[nodiscard]] std::vector<HostRange> host_side(StorageId storage);

  /// The next launch on `stream` is this piece. Pieces come in order, from 0; their streams in one order
  /// (FrameworkStreams). No stream: the calling thread, which waits here for what the piece needs, and for the stream
  /// named before. REQUIRES: `stream` is not being captured.
  [[nodiscard]] Status before_piece(PieceId piece, FrameworkStream stream);
  /// The last piece has been launched.
  [[nodiscard]] Status end_step();

  [[nodiscard]] CapturedFigures figures() const;
  /// That hold what is away, from open() on.
  [[nodiscard]] Bytes pinned_bytes() const { return host_.statistics().held_bytes; }

 private:
  CapturedExecutor(Device& device, FixedLayout layout)
      : device_(device),
        layout_(std::move(layout)),
        host_(device),
        streams_(device),
        transfers_(streams_),
        framework_(device),
        pool_(device) {}

  [[nodiscard]] Status take();
  [[nodiscard]] DeviceCode take_memory();
  [[nodiscard]] DeviceCode take_events();
  [[nodiscard]] DeviceCode enter(FrameworkStream stream);
  [[nodiscard]] Status go_on(std::size_t boundary);
  [[nodiscard]] Status failed(DeviceCode code, std::size_t boundary, const char* what);
  [[nodiscard]] DeviceCode carry_out(const LaneWait& wait);
  [[nodiscard]] DeviceCode carry_out(const RangeCopy& copy);
  [[nodiscard]] DeviceCode carry_out(const GranuleMove& move);
  [[nodiscard]] Address address_of_granule(std::int64_t granule) const {
    return base_ + static_cast<Address>(granule * layout_.units.granule_bytes);
  }
  [[nodiscard]] std::optional<EventHandle>& event_of(FixedPoint point);

  Device& device_;
  const FixedLayout layout_;
  std::vector<Bytes> bytes_of_;  ///< by StorageId
  Address base_ = 0;
  std::vector<bool> has_memory_;  ///< by granule of the address space
  HostMemory host_;               ///< an arena a range
  StreamSet streams_;
  TransferEngine transfers_;
  FrameworkStreams framework_;
  EventPool pool_;
  std::vector<std::optional<EventHandle>> piece_events_, out_events_,
      in_events_;           ///< of the points that are waited for
  FrameworkStream stream_;  ///< of the piece announced last
  std::size_t next_ = 0;    ///< the boundary that is due
  bool entered_ = false;    ///< of that boundary: the piece before is recorded
  std::size_t done_ = 0;    ///< of that boundary: actions carried out
  CapturedFigures figures_;
};

}  // namespace tidemark::swap
