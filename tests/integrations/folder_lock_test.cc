#include "integrations/cli/folder_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/program_run.h"

namespace tidemark::cli {
namespace {

using std::chrono::milliseconds;

/// A lock of flock(2) is of an open folder, so that one process can hold it against itself.
TEST(FolderLock, IsWaitedForAndSaidOnce) {
  const testing::Workplace place;
  std::vector<std::string> said;
  const auto say = [&said](const std::string& line) { said.push_back(line); };
  std::vector<Result<FolderLock>> held;
  held.push_back(FolderLock::take(place.path("a.json"), say));
  ASSERT_TRUE(held.front().ok());
  EXPECT_TRUE(said.empty());
  std::jthread other([&held] {
    std::this_thread::sleep_for(milliseconds(300));
    held.clear();
  });
  const Result<FolderLock> taken =
      FolderLock::take(place.path("b.json"), say, {.silent = milliseconds(50), .most = milliseconds(60'000)});
  other.join();
  EXPECT_TRUE(taken.ok());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said.front().find("waiting for another process"), std::string::npos);
}

TEST(FolderLock, HasAnEndOfPatience) {
  const testing::Workplace place;
  const auto ignore = [](const std::string&) {};
  const Result<FolderLock> held = FolderLock::take(place.path("a.json"), ignore);
  const Result<FolderLock> refused =
      FolderLock::take(place.path("a.json"), ignore, {.silent = milliseconds(10), .most = milliseconds(1000)});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Error::Code::bad_input);
  EXPECT_EQ(refused.error().message.find(place.path("a.json").string() + ": nothing was written: another process"), 0U)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("for 1 s"), std::string::npos) << refused.error().message;
}

TEST(FolderLock, AFolderThatIsNotThereGivesNone) {
  const testing::Workplace place;
  EXPECT_TRUE(FolderLock::take(place.path("no/a.json"), [](const std::string&) {}).ok());
}

}  // namespace
}  // namespace tidemark::cli
