#include "core/time_term.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace tidemark {
namespace {

TEST(TimeTerm, HaveNamesOfTheirOwnThatAreReadBack) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kTimeTermCount; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    EXPECT_EQ(time_term_of(name_of(term)), term);
    EXPECT_TRUE(names.insert(name_of(term)).second) << name_of(term);
  }
  EXPECT_EQ(time_term_of("pipelines"), std::nullopt);
  EXPECT_EQ(time_term_of(""), std::nullopt);
  EXPECT_LE(kTimeTermCount, 64U) << "a set is one word";
}

TEST(TimeTerms, AreASet) {
  TimeTerms some, others;
  EXPECT_TRUE(some.empty());
  EXPECT_EQ(some.text(), "");
  some.add(TimeTerm::pipeline);
  some.add(TimeTerm::experts);
  some.add_if(false, TimeTerm::fp8);
  others.add(TimeTerm::pipeline);
  others.add(TimeTerm::state_on_host);
  EXPECT_EQ(some.text(), "experts, pipeline");
  EXPECT_EQ(some.without(others).text(), "experts");
  EXPECT_TRUE(some.without(some).empty());
  EXPECT_TRUE(some.has(TimeTerm::pipeline));
  EXPECT_FALSE(some.has(TimeTerm::fp8));
}

}  // namespace
}  // namespace tidemark
