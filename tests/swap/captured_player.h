#pragma once
// A stand-in for a framework that captures each piece of a step once and launches the captured pieces step after step.
//
// A captured piece is the list of addresses that it touches, written down once. Launching it checks that what it reads
// is what was written there last, and writes something new (Work::verify): contents are compared on the device itself.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "device/device.h"
#include "swap/captured_executor.h"
#include "swap/captured_pieces.h"

namespace tidemark::swap {

class CapturedPlayer {
 public:
  /// Pieces are launched on so many streams in turn.
  CapturedPlayer(Device& device, const CapturedPieces& step, CapturedExecutor& executor, std::size_t streams = 1)
      : device_(device),
        step_(step),
        executor_(executor),
        streams_(streams),
        seeds_(step.storages.size()),
        graphs_(static_cast<std::size_t>(step.pieces)) {
    for (StreamHandle& stream : streams_) EXPECT_EQ(device.create_stream(StreamRole::compute, stream), DeviceCode::ok);
    for (std::size_t s = 0; s < step.storages.size(); ++s)
      if (step.storages[s].between != BetweenSteps::nowhere) fill(id_of<StorageId>(s));
  }
  ~CapturedPlayer() {
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_.destroy_stream(stream), DeviceCode::ok);
  }
  CapturedPlayer(const CapturedPlayer&) = delete;
  CapturedPlayer& operator=(const CapturedPlayer&) = delete;

  /// Around the capture of each piece; what is between them must not disturb it.
  std::function<void()> begin_capture = [] {}, end_capture = [] {};
  /// Before each launch, and behind the last.
  std::function<void()> look = [] {};

  /// Tries each call again until it goes through: `tries` times at most.
  void run_step(int tries = 1) {
    for (std::int32_t piece = 0; piece < step_.pieces; ++piece) {
      const StreamHandle stream = streams_[static_cast<std::size_t>(piece) % streams_.size()];
      insist(tries, [&] { return executor_.before_piece(PieceId{piece}, stream); });
      look();
      if (graphs_[static_cast<std::size_t>(piece)].empty()) capture(PieceId{piece});
      launch(graphs_[static_cast<std::size_t>(piece)], stream);
    }
    insist(tries, [&] { return executor_.end_step(); });
    look();
  }

  void expect_contents() {
    EXPECT_EQ(device_.synchronize_device(), DeviceCode::ok) << device_.last_error();
    Mismatch first;
    EXPECT_EQ(device_.mismatches(first), 0) << "first at " << first.address << " by work " << first.work_id;
  }
  [[nodiscard]] std::int64_t retries() const { return retries_; }

 private:
  struct CapturedTouch {
    std::size_t storage = 0;
    PieceTouch touch;
    Address address = 0;
  };
  using CapturedGraph = std::vector<CapturedTouch>;

  template <class Call>
  void insist(int tries, Call&& call) {
    for (int i = 1;; ++i) {
      const Status status = call();
      if (status.ok()) return;
      if (i == tries) {
        ADD_FAILURE() << status.error().message;
        return;
      }
      ++retries_;
    }
  }

  void capture(PieceId piece) {
    begin_capture();
    for (std::size_t s = 0; s < step_.storages.size(); ++s)
      for (const PieceTouch& touch : step_.storages[s].touches)
        if (touch.piece == piece) graphs_[row(piece)].push_back({s, touch, executor_.address_of(id_of<StorageId>(s))});
    end_capture();
  }

  void launch(const CapturedGraph& graph, StreamHandle stream) {
    std::vector<Touch> touches;
    for (const CapturedTouch& each : graph)
      if (each.touch.reads)
        touches.push_back({each.address, step_.storages[each.storage].bytes, AccessKind::read, seeds_[each.storage]});
    for (const CapturedTouch& each : graph)
      if (each.touch.writes)
        touches.push_back({each.address, step_.storages[each.storage].bytes, AccessKind::write,
                           seeds_[each.storage] = ++newest_seed_});
    const Work work{.id = ++launches_, .estimate_ns = 20'000, .touches = touches, .verify = true};
    EXPECT_EQ(device_.launch(stream, work), DeviceCode::ok);
  }

  /// The content that a storage has before the first step.
  void fill(StorageId storage) {
    const PieceStorage& filled = step_.storages[row(storage)];
    Address at = executor_.address_of(storage), block = 0;
    const StreamHandle stream = streams_.front();
    const bool in_host = filled.between == BetweenSteps::in_host;
    if (in_host) {
      EXPECT_EQ(device_.allocate_plain(filled.bytes, block), DeviceCode::ok);
      at = block;
    }
    const Touch touch{at, filled.bytes, AccessKind::write, seeds_[row(storage)] = ++newest_seed_};
    EXPECT_EQ(device_.launch(stream, {.touches = {&touch, 1}, .verify = true}), DeviceCode::ok);
    if (in_host)
      for (const HostRange& range : executor_.host_side(storage)) {
        EXPECT_EQ(device_.copy(stream, range.address, at, range.bytes, CopyKind::device_to_host), DeviceCode::ok);
        at += static_cast<Address>(range.bytes);
      }
    EXPECT_EQ(device_.synchronize_stream(stream), DeviceCode::ok);
    if (block != 0) {
      EXPECT_EQ(device_.free_plain(block), DeviceCode::ok);
    }
  }

  Device& device_;
  const CapturedPieces& step_;
  CapturedExecutor& executor_;
  std::vector<StreamHandle> streams_;
  std::vector<std::uint64_t> seeds_;  ///< by StorageId: of what it holds
  std::uint64_t newest_seed_ = 0;
  std::int64_t launches_ = 0, retries_ = 0;
  std::vector<CapturedGraph> graphs_;  ///< by PieceId; empty: not captured yet
};

}  // namespace tidemark::swap
