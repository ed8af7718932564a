// Measured step times on the command line: scored as this program predicts them, or as something else did.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using nlohmann::json;

class Times : public ::testing::Test {
 protected:
  void SetUp() override { place.write("times.json", text_of(source_path("tests/data/step_times.json"))); }

  [[nodiscard]] json answer(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"estimate", "--time-truth", "times.json", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = place.run(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return parsed(ran.out);
  }

  [[nodiscard]] Ran refused(const std::string& predicted) const {
    place.write("p.json", predicted);
    Ran ran = place.run({"estimate", "--time-truth", "times.json", "--predicted", "p.json"});
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.out, "");
    return ran;
  }

  Workplace place;
};

TEST_F(Times, SecondsGivenAreScoredAsOwnOnesAre) {
  const json own = answer({});
  json given = {{"rows", json::array()}};
  for (const json& row : own.at("rows"))
    if (!row.at("predicted_s").is_null())
      given["rows"].push_back({{"id", row.at("id")}, {"predicted_s", row.at("predicted_s")}});
  ASSERT_GT(given.at("rows").size(), 3U);
  place.write("p.json", given.dump());
  const json again = answer({"--predicted", "p.json"});
  EXPECT_EQ(again.at("tracks"), own.at("tracks"));
  EXPECT_EQ(again.at("sources"), json::array());  // no factor of a source stands on seconds from elsewhere
  EXPECT_NE(again.at("notes").dump().find("p.json holds the predicted seconds"), std::string::npos);
}

TEST_F(Times, ARowThatIsNotGivenIsRefused) {
  const json own = answer({});
  const std::string id = own.at("rows").at(0).at("id");
  place.write("p.json", json{{"rows", {{{"id", id}, {"predicted_s", 2.5}}}}}.dump());
  const json rows = answer({"--predicted", "p.json"}).at("rows");
  EXPECT_EQ(rows.at(0).at("predicted_s"), 2.5);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_TRUE(rows.at(i).at("predicted_s").is_null());
    const json& reason = own.at("rows").at(i).at("refused");
    const bool was_own = own.at("rows").at(i).at("predicted_s").is_null() && reason != "software not known";
    if (!was_own) {
      EXPECT_EQ(rows.at(i).at("refused"), "no seconds were given for it");
    }
  }
}

TEST_F(Times, AMistakeInSecondsGivenIsOneLine) {
  EXPECT_EQ(refused(R"({"rows": [{"id": "nothing", "predicted_s": 1}]})").err,
            "p.json: no measured row has the id 'nothing'\n");
  EXPECT_EQ(refused("rows:\n- {id: a, predicted_s: 0}\n").err,
            "p.json:2: predicted_s is 0; it is 1e-09 to 1000000000 seconds of a step\n");
  EXPECT_EQ(refused("rows:\n- {id: a, predicted_s: 1}\n- {id: a, predicted_s: 2}\n").err,
            "p.json:3: the row 'a' is there twice; keep one of the two\n");
  EXPECT_NE(refused("rows:\n- {id: a}\n").err.find("predicted_s"), std::string::npos);
  EXPECT_EQ(place.run({"estimate", "--predicted", "p.json"}).status, 2);
}

}  // namespace
}  // namespace tidemark::testing
