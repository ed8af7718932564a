// Every reader on every input of its corpus, and on large inputs made of one piece over and over: at most 100 MB of
// memory and 2 s of processor time (docs/formats.md, "Limits of readers"). Each input is read in a process of its own,
// so that one that takes all memory or never ends is one failure with its name.

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/large_inputs.h"
#include "tests/fuzz/reader_bodies.h"
#include "tests/support/data.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {

std::ostream& operator<<(std::ostream& out, const ReaderBody& reader) {
  return out << reader.name;
}

namespace {

namespace fs = std::filesystem;

constexpr double kMostMegabytes = 100;
constexpr double kMostSeconds = 2;
constexpr std::size_t kMostInputBytes = 1'000'000;

/// What one input took.
struct Cost {
  std::string wrong;  ///< empty: nothing
  double megabytes = 0;
  double seconds = 0;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Far above the limits: what is beyond them ends here instead of with the machine.
void set_limits() {
  if (kSanitized) return;  // its own memory and time are no reader's
  const rlimit bytes = {.rlim_cur = rlim_t{4} << 30, .rlim_max = rlim_t{4} << 30};
  const rlimit seconds = {.rlim_cur = 20, .rlim_max = 20};
  ::setrlimit(RLIMIT_AS, &bytes);
  ::setrlimit(RLIMIT_CPU, &seconds);
}

/// Of a child: what is wrong goes to `out`.
[[noreturn]] void read_in_child(const ReaderBody& reader, std::string_view bytes, int out) {
  set_limits();
  Reached reached;
  Verdict verdict;
  try {
    verdict = reader.run(bytes, reached);
  } catch (const std::exception& exception) {
    verdict = std::string("it throws: ") + exception.what();
  }
  if (verdict) static_cast<void>(!::write(out, verdict->data(), verdict->size()));
  ::_exit(verdict ? 1 : 0);
}

std::string text_from(int fd) {
  std::string text;
  char buffer[512];
  for (ssize_t got = ::read(fd, buffer, sizeof buffer); got > 0; got = ::read(fd, buffer, sizeof buffer))
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

Cost cost_of(const ReaderBody& reader, std::string_view bytes) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return {.wrong = "no pipe"};
  ::malloc_trim(0);  // what lies free here would be in the child's account, too
  const pid_t child = ::fork();
  if (child == 0) read_in_child(reader, bytes, ends[1]);
  ::close(ends[1]);
  Cost cost{.wrong = text_from(ends[0])};
  ::close(ends[0]);
  int status = 0;
  rusage used{};
  if (::wait4(child, &status, 0, &used) != child) return {.wrong = "no child"};
  if (WIFSIGNALED(status)) cost.wrong = "it ended with signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && cost.wrong.empty()) cost.wrong = "it ended with a status";
  cost.megabytes = static_cast<double>(used.ru_maxrss) * 1024 / 1e6;  // of the whole process
  cost.seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  return cost;
}

class ReaderLimits : public ::testing::TestWithParam<ReaderBody> {
 protected:
  void expect_within(std::string_view bytes, const std::string& name) {
    const Cost cost = cost_of(GetParam(), bytes);
    EXPECT_EQ(cost.wrong, "") << name;
    if (kSanitized) return;
    EXPECT_LE(cost.megabytes, kMostMegabytes) << name;
    EXPECT_LE(cost.seconds, kMostSeconds) << name;
    most_.megabytes = std::max(most_.megabytes, cost.megabytes);
    most_.seconds = std::max(most_.seconds, cost.seconds);
  }
  void TearDown() override {
    RecordProperty("megabytes", std::to_string(most_.megabytes));
    RecordProperty("seconds", std::to_string(most_.seconds));
    std::printf("%-16s at most %5.1f MB, %5.2f s\n", std::string(GetParam().name).c_str(), most_.megabytes,
                most_.seconds);
  }

 private:
  Cost most_;
};

fs::path corpus() {
  return source_path("tests/fuzz/corpus");
}

TEST_P(ReaderLimits, HoldOnTheCorpus) {
  std::size_t inputs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus() / GetParam().name)) {
    const std::string bytes = text_of(entry.path().string());
    ASSERT_LE(bytes.size(), kMostInputBytes) << entry.path();
    expect_within(bytes, entry.path().string());
    ++inputs;
  }
  EXPECT_GE(inputs, 3U) << "the corpus is as good as empty";
}

TEST_P(ReaderLimits, HoldOnLargeInputs) {
  const std::vector<LargeInput> inputs = large_inputs(GetParam().name);
  ASSERT_FALSE(inputs.empty());
  for (const LargeInput& input : inputs)
    expect_within(input.bytes(kSanitized ? kMostInputBytes / 10 : kMostInputBytes), input.name());
}

INSTANTIATE_TEST_SUITE_P(Readers, ReaderLimits, ::testing::ValuesIn(reader_bodies()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Corpus, HasAFolderForEveryReaderAndNoOther) {
  std::set<std::string> readers, folders;
  for (const ReaderBody& reader : reader_bodies()) readers.emplace(reader.name);
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus()))
    folders.insert(entry.path().filename().string());
  EXPECT_EQ(folders, readers);
}

}  // namespace

}  // namespace tidemark::testing
