// The vote of an expert group, over pairs of sockets: ranks are threads that come in any order.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "integrations/agreement/seat.h"
#include "integrations/agreement/vote_server.h"
#include "tests/support/fork.h"
#include "tests/support/sanitized.h"

namespace tidemark::agreement {
namespace {

constexpr Milliseconds kAmple{60'000};

/// What all are told, from the words of the contract.
std::int32_t told(const std::vector<Ask>& asks) {
  const bool wanted = std::ranges::any_of(asks, [](const Ask& a) { return a.wanted != 0; });
  const bool cannot = std::ranges::any_of(asks, [](const Ask& a) { return a.chunks == 0; });
  std::int32_t most = 2;
  for (const Ask& ask : asks) most = std::max(most, ask.chunks);
  if (!wanted) return 1;
  return cannot ? 0 : most;
}

/// Ranks at their seats, and the server.
struct Table {
  explicit Table(std::int32_t size, Milliseconds timeout = kAmple) {
    std::vector<Socket> served;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      auto ends = Socket::pair();
      EXPECT_TRUE(ends.ok());
      descriptors.push_back(ends.value().first.descriptor());
      served.push_back(std::move(ends.value().second));
      seats.push_back(std::make_unique<Seat>(std::move(ends.value().first), rank, size, timeout));
    }
    server = std::make_unique<VoteServer>(std::move(served), timeout);
  }
  ~Table() { seats.clear(); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  Seat& seat(std::int32_t rank) { return *seats[static_cast<std::size_t>(rank)]; }
  /// As its process's end would.
  void cut(std::int32_t rank) const { (void)shutdown(descriptors[static_cast<std::size_t>(rank)], SHUT_RDWR); }
  void send_noise(std::int32_t rank) const {
    const std::vector<char> noise(sizeof(Message), 'x');
    (void)send(descriptors[static_cast<std::size_t>(rank)], noise.data(), noise.size(), MSG_NOSIGNAL);
  }

  std::unique_ptr<VoteServer> server;
  std::vector<std::unique_ptr<Seat>> seats;
  std::vector<int> descriptors;
};

/// One group's votes, drawn: what each rank asks, and what one of them does instead at one of the votes.
struct Case {
  explicit Case(std::uint32_t seed) : random(seed) {
    size = 1 + below(8);
    votes = 1 + below(24);
    const LossCause causes[] = {LossCause::none,   LossCause::gone,        LossCause::left,      LossCause::foreign,
                                LossCause::closed, LossCause::out_of_step, LossCause::other_plan};
    cause = size == 1 ? LossCause::none : causes[seed % std::size(causes)];
    culprit = below(size);
    at = below(votes);
    for (std::int32_t vote = 0; vote < votes; ++vote) {
      std::vector<Ask> row;
      for (std::int32_t rank = 0; rank < size; ++rank)
        row.push_back({.place = {.group = 14, .section = vote % 7, .plan = 5},
                       .wanted = below(6) == 0,
                       .chunks = below(12) == 0 ? 0 : 2 + below(9)});
      asks.push_back(std::move(row));
    }
    for (std::int32_t rank = 0; rank < size; ++rank) seeds.push_back(static_cast<unsigned>(random()));
  }
  std::int32_t below(std::int32_t limit) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(limit)); }

