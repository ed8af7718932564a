#include "integrations/run/group_agreement.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

namespace tidemark::testing {
namespace {

constexpr std::int32_t kMembers = 4;

/// What every member is told of one section.
std::array<Result<std::int32_t>, kMembers> ask_all(run::GroupAgreement& group,
                                                   const std::array<swap::ChunkWish, kMembers>& wishes,
                                                   std::int32_t section) {
  std::array<Result<std::int32_t>, kMembers> told{0, 0, 0, 0};
  std::array<std::jthread, kMembers> members;
  for (std::int32_t m = 0; m < kMembers; ++m) {
    const auto at = static_cast<std::size_t>(m);
    members[at] = std::jthread([&, m, at] { told[at] = group.ask(m, 0, section, wishes[at]); });
  }
  for (std::jthread& member : members) member.join();
  return told;
}

TEST(GroupAgreement, TellsAllTheMostThatAnyNeeds) {
  run::GroupAgreement group(kMembers);
  using Wishes = std::array<swap::ChunkWish, kMembers>;
  const Wishes none{{{false, 2}, {false, 9}, {false, 3}, {false, 2}}};
  const Wishes one{{{false, 2}, {false, 9}, {true, 3}, {false, 2}}};
  const Wishes impossible{{{false, 0}, {false, 9}, {true, 3}, {false, 2}}};
  for (const auto& told : ask_all(group, none, 0)) EXPECT_EQ(told.value(), 1);
  for (const auto& told : ask_all(group, one, 1)) EXPECT_EQ(told.value(), 9);
  for (const auto& told : ask_all(group, impossible, 2)) EXPECT_EQ(told.value(), 0);
}

TEST(GroupAgreement, ThoseThatWaitAreToldWhichMemberLeft) {
  run::GroupAgreement group(2);
  Result<std::int32_t> told = 0;
  std::jthread waiting([&] { told = group.ask(0, 0, 0, {.wanted = false, .chunks = 2}); });
  group.leave(1);
  waiting.join();
  ASSERT_FALSE(told.ok());
  EXPECT_NE(told.error().message.find("rank 1"), std::string::npos) << told.error().message;
  EXPECT_FALSE(group.ask(0, 0, 1, {.wanted = false, .chunks = 2}).ok());
}

}  // namespace
}  // namespace tidemark::testing
