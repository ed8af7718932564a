#include "integrations/ci/rank_choice_text.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

using Kind = budget::RankChoice::Kind;

TEST(CiRankChoice, ReadsWhatItWrites) {
  for (const char* text : {"all", "first", "middle", "last", "0", "0-3,15", "7,9-10", "65535"})
    EXPECT_EQ(ci::rank_choice_text(ci::parse_rank_choice(text).value()), text);
  EXPECT_EQ(ci::parse_rank_choice("0-2, 5").value(),
            (budget::RankChoice{.kind = Kind::listed, .listed = {0, 1, 2, 5}}));
}

TEST(CiRankChoice, RefusesOtherForms) {
  for (const char* text : {"", "none", "3-1", "1,1", "2,1", "0-3,3", "-1", "1-", ",", "1,", "0x3", "65536",
                           "0-99999999999", "99999999999999999999"})
    EXPECT_FALSE(ci::parse_rank_choice(text).ok()) << text;
  EXPECT_EQ(ci::parse_rank_choice("frist").error().message,
            "'frist' names no ranks; did you mean 'first'? write all, first, middle, last or ranks like 0-3,15");
}

}  // namespace
}  // namespace tidemark