  std::mt19937 random;
  std::int32_t size = 1;
  std::int32_t votes = 1;
  LossCause cause = LossCause::none;
  std::int32_t culprit = 0;            ///< who does it,
  std::int32_t at = 0;                 ///< in place of asking in this vote
  std::vector<std::vector<Ask>> asks;  ///< per vote and rank
  std::vector<unsigned> seeds;
};

void misbehave(Table& table, const Case& c, std::vector<std::int32_t>& answers) {
  Ask ask = c.asks[static_cast<std::size_t>(c.at)][static_cast<std::size_t>(c.culprit)];
  switch (c.cause) {
    case LossCause::gone:
      return table.cut(c.culprit);
    case LossCause::left:
      return table.seat(c.culprit).leave();
    case LossCause::foreign:
      return table.send_noise(c.culprit);
    case LossCause::closed:
      return table.seats[static_cast<std::size_t>(c.culprit)].reset();
    case LossCause::out_of_step:
      ask.place.section += 1;
      break;
    default:
      ask.place.plan += 1;
  }
  const Result<std::int32_t> answer = table.seat(c.culprit).ask(ask);
  if (answer) answers.push_back(answer.value());
}

/// A rank's thread: what it was told.
std::vector<std::int32_t> play(Table& table, const Case& c, std::int32_t rank) {
  std::mt19937 random(c.seeds[static_cast<std::size_t>(rank)]);
  std::vector<std::int32_t> answers;
  for (std::int32_t vote = 0; vote < c.votes; ++vote) {
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    if (random() % 3 == 0) std::this_thread::yield();
    if (c.cause != LossCause::none && rank == c.culprit && vote == c.at) {
      misbehave(table, c, answers);
      return answers;
    }
    const auto& row = c.asks[static_cast<std::size_t>(vote)];
    const Result<std::int32_t> answer = table.seat(rank).ask(row[static_cast<std::size_t>(rank)]);
    if (!answer) break;
    answers.push_back(answer.value());
  }
  return answers;
}

void expect_named(const Case& c, const Table& table, std::int32_t rank) {
  const auto& loss = table.seats[static_cast<std::size_t>(rank)]->loss();
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(loss->cause, c.cause);
  EXPECT_TRUE(loss->rank == c.culprit || loss->other_rank == c.culprit);
  const std::string text = describe(*loss, c.size);
  EXPECT_NE(text.find(std::to_string(c.culprit)), std::string::npos) << text;
  const bool names_last = c.cause == LossCause::gone || c.cause == LossCause::left || c.cause == LossCause::closed;
  const std::int32_t before = c.at == 0 ? -1 : (c.at - 1) % 7;
  EXPECT_EQ(names_last ? loss->at.section : before, before);
}

TEST(AgreementVotes, AllAreToldTheSameWhateverTheOrderAndATroubleIsNamed) {
  for (std::uint32_t seed = 0; seed < testing::cases(210U); ++seed) {
    SCOPED_TRACE(seed);
    const Case c(seed);
    Table table(c.size);
    std::vector<std::vector<std::int32_t>> answers(static_cast<std::size_t>(c.size));
    std::vector<std::thread> ranks;
    for (std::int32_t rank = 0; rank < c.size; ++rank)
      ranks.emplace_back([&, rank] { answers[static_cast<std::size_t>(rank)] = play(table, c, rank); });
    for (std::thread& rank : ranks) rank.join();
    const std::int32_t counted = c.cause == LossCause::none ? c.votes : c.at;
    std::vector<std::int32_t> wanted;
    for (std::int32_t vote = 0; vote < counted; ++vote) wanted.push_back(told(c.asks[static_cast<std::size_t>(vote)]));
    for (std::int32_t rank = 0; rank < c.size; ++rank) {
      EXPECT_EQ(answers[static_cast<std::size_t>(rank)], wanted) << "rank " << rank;
      if (c.cause != LossCause::none && rank != c.culprit) expect_named(c, table, rank);
    }
  }
}

/// The others are waiting while the late ones do not come, whoever they are; those are told as well when they do.
TEST(AgreementVotes, WhoIsLateIsNamedToAllAndToItself) {
  constexpr std::int32_t kSize = 6;
  for (const std::vector<std::int32_t>& late : {std::vector{0}, {1, 4}}) {
    Table table(kSize, Milliseconds(800));
    std::latch told_to_all(kSize - static_cast<std::ptrdiff_t>(late.size()));
    std::vector<std::thread> ranks;
    for (std::int32_t rank = 0; rank < kSize; ++rank) {
      ranks.emplace_back([&, rank] {
        EXPECT_TRUE(table.seat(rank).ask({.place = {.group = 1, .section = 0}, .chunks = 2}).ok());
        const bool is_late = std::ranges::find(late, rank) != late.end();
        if (is_late) told_to_all.wait();
        const Result<std::int32_t> answer = table.seat(rank).ask({.place = {.group = 1, .section = 1}, .chunks = 2});
        EXPECT_FALSE(answer.ok());
        EXPECT_FALSE(table.seat(rank).ask({.place = {.group = 1, .section = 2}, .chunks = 2}).ok());
        if (!is_late) told_to_all.count_down();
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (std::int32_t rank = 0; rank < kSize; ++rank) {
      const std::optional<Loss>& loss = table.seat(rank).loss();
      ASSERT_TRUE(loss.has_value());
      EXPECT_EQ(loss->cause, LossCause::late);
      EXPECT_EQ(loss->rank, late.front());
      EXPECT_EQ(loss->more, static_cast<std::int32_t>(late.size()) - 1);
      EXPECT_EQ(loss->at.section, 0);
      EXPECT_EQ(loss->other_at.section, 1);
    }
  }
}

/// A host that is gone sends nothing more, not even the end of its connections.
TEST(AgreementVotes, AServerThatIsSilentIsRankZero) {
  auto ends = Socket::pair();
  ASSERT_TRUE(ends.ok());
  Seat seat(std::move(ends.value().first), 1, 2, Milliseconds(20));
  const Result<std::int32_t> answer = seat.ask({.place = {.group = 0, .section = 0}});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(seat.loss()->cause, LossCause::silent);
  EXPECT_NE(answer.error().message.find("rank 0 of the 2 of the expert group"), std::string::npos);
  ends.value().second.close();
  Seat cut(std::move(ends.value().second), 1, 2, Milliseconds(20));
  EXPECT_EQ(cut.ask({}).error().code, Error::Code::bad_input);  // as in a forked process
}

/// Its copies are closed: it neither asks nor ends the group of the process that forked it.
TEST(AgreementVotes, AForkedProcessIsNoRankAndHarmsNone) {
  Table table(2);
  const auto ask = [&](std::int32_t rank, std::int32_t section) {
    return table.seat(rank).ask({.place = {.group = 0, .section = section}, .wanted = 1, .chunks = 3});
  };
  for (std::int32_t section = 0; section < 3; ++section) {
    const int refused = in_a_fork([&] {
      const bool is_refused = !ask(0, section).ok() && !ask(1, section).ok() && !table.seat(0).loss();
      table.seats.clear();
      table.server.reset();
      return is_refused;
    });
    EXPECT_EQ(refused, 0);
    std::thread other([&] { EXPECT_TRUE(ask(1, section).ok()); });
    EXPECT_TRUE(ask(0, section).ok());
    other.join();
  }
}

TEST(AgreementVotes, AServerThatEndsIsRankZeroThatIsGone) {
  Table table(3);
  table.server.reset();
  for (const std::int32_t rank : {1, 2}) {
    EXPECT_FALSE(table.seat(rank).ask({.place = {.group = 0, .section = 0}}).ok());
    EXPECT_EQ(table.seat(rank).loss()->cause, LossCause::gone);
    EXPECT_EQ(table.seat(rank).loss()->rank, 0);
  }
}

}  // namespace
}  // namespace tidemark::agreement
