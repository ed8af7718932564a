// Several simulated ranks in one virtual time: messages, deadlock, one thread per rank.

#include "device/sim_world.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/sim_device.h"
#include "tests/device/sim_fixture.h"

namespace tidemark {
namespace {

using namespace literals;

SimOptions rank(std::int32_t number) {
  SimOptions options = slow_links();
  options.rank = number;
  return options;
}

void send(const SimRig& rig, std::int32_t to, std::int64_t tag, std::int64_t ns, std::int64_t id = -1) {
  EXPECT_EQ(rig->launch(rig.send, {.id = id, .estimate_ns = ns, .message = {to, tag, true}}), DeviceCode::ok);
}
void receive(const SimRig& rig, std::int32_t from, std::int64_t tag, std::int64_t id = -1) {
  EXPECT_EQ(rig->launch(rig.receive, {.id = id, .estimate_ns = 999, .message = {from, tag, false}}), DeviceCode::ok);
}

TEST(SimMessages, AReceiveCompletesWhenTheSendHasEnded) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1));
  receive(b, 0, 7);
  b.order(b.receive, b.compute);
  b.work(b.compute, 2, 50);
  a.work(a.compute, 1, 100);
  a.order(a.compute, a.send);
  send(a, 1, 7, 30);
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(world.now_ns(), 180);  // 100 compute, 30 send, 50 compute; the receive itself takes no time
}

TEST(SimMessages, TheNthReceiveOfATagMatchesTheNthSend) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1));
  for (std::int64_t i = 0; i < 3; ++i) send(a, 1, 4, 100, i);
  for (std::int64_t i = 0; i < 3; ++i) receive(b, 0, 4, i);
  send(a, 1, 5, 1);
  ASSERT_TRUE(world.run().ok());
  std::vector<std::int64_t> arrivals;
  for (const SimSpan& span : b->take_timeline()) arrivals.push_back(span.end_ns);
  EXPECT_EQ(arrivals, (std::vector<std::int64_t>{100, 200, 300}));
}

TEST(SimMessages, CarryTagsAndDirections) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1)), c(world, rank(2));
  receive(b, 0, 1);
  receive(b, 2, 1);
  receive(c, 1, 1);
  send(c, 1, 1, 10);  // the second that b waits for
  send(b, 2, 1, 10);
  send(a, 1, 1, 500);
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(c->take_timeline().back().end_ns, 10);
  EXPECT_EQ(b->take_timeline().back().end_ns, 500);
}

TEST(SimMessages, TheReceiveOfAFailedSendFails) {
  for (const bool receives_first : {false, true}) {
    SCOPED_TRACE(receives_first ? "receive waits" : "receive comes later");
    SimWorld world;
    const SimRig a(world, rank(0)), b(world, rank(1));
    a->set_faults({{.point = FaultPoint::launch, .first_call = 2, .code = DeviceCode::copy_failed, .late = true}});
    const auto receive_all = [&] {
      for (std::int64_t i = 0; i < 3; ++i) receive(b, 0, 4, i);
    };
    if (receives_first) receive_all();
    for (std::int64_t i = 0; i < 3; ++i) send(a, 1, 4, 100, i);
    if (!receives_first) {
      EXPECT_EQ(a->synchronize_device(), DeviceCode::copy_failed);
      receive_all();
    }
    EXPECT_EQ(b->synchronize_device(), DeviceCode::copy_failed);
    EXPECT_EQ(b->last_error(), "launch 1 on receive failed");
    send(a, 1, 4, 100, 3);
    receive(b, 0, 4, 3);
    EXPECT_EQ(b->synchronize_device(), DeviceCode::ok);
  }
}

TEST(SimMessages, ASendThatTakesItsDeviceAwayDoesNotArrive) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1));
  a->set_faults({{.point = FaultPoint::launch, .code = DeviceCode::lost, .late = true}});
  receive(b, 0, 4);
  send(a, 1, 4, 100);
  EXPECT_EQ(a->synchronize_device(), DeviceCode::lost);
  EXPECT_EQ(b->synchronize_device(), DeviceCode::invalid);
  EXPECT_NE(b->last_error().find("from rank 0, which is not there"), std::string::npos) << b->last_error();
}

