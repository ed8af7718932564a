// How ranks find each other: any order, strangers at the door, ranks that do not belong, ranks that do not come.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <thread>

#include "integrations/agreement/address.h"
#include "integrations/agreement/expert_group.h"

namespace tidemark::agreement {
namespace {

constexpr Milliseconds kAmple{60'000};

std::string own_name(const char* what) {
  return "unix:@tidemark-test-" + std::to_string(getpid()) + "-" + what;
}

/// A port that was free a moment ago.
std::string free_port() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  EXPECT_EQ(bind(socket.descriptor(), reinterpret_cast<sockaddr*>(&at), bytes), 0);
  EXPECT_EQ(getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
  return std::to_string(ntohs(at.sin_port));
}

Socket connect_to(const std::string& address) {
  Result<Socket> socket = connect_until(find_address(address).value(), Clock::now() + kAmple);
  EXPECT_TRUE(socket.ok());
  return std::move(socket).value();
}

/// One rank of a group that agrees once.
void attend(const std::string& address, std::int32_t rank, std::int32_t size) {
  auto group = ExpertGroup::open(address, {.rank = rank, .size = size, .timeout = kAmple});
  ASSERT_TRUE(group.ok()) << group.error().message;
  const Result<std::int32_t> answer =
      group.value()->seat().ask({.place = {.group = 0, .section = 0}, .wanted = 1, .chunks = 2 + rank});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer.value(), 1 + size);
}

/// All ranks, in threads that begin in this order.
void meet(const std::string& address, const std::vector<std::int32_t>& order) {
  std::vector<std::thread> ranks;
  for (const std::int32_t rank : order) {
    ranks.emplace_back([&address, &order, rank] { attend(address, rank, static_cast<std::int32_t>(order.size())); });
    if (rank % 2 == 0) std::this_thread::sleep_for(Milliseconds(3));
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(AgreementRendezvous, RanksComeInAnyOrderOnEveryKindOfAddress) {
  const std::string file = ::testing::TempDir() + "tidemark-" + std::to_string(getpid()) + ".socket";
  for (const std::string& address : {own_name("order"), "unix:" + file, "tcp:127.0.0.1:" + free_port()}) {
    SCOPED_TRACE(address);
    meet(address, {0, 1, 2, 3, 4});
    meet(address, {4, 3, 1, 2, 0});
  }
  struct stat left {};
  EXPECT_NE(stat(file.c_str(), &left), 0);
  meet("", {0});
}

TEST(AgreementRendezvous, AFileThatAKilledProcessLeftIsReplacedAndOneInUseIsNot) {
  const std::string file = ::testing::TempDir() + "tidemark-left-" + std::to_string(getpid()) + ".socket";
  const Address address = find_address("unix:" + file).value();
  {
    const Socket killed(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(killed.descriptor(), address.ways.front().get(), address.ways.front().bytes), 0);
  }
  meet("unix:" + file, {1, 0});
  const Result<Listener> in_use = Listener::open(address, 1);
  ASSERT_TRUE(in_use.ok());
  const auto second = ExpertGroup::open("unix:" + file, {.rank = 0, .size = 2, .timeout = kAmple});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Error::Code::bad_input);
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
}

TEST(AgreementRendezvous, StrangersHoldNoOneUp) {
  const std::string address = own_name("strangers");
  std::thread root([&] { attend(address, 0, 3); });
  const Socket silent = connect_to(address);
  const Socket noisy = connect_to(address);
  const std::string noise(1000, 'G');
  EXPECT_EQ(send(noisy.descriptor(), noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
  connect_to(address).close();
  for (int i = 0; i < 100; ++i) connect_to(address).close();  // more than rank 0 keeps
  std::thread first([&] { attend(address, 1, 3); });
  attend(address, 2, 3);
  first.join();
  root.join();
}

/// Rank 0 of a group of three, of which two say wrong things before the right ones come.
TEST(AgreementRendezvous, WhoDoesNotBelongIsSentAwayWithTheReason) {
  const std::string address = own_name("refusals");
  const Joining right{.rank = 1, .size = 3, .timeout = kAmple};
  std::thread root([&] { EXPECT_TRUE(ExpertGroup::open(address, {.rank = 0, .size = 3, .timeout = kAmple}).ok()); });
  const auto refused = [&](Joining joining, const char* says) {
    const auto group = ExpertGroup::open(address, joining);
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(group.error().code, Error::Code::bad_input);
    EXPECT_NE(group.error().message.find(says), std::string::npos) << group.error().message;
  };
  refused({.rank = 1, .size = 4, .timeout = kAmple}, "a group of 3, this rank one of 4");
  refused({.rank = 1, .size = 3, .timeout = kAmple + Milliseconds(1)}, "a time-out of 60000 ms, this rank 60001 ms");
  refused({.rank = 7, .size = 3, .timeout = kAmple}, "no rank 7");
  const Message hello{
      .kind = MessageKind::hello, .rank = 1, .size = 3, .timeout_ms = kAmple.count(), .left_ms = kAmple.count()};
  Socket first = connect_to(address);
  Message answer;
  ASSERT_TRUE(first.send(hello));
  refused(right, "a rank 1 already");
  EXPECT_TRUE(ExpertGroup::open(address, {.rank = 2, .size = 3, .timeout = kAmple}).ok());
  EXPECT_EQ(first.receive_until(Clock::now() + kAmple, answer), Socket::Received::message);
  EXPECT_EQ(answer.kind, MessageKind::ready);
  root.join();
}

TEST(AgreementRendezvous, WhoDoesNotComeIsNamedToAllThatHave) {
  const std::string address = own_name("missing");
  std::vector<std::thread> ranks;
  for (const std::int32_t rank : {0, 1, 3}) {
    ranks.emplace_back([&, rank] {
      const auto group = ExpertGroup::open(address, {.rank = rank, .size = 5, .timeout = Milliseconds(800)});
      ASSERT_FALSE(group.ok());
      EXPECT_EQ(group.error().code, Error::Code::infeasible);
      EXPECT_NE(group.error().message.find("rank 2 of the 5 of the expert group and 1 more are late"),
                std::string::npos)
          << group.error().message;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const auto alone = ExpertGroup::open(address, {.rank = 1, .size = 2, .timeout = Milliseconds(20)});
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("rank 0 of the expert group does not answer at '" + address), std::string::npos);
}

TEST(AgreementRendezvous, AddressesThatAreNoneAreRefusedByName) {
  for (const std::string text : {"", "tcp:", "tcp:host", "tcp::1", "tcp:127.0.0.1:0", "tcp:127.0.0.1:65536",
                                 "tcp:127.0.0.1:1x", "unix:", "unix:@", "udp:127.0.0.1:1"}) {
    const Result<Address> found = find_address(text);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_NE(found.error().message.find("address '" + text + "'"), std::string::npos) << found.error().message;
  }
  EXPECT_FALSE(find_address("unix:/" + std::string(200, 'a')).ok());
  EXPECT_TRUE(find_address("tcp:[::1]:7000").ok());
}

}  // namespace
}  // namespace tidemark::agreement
