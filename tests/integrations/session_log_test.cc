// Logs of sessions as text: written and read back, and one line for what cannot be meant.

#include "integrations/formats/session_log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/data.h"

namespace tidemark {
namespace {

const std::string kHead = "tidemark_session version=1 host_bytes=0\n";

TEST(SessionLog, IsReadBackAsWritten) {
  const std::string text = testing::text_of(testing::source_path("tests/data/session/transformer.log"));
  const auto log = formats::read_session_log(text, "log");
  ASSERT_TRUE(log.ok()) << log.error().message;
  std::string again = formats::write_session_log_head(log.value().host_bytes, log.value().loop);
  for (const swap::SessionEvent& event : log.value().events) again += formats::write_session_event(event);
  EXPECT_EQ(again, text);
}

TEST(SessionLog, IsGoodToWhereItsRunEnded) {
  const auto log = formats::read_session_log(kHead + "begin_step\nop op=3 stream=1", "log");
  ASSERT_TRUE(log.ok()) << log.error().message;
  ASSERT_EQ(log.value().events.size(), 2U);
  EXPECT_EQ(log.value().events[1], (swap::SessionEvent{.op = static_cast<OpId>(3), .stream = 1}));
}

TEST(SessionLog, HasWhatWasAdopted) {
  const std::string line = "adopt storage=52 block=3 at=0x7f00 bytes=512 stream=1\n";
  const auto log = formats::read_session_log(kHead + line, "log");
  ASSERT_TRUE(log.ok()) << log.error().message;
  const swap::SessionEvent adopted{.kind = swap::SessionEvent::Kind::adopt,
                                   .storage = static_cast<StorageId>(52),
                                   .block = 3,
                                   .address = 0x7f00,
                                   .bytes = 512,
                                   .stream = 1};
  EXPECT_EQ(log.value().events.front(), adopted);
  EXPECT_EQ(formats::write_session_event(adopted), line);
}

TEST(SessionLog, RefusesWhatCannotBeMeantWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "log:1: this is no log of a session, which begins with 'tidemark_session'"},
      {"tidemark_session version=2 host_bytes=0\n", "log:1: the log has version 2; 1 is read"},
      {"tidemark_session host_bytes=0\n", "log:1: 'host_bytes=0' stands where version=... must"},
      {kHead + "loop op=1 part=0 told=1\n", "log:2: op 1 comes where 0 must"},
      {kHead + "close\nloop op=0 part=0 told=1\n", "log:3: 'loop' stands behind events"},
      {kHead + "opp op=1\n", "log:2: 'opp' is no event of a session"},
      {kHead + "op\n", "log:2: 'op' needs op=..."},
      {kHead + "op op=1 op=1\n", "log:2: 'op' is there twice"},
      {kHead + "op op=1 saved=1\n", "log:2: 'op' has no 'saved'"},
      {kHead + "op op=1 again\n", "log:2: 'op' has no 'again'"},
      {kHead + "adopt storage=52\n", "log:2: 'adopt' needs block=..."},
      {kHead + "op op=-1\n", "log:2: op is '-1'; it must be"},
      {kHead + "op op=2147483647\n", "log:2: op is '2147483647'; it must be"},
  };
  for (const auto& [text, says] : cases) {
    const auto log = formats::read_session_log(text, "log");
    ASSERT_FALSE(log.ok()) << text;
    EXPECT_TRUE(log.error().message.starts_with(says)) << log.error().message;
  }
}

}  // namespace
}  // namespace tidemark