TEST(SimDeadlock, AMessageNobodySendsIsAnErrorThatSaysWhoWaits) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1));
  a.work(a.compute, 5, 10);
  receive(a, 1, 42, 6);
  a.order(a.receive, a.compute);
  a.work(a.compute, 8, 10);
  EXPECT_EQ(a->synchronize_stream(a.compute), DeviceCode::invalid);
  const std::string text = a->last_error();
  EXPECT_NE(text.find("rank 0 receive (work 6) waits for message 42 from rank 1, which has not sent it"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 0 compute waits for an event recorded on receive after work 6"), std::string::npos) << text;
  EXPECT_FALSE(world.run().ok());
  send(b, 0, 42, 3);  // no harm done: the send may still come
  EXPECT_TRUE(world.run().ok());
  EXPECT_EQ(a->synchronize_stream(a.compute), DeviceCode::ok);
}

TEST(SimDeadlock, TwoRanksThatReceiveBeforeTheySend) {
  SimWorld world;
  const SimRig a(world, rank(0)), b(world, rank(1));
  receive(a, 1, 1);
  a.order(a.receive, a.send);
  send(a, 1, 1, 10);
  receive(b, 0, 1);
  b.order(b.receive, b.send);
  send(b, 0, 1, 10);
  const Status status = world.run();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("rank 0 receive"), std::string::npos);
  EXPECT_NE(status.error().message.find("rank 1 receive"), std::string::npos);
}

TEST(SimDeadlock, ALostPeerIsNamed) {
  SimWorld world;
  const SimRig a(world, rank(0));
  {
    const SimRig b(world, rank(1));
    send(b, 0, 9, 10);
  }  // gone before it ran
  receive(a, 1, 9);
  EXPECT_EQ(a->synchronize_device(), DeviceCode::invalid);
  EXPECT_NE(a->last_error().find("from rank 1, which is not there"), std::string::npos) << a->last_error();
}

// Every rank computes, passes on, waits for its neighbour, many times, each driven by a thread of its own that
// synchronises all the time. The times must be those of one thread that drives them all.
class Ring {
 public:
  Ring(SimWorld& world, std::int32_t ranks) {
    for (std::int32_t r = 0; r < ranks; ++r) rigs_.push_back(std::make_unique<SimRig>(world, rank(r)));
  }
  [[nodiscard]] std::size_t size() const { return rigs_.size(); }
  void step(std::size_t r, std::int64_t i) {
    const auto ranks = static_cast<std::int64_t>(rigs_.size());
    const auto self = static_cast<std::int64_t>(r);
    const SimRig& rig = *rigs_[r];
    rig.work(rig.compute, i, 100 + self * 7 + i % 13);
    rig.order(rig.compute, rig.send);
    send(rig, static_cast<std::int32_t>((self + 1) % ranks), i, 20);
    receive(rig, static_cast<std::int32_t>((self + ranks - 1) % ranks), i);
    rig.order(rig.receive, rig.compute);
  }
  const SimRig& rig(std::size_t r) { return *rigs_[r]; }

 private:
  std::vector<std::unique_ptr<SimRig>> rigs_;
};

constexpr std::int64_t kSteps = 200;

TEST(SimHosts, AThreadPerRankGivesTheTimesOfOneThread) {
  SimWorld alone;
  Ring one(alone, 4);
  for (std::int64_t i = 0; i < kSteps; ++i)
    for (std::size_t r = 0; r < one.size(); ++r) one.step(r, i);
  ASSERT_TRUE(alone.run().ok());

  SimWorld world;
  Ring ring(world, 4);
  std::vector<std::unique_ptr<SimHost>> hosts;
  for (std::size_t r = 0; r < ring.size(); ++r) hosts.push_back(world.attach_host());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ring.size(); ++r)
    threads.emplace_back([&, r] {
      for (std::int64_t i = 0; i < kSteps; ++i) {
        ring.step(r, i);
        const EventHandle next = ring.rig(r).mark(ring.rig(r).compute);  // no later than the next step can start
        EXPECT_EQ(ring.rig(r)->synchronize_event(next), DeviceCode::ok);
        EXPECT_EQ(ring.rig(r)->destroy_event(next), DeviceCode::ok);
      }
      EXPECT_EQ(ring.rig(r)->synchronize_device(), DeviceCode::ok);
      hosts[r].reset();
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t r = 0; r < ring.size(); ++r)
    EXPECT_EQ(ring.rig(r)->statistics().last_end_ns, one.rig(r)->statistics().last_end_ns) << "rank " << r;
}

