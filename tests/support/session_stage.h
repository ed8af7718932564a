#pragma once
// What tests of followed sessions play on.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "device/host_device.h"
#include "device/sim_device.h"
#include "planner/planner.h"
#include "swap/session.h"
#include "tests/support/framework_player.h"

namespace tidemark::testing {

/// A device, a framework on it and a session beside it. Everything is given back, whatever was played.
struct SessionStage {
  explicit SessionStage(const plan::RankPlan& rank, const SimSchedule& schedule = {},
                        FrameworkPlayer::Options options = {}, swap::SessionOptions asked = {})
      : plan(rank), sim(make_sim_device({.capacity_bytes = 4 * kGiB, .report_unwritten = true}, schedule)) {
    open(*sim, std::move(options), std::move(asked));
  }
  SessionStage(const plan::RankPlan& rank, const HostDeviceOptions& host_options, FrameworkPlayer::Options options)
      : plan(rank), host(open_host_device(host_options).value()) {
    open(*host, std::move(options), {});
  }
  ~SessionStage() {
    session.reset();
    EXPECT_EQ(player->lent(), 0);
    player.reset();
    if (sim == nullptr) return;
    EXPECT_EQ(sim->race_count(), 0) << (sim->races().empty() ? "" : to_string(sim->races().front()));
    EXPECT_EQ(sim->leaks(), "");
  }
  void open(Device& device, FrameworkPlayer::Options options, swap::SessionOptions asked) {
    player = std::make_unique<FrameworkPlayer>(plan.graph, device, std::move(options));
    Result<std::unique_ptr<swap::Session>> opened =
        swap::Session::open(plan.program, device, std::move(asked), player->calls());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    session = std::move(opened).value();
  }
  void issue(const std::vector<OpId>& ops) {
    for (const OpId op : ops) player->issue(session.get(), op);
  }
  /// Of a step that the session is through with.
  void issue_late(const std::vector<OpId>& ops) {
    for (const OpId op : ops) player->issue(nullptr, op);
  }
  /// Before one block in so many, at random, memory is asked back.
  void asks_for_room(std::uint64_t seed, std::uint64_t every) {
    player->before_blocks([this, every, random = std::mt19937_64(seed)]() mutable {
      if (random() % every != 0 || !session->is_in_step()) return;
      const Bytes bytes = std::int64_t{1} << (random() % 24);
      EXPECT_TRUE(session->make_room(bytes, player->stream()).ok());
    });
  }
  /// Ops of forward, or the others.
  [[nodiscard]] std::vector<OpId> ops(bool forward) const {
    std::vector<OpId> list;
    for (std::size_t op = 0; op < plan.graph.ops.size(); ++op)
      if ((plan.graph.template_of(id_of<OpId>(op)).phase == OpPhase::forward) == forward)
        list.push_back(id_of<OpId>(op));
    return list;
  }

  const plan::RankPlan& plan;
  std::unique_ptr<SimDevice> sim;
  std::unique_ptr<Device> host;
  std::unique_ptr<FrameworkPlayer> player;
  std::unique_ptr<swap::Session> session;
};

}  // namespace tidemark::testing
