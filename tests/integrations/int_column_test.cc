#include "integrations/formats/int_column.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using Values = std::vector<std::int64_t>;

std::string text_of(const Values& values, formats::Coding coding, bool scaled = false) {
  std::string text;
  formats::append_column(text, values, coding, scaled);
  return text;
}

Result<Values> read_back(const std::string& text) {
  return formats::read_column(testing::parsed(text));
}

TEST(IntColumn, FoldsWhatRepeats) {
  EXPECT_EQ(text_of({}, formats::Coding::plain), R"({"count":0,"data":[]})");
  EXPECT_EQ(text_of({7, 7, 7, 7, 7, 7}, formats::Coding::plain), R"({"count":6,"data":[7,[1,5]]})");
  EXPECT_EQ(text_of({1, 2, 3, 1, 2, 3, 1, 2, 3}, formats::Coding::plain), R"({"count":9,"data":[1,2,3,[3,6]]})");
  EXPECT_EQ(text_of({5, 6, 7, 8, 9, 10}, formats::Coding::delta), R"({"count":6,"coding":"delta","data":[5,1,[1,4]]})");
  EXPECT_EQ(text_of({1024, 0, 512}, formats::Coding::plain, true), R"({"count":3,"scale":512,"data":[2,0,1]})");
  // New ids count up; id 9 jumps ahead; 0 and 1 come back.
  EXPECT_EQ(text_of({0, 1, 0, 9, 1, 10}, formats::Coding::recall),
            R"({"count":6,"coding":"recall","data":[0,0,2,-10,3,0]})");
}

TEST(IntColumn, ALargeCommonFactorIsNoScale) {
  const Values values = {std::int64_t{1} << 41, std::int64_t{3} << 41, 0};
  const auto back = read_back(text_of(values, formats::Coding::plain, true));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back.value(), values);
}

TEST(IntColumn, ReadsBackWhatWasWritten) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 500; ++round) {
    Values values;
    const std::size_t period = 1 + random() % 40;
    const std::int64_t spread = std::int64_t{1} << (random() % 40);
    for (std::size_t i = 0, n = random() % 600; i < n; ++i) {
      const bool repeat = i >= period && random() % 20 != 0;
      values.push_back(repeat ? values[i - period]
                              : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(spread)) * 256);
    }
    for (const formats::Coding coding : {formats::Coding::plain, formats::Coding::delta, formats::Coding::recall}) {
      for (const bool scaled : {false, true}) {
        const auto back = read_back(text_of(values, coding, scaled));
        ASSERT_TRUE(back.ok()) << back.error().message;
        ASSERT_EQ(back.value(), values);
      }
    }
  }
}

TEST(IntColumn, NegativeValuesArePlainOrDelta) {
  const Values values = {-1, -1, -1, -1, 5, -7, std::numeric_limits<std::int64_t>::min() / 4};
  EXPECT_EQ(read_back(text_of(values, formats::Coding::plain)).value(), values);
  EXPECT_EQ(read_back(text_of(values, formats::Coding::delta)).value(), values);
}

TEST(IntColumn, RefusesWhatIsNoColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([1,2])", "must be an object"},
      {R"({"data":[]})", "`count` must be"},
      {R"({"count":-1,"data":[]})", "`count` must be"},
      {R"({"count":99999999999,"data":[]})", "`count` must be"},
      {R"({"count":1.5,"data":[]})", "`count` must be"},
      {R"({"count":1})", "`data` must be a list"},
      {R"({"count":2,"data":[1]})", "1 values, `count` says 2"},
      {R"({"count":1,"data":[1,2]})", "more than 1 values"},
      {R"({"count":9,"data":[1,[1,9]]})", "more than 9 values"},
      {R"({"count":9,"data":[[1,9]]})", "repeats nothing"},
      {R"({"count":9,"data":[1,[2,8]]})", "repeats nothing"},
      {R"({"count":9,"data":[1,[0,8]]})", "repeats nothing"},
      {R"({"count":9,"data":[1,[1,-8]]})", "repeats nothing"},
      {R"({"count":9,"data":[1,[1,8,1]]})", "neither a whole number"},
      {R"({"count":1,"data":["1"]})", "neither a whole number"},
      {R"({"count":1,"data":[1.5]})", "neither a whole number"},
      {R"({"count":1,"coding":"zip","data":[1]})", "`coding` must be"},
      {R"({"count":1,"coding":3,"data":[1]})", "`coding` must be"},
      {R"({"count":1,"coding":"recall","data":[1]})", "recalls 1 places back"},
      {R"({"count":1,"scale":0,"data":[1]})", "`scale` must be"},
      {R"({"count":1,"scale":1024,"data":[9223372036854775807]})", "overflows"},
  };
  for (const auto& [text, says] : cases) {
    const auto result = read_back(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message.find(says), std::string::npos) << text << ": " << result.error().message;
  }
}

}  // namespace
}  // namespace tidemark