TEST(SimHosts, AllThreadsLearnOfADeadlock) {
  SimWorld world;
  Ring ring(world, 3);
  std::vector<std::unique_ptr<SimHost>> hosts;
  for (std::size_t r = 0; r < ring.size(); ++r) hosts.push_back(world.attach_host());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ring.size(); ++r)
    threads.emplace_back([&, r] {
      if (r != 1) receive(ring.rig(r), 1, 5);  // which rank 1 never sends
      EXPECT_EQ(ring.rig(r)->synchronize_device(), r == 1 ? DeviceCode::ok : DeviceCode::invalid);
      hosts[r].reset();
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(SimHosts, TwoThatPollBothGetOn) {
  SimWorld world;
  const SimRig rigs[] = {SimRig(world, rank(0)), SimRig(world, rank(1))};
  std::unique_ptr<SimHost> hosts[] = {world.attach_host(), world.attach_host()};
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const SimRig& rig = rigs[r];
      for (std::int64_t i = 0; i < 20; ++i) {
        rig.work(rig.compute, i, 2500);
        const EventHandle done = rig.mark(rig.compute);
        while (rig->query_event(done) == DeviceCode::not_ready) std::this_thread::yield();
        EXPECT_EQ(rig->destroy_event(done), DeviceCode::ok);
      }
      hosts[r].reset();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(world.now_ns(), 50'000);
  for (const SimRig& rig : rigs) EXPECT_EQ(rig->statistics().launches, 20);
}

// One thread waits for the device; while it does, another submits work, which delays the wait but is not covered by it.
TEST(SimHosts, AWaitCoversWhatWasSubmittedWhenItBegan) {
  SimWorld world;
  const SimRig rig(world, rank(0));
  const Address covered = rig.plain(4096), later = rig.plain(4096);
  std::unique_ptr<SimHost> waits = world.attach_host(), submits = world.attach_host();
  rig.work(rig.compute, 1, 1'000'000, {writes(covered, 4096)});
  const EventHandle done = rig.mark(rig.compute);
  std::thread waiting([&] {
    EXPECT_EQ(rig->synchronize_device(), DeviceCode::ok);
    waits.reset();
  });
  while (world.now_ns() == 0) {  // time passes only once the other thread is blocked
    EXPECT_EQ(rig->query_event(done), DeviceCode::not_ready);
    std::this_thread::yield();
  }
  rig.work(rig.h2d, 2, 5'000'000, {writes(later, 4096)});
  submits.reset();
  waiting.join();
  EXPECT_EQ(rig->free_plain(covered), DeviceCode::ok);
  EXPECT_EQ(rig->race_count(), 0);
  EXPECT_EQ(rig->free_plain(later), DeviceCode::ok);
  ASSERT_EQ(rig->race_count(), 1);
  EXPECT_EQ(rig->races()[0].earlier.id, 2);
}

// Threads that are not attached, on one device, as an allocator under stress would: nothing is lost or torn.
TEST(SimHosts, ManyThreadsOnOneDevice) {
  const auto device = make_sim_device();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      StreamHandle stream{};
      EventHandle event{};
      Address at = 0;
      ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
      ASSERT_EQ(device->create_event(event), DeviceCode::ok);
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(device->allocate_plain(4096, at), DeviceCode::ok);
        const std::vector<Touch> touches = {writes(at, 4096)};
        ASSERT_EQ(device->launch(stream, {.id = t, .estimate_ns = 10 + t, .touches = touches}), DeviceCode::ok);
        ASSERT_EQ(device->record_event(event, stream), DeviceCode::ok);
        ASSERT_EQ(i % 2 == 0 ? device->synchronize_event(event) : device->synchronize_stream(stream), DeviceCode::ok);
        ASSERT_EQ(device->free_plain(at), DeviceCode::ok);
      }
      ASSERT_EQ(device->destroy_event(event), DeviceCode::ok);
      ASSERT_EQ(device->destroy_stream(stream), DeviceCode::ok);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->race_count(), 0);
  EXPECT_EQ(device->leaks(), "");
  EXPECT_EQ(device->statistics().launches, 1200);
}

}  // namespace
}  // namespace tidemark
