// Words that would act in the log of a CI job.

#include "integrations/ci/plain_words.h"

#include <gtest/gtest.h>

#include <string>

#include "integrations/ci/budget_file.h"
#include "integrations/ci/safe_text.h"
#include "integrations/formats/html_text.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

std::string mistake_of_name(const std::string& name) {
  const auto file =
      read_budget_file("schema: tidemark-budget/1\njobs:\n  - name: \"" + name + "\"\n    model: m.yaml\n", "b.yaml");
  return file ? "none" : file.error().message;
}

TEST(PlainWords, NamesThatWouldActAreRefusedWithTheirLine) {
  EXPECT_EQ(mistake_of_name("pangu: 718b #2"), "none");
  EXPECT_EQ(mistake_of_name("a::b"), "none");
  EXPECT_EQ(mistake_of_name("::stop-commands::x"),
            "b.yaml:3: name '::stop-commands::x' begins with '::', which a CI runner takes for a command; begin with a "
            "letter");
  EXPECT_NE(mistake_of_name("  ::error file=x::pwned").find("begins with '::'"), std::string::npos);
  EXPECT_NE(mistake_of_name("a ##[error]b").find("holds '##['"), std::string::npos);
  EXPECT_NE(mistake_of_name("a\\x1bb").find("has control characters"), std::string::npos);
}

TEST(PlainWords, CharactersThatTurnTextAreRefused) {
  for (const char* turning : {"\u202a", "\u202e", "\u2066", "\u2069"})
    EXPECT_NE(mistake_of_name("job" + std::string(turning) + "x").find("turn the direction"), std::string::npos);
  for (const char* plain : {"\u2029", "\u202f", "\u2065", "\u206a", "\u00e9"})
    EXPECT_EQ(mistake_of_name("job" + std::string(plain) + "x").find("turn the direction"), std::string::npos);
}

TEST(PlainWords, WaiversAreHeldToTheSame) {
  const auto file = read_budget_file(
      "schema: tidemark-budget/1\njobs:\n  - name: a\n    model: m.yaml\n    waivers:\n"
      "      - {owner: a@b.c, reason: 'see ##[add-mask]x', expires: 2026-12-31, at_most: 1GiB}\n",
      "b.yaml");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message.find("b.yaml:6: reason"), 0U) << file.error().message;
}

std::string mistake_of_waiver(const std::string& owner, const std::string& reason) {
  const auto file = read_budget_file(
      "schema: tidemark-budget/1\njobs:\n  - name: a\n    model: m.yaml\n    waivers:\n"
      "      - {owner: \"" +
          owner + "\", reason: \"" + reason + "\", expires: 2026-12-31, at_most: 1GiB}\n",
      "b.yaml");
  return file ? "" : file.error().message;
}

TEST(PlainWords, WhoAnswersForAWaiverIsSeen) {
  for (const char* blank :
       {" ", "\\t", "\\n", "\u00a0", "\u200b", "\u200d\u2060", "\u3164", "\ufeff", "\u2800", "\u00ad "}) {
    EXPECT_EQ(mistake_of_waiver(blank, "why").find("b.yaml:6: owner "), 0U) << mistake_of_waiver(blank, "why");
    EXPECT_EQ(mistake_of_waiver("a@b.c", blank).find("b.yaml:6: reason "), 0U) << mistake_of_waiver("a@b.c", blank);
    EXPECT_NE(mistake_of_waiver(blank, "why").find("shows nothing"), std::string::npos);
    EXPECT_NE(mistake_of_name(blank), "none");
  }
  EXPECT_NE(mistake_of_waiver("a\u202e", "why").find("turn the direction"), std::string::npos);
  for (const char* seen : {"a", "\u00e9", "\u674e", "\U0001f600", " . ", "\u200bx"})
    EXPECT_EQ(mistake_of_waiver(seen, "two\\nlines"), "");
}

TEST(PlainWords, NothingTurnsTheText) {
  for (const char* turning : {"\u202a", "\u202e", "\u2066", "\u2069"}) {
    const std::string text = "a" + std::string(turning) + "b";
    EXPECT_EQ(formats::without_turns(text), "a?b");
    EXPECT_EQ(formats::printable(text), "a?b");
    EXPECT_EQ(formats::html_text(text), "a?b");
    EXPECT_EQ(formats::script_text(text), "a?b");
    EXPECT_EQ(xml_text(text), "a\ufffdb");
    EXPECT_EQ(markdown_text(text), "a\ufffdb");
  }
  for (const char* plain : {"", "\u2029", "\u202f", "\u2065", "\u206a", "\u00e9", "\xe2\x80", "\xe2"})
    EXPECT_EQ(formats::without_turns(plain), plain);
  for (const char* plain : {"\u202f", "\u2065", "\u206a", "\u00e9"})
    for (const auto shown : {formats::printable, formats::html_text, xml_text, markdown_text})
      EXPECT_EQ(shown(plain), plain);
}

TEST(PlainWords, NoLineOfALogIsACommand) {
  EXPECT_EQ(without_commands("PASS a: 1\n  ::error::x\n::x\n\na ::b\n"), "PASS a: 1\n  \\::error::x\n\\::x\n\na ::b\n");
  EXPECT_EQ(without_commands("a ##[error]b ##[c]"), "a ##\\[error]b ##\\[c]");
  EXPECT_EQ(without_commands(""), "");
  EXPECT_EQ(without_commands("::"), "\\::");
}

}  // namespace
}  // namespace tidemark::ci
