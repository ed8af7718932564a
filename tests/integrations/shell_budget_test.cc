// Work a script asks of its reader is counted: what asks for too much is refused in one line with its place, and real
// scripts take a few thousandths of it. Nothing here looks at a clock.

#include "integrations/formats/shell_budget.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "integrations/formats/import_arguments.h"
#include "integrations/formats/shell_script.h"
#include "tests/support/data.h"

namespace tidemark {
namespace {

std::string refusal_of(const std::string& script) {
  const auto read = formats::read_shell_script(script, "f.sh");
  EXPECT_FALSE(read.ok());
  return read.ok() ? "" : read.error().message;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

const std::string kTooManyCharacters = "expands to more than 1048576 characters; is a variable made of itself?";
const std::string kTooManySteps =
    "expands to more than 4194304 steps of searching and arithmetic; is a variable made of itself?";
const std::string kLaunch = "torchrun p.py --num-layers 1\n";

TEST(ShellBudget, EndsAVariableThatDoublesItselfAtItsLine) {
  EXPECT_EQ(refusal_of("A=0123456789abcdef\n" + repeated("A=\"$A$A\"\n", 40) + kLaunch),
            "f.sh:16: " + kTooManyCharacters);
}

TEST(ShellBudget, EndsAnArrayThatDoublesItself) {
  EXPECT_EQ(refusal_of("A=(x x x x)\n" + repeated("A+=(\"${A[@]}\")\n", 40) + kLaunch),
            "f.sh:14: " + kTooManyCharacters);
  EXPECT_EQ(refusal_of("A=(x x x x)\n" + repeated("A=(${A[@]} ${A[*]})\n", 40) + kLaunch),
            "f.sh:13: " + kTooManyCharacters);
}

TEST(ShellBudget, EndsDefaultsMadeOfDefaults) {
  EXPECT_EQ(refusal_of("A=${B:=xxxxxxxx}\n" + repeated("A=${C:-$A$A$A$A}\n", 20) + kLaunch),
            "f.sh:10: " + kTooManyCharacters);
}

/// Sums of a long sum: few characters come of it, and every name is added up anew.
TEST(ShellBudget, CountsTheSumsThatNamesStandFor) {
  const std::string sums = "A=1\n" + repeated("A=\"$A+$A\"\n", 16) + "B=$((" + repeated("A+", 400) + "1))\n";
  EXPECT_EQ(refusal_of(sums + kLaunch), "f.sh:18: " + kTooManySteps);
}

/// A frame of the stack for each.
TEST(ShellBudget, BoundsTheCommandsACommandStandsIn) {
  const std::string message =
      "f.sh:200: this command stands in more than 200 others; a launch script needs no more than a few";
  EXPECT_EQ(refusal_of(repeated("if true; then\n", 4000) + repeated("A=1\n", 4000) + kLaunch), message);
  for (const char* open : {"( ", "{ ", "while ", "f() { ", "case a in a) ", "! { ", "true | { "})
    EXPECT_NE(refusal_of(repeated(open, 4000) + kLaunch).find("stands in more than 200 others"), std::string::npos)
        << open;
}

/// A shell of its own begins with a copy of all that is known.
TEST(ShellBudget, CountsTheCopiesOfSubshells) {
  const std::string large = "A=" + repeated("x", 20'000) + "\n";
  EXPECT_EQ(refusal_of(large + repeated("(B=1)\n", 1000) + kLaunch), "f.sh:211: " + kTooManySteps);
  EXPECT_NE(refusal_of(large + repeated("U=$(date) && { B=1; C=2; }\n", 1000) + kLaunch).find(kTooManySteps),
            std::string::npos);
}

/// Calls that double at every level.
TEST(ShellBudget, CountsCallsOfCalls) {
  std::string calls = "f0() { A=1; }\n";
  for (int i = 1; i < 15; ++i) calls += fmt::format("f{}() {{ f{}; f{}; f{}; f{}; }}\n", i, i - 1, i - 1, i - 1, i - 1);
  EXPECT_NE(refusal_of(calls + "f14\n" + kLaunch).find(" expands to more than "), std::string::npos);
  EXPECT_NE(refusal_of(calls + "[ -f x ] && f14\n" + repeated("[ -f x ] && f14\n", 50) + kLaunch)
                .find(" expands to more than "),
            std::string::npos);
}

/// Where each unit begins its end is looked for, again at every level of nesting.
TEST(ShellBudget, CountsTheSearchForEnds) {
  std::string nested;
  for (int i = 0; i < 30; ++i) nested += "${A:-";
  nested += repeated("x", 100'000) + repeated("}", 30);
  const std::string message = refusal_of("B=" + nested + "\n" + kLaunch);
  EXPECT_TRUE(message == "f.sh:1: " + kTooManySteps || message == "f.sh:1: " + kTooManyCharacters) << message;
}

/// What hides a variable, or stands before a command, is a copy of it.
TEST(ShellBudget, CountsTheCopiesOfValues) {
  const std::string large = "A=" + repeated("x", 20'000) + "\n";
  EXPECT_NE(refusal_of(large + "f() { local A; }\n" + repeated("f\n", 1000) + kLaunch).find(kTooManySteps),
            std::string::npos);
  EXPECT_NE(refusal_of(large + repeated("A=1 mkdir x\n", 1000) + kLaunch).find(kTooManySteps), std::string::npos);
  EXPECT_NE(refusal_of(large + repeated("[ -f x ] && A+=' --x'\n", 1000) + kLaunch).find(kTooManySteps),
            std::string::npos);
}

/// A body that may be defined again and again is the same.
TEST(ShellBudget, KeepsABodyOnce) {
  std::string calls = "g() { f() { A=1; }; }\n" + repeated("[ -f x ] && g\n", 300) + repeated("[ -f x ] && f\n", 300);
  const auto read = formats::read_shell_script(calls + kLaunch, "f.sh");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_LT(read.value().steps, formats::kMostShellSteps / 20);
}

/// Calls and what stands in commands are frames of one stack.
TEST(ShellBudget, BoundsWhatIsFollowedInOneAnother) {
  std::string calls = "f0() { A=1; }\n";
  for (int i = 1; i <= 16; ++i)
    calls += fmt::format("f{}() {}f{}\n{}\n", i, repeated("{ ", 196), i - 1, repeated("}; ", 195) + "}");
  for (const char* call : {"f16\n", "[ -f x ] && f16\n"}) {
    const auto read = formats::read_shell_script(calls + call + kLaunch, "f.sh");
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_FALSE(read.value().unread.empty());
    EXPECT_EQ(read.value().unread.front().what, "commands stand in one another too deep to be followed");
  }
}

TEST(ShellBudget, EndsShortWordsWithoutNumber) {
  EXPECT_EQ(refusal_of("torchrun a.py --num-layers" + repeated(" a", 100'000) + "\n"), "f.sh:1: " + kTooManyCharacters);
}

/// These took time that grows with the square of the text, or a frame of the stack for every bracket.
TEST(ShellLexer, TakesAsLongAsTheTextIs) {
  EXPECT_FALSE(refusal_of(repeated("A=(", 300'000)).empty());
  EXPECT_FALSE(refusal_of("A=(" + repeated("x ", 200'000) + repeated("(", 400'000) + ")\n").empty());
  EXPECT_FALSE(refusal_of("[ " + repeated("! ", 30'000) + "x ]\n").empty());
  EXPECT_FALSE(refusal_of(repeated("if ", 100'000)).empty());
  EXPECT_FALSE(refusal_of(repeated("a[ ", 300'000)).empty());
  EXPECT_FALSE(refusal_of("((" + repeated("a[", 300'000) + "))\n").empty());
}

TEST(ShellBudget, IsHardlyTouchedByRealScripts) {
  int scripts = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(tidemark::testing::source_path("tests/data/arguments"))) {
    if (entry.path().extension() != ".sh") continue;
    ++scripts;
    const auto read = formats::read_shell_script(tidemark::testing::text_of(entry.path()), "f.sh");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_GT(read.value().steps, 0U);
    EXPECT_LT(read.value().steps, formats::kMostShellSteps / 200);
    EXPECT_LT(read.value().characters, formats::kMostShellCharacters / 50);
  }
  EXPECT_GE(scripts, 1);
}

}  // namespace
}  // namespace tidemark
