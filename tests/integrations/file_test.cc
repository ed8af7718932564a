#include "integrations/formats/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// Runs `condition` in a process of its own, so that limits and rights it gives up stay there.
bool holds_in_child(const std::function<bool()>& condition) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(condition() ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("tidemark-" + std::string(test->name()) + "-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }

  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(FileTest, ReadsBackWhatItWrote) {
  const fs::path path = folder_ / "out.json";
  const std::string bytes = std::string("line\n\0\xff", 7) + std::string(300'000, 'x');
  ASSERT_TRUE(formats::write_file(path, bytes).ok());
  const Result<std::string> read = formats::read_file(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value(), bytes);
  EXPECT_EQ(entries(), 1u) << "no temporary is left";
}

TEST_F(FileTest, ReplacesAndKeepsPermissions) {
  const fs::path path = folder_ / "out.json";
  ASSERT_TRUE(formats::write_file(path, "a longer first text").ok());
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(formats::write_file(path, "second").ok());
  EXPECT_EQ(formats::read_file(path).value(), "second");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileTest, ANewFileFollowsTheUmask) {
  const mode_t before = ::umask(027);
  const Status status = formats::write_file(folder_ / "out", "x");
  ::umask(before);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(fs::status(folder_ / "out").permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
}

TEST_F(FileTest, WritesEmptyFiles) {
  ASSERT_TRUE(formats::write_file(folder_ / "empty", "").ok());
  EXPECT_EQ(formats::read_file(folder_ / "empty").value(), "");
}

TEST_F(FileTest, KeepsALinkAndReplacesItsTarget) {
  ASSERT_TRUE(formats::write_file(folder_ / "target", "old").ok());
  fs::create_symlink("target", folder_ / "link");
  ASSERT_TRUE(formats::write_file(folder_ / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(formats::read_file(folder_ / "target").value(), "new");
}

TEST_F(FileTest, MissingFolderIsBadInput) {
  const Status status = formats::write_file(folder_ / "no" / "such" / "out.json", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Error::Code::bad_input);
  EXPECT_EQ(status.error().message,
            (folder_ / "no" / "such" / "out.json").string() + ": cannot write: No such file or directory");
  EXPECT_EQ(entries(), 0u);
}

TEST_F(FileTest, AFolderCannotBeWrittenOrRead) {
  EXPECT_EQ(formats::write_file(folder_, "x").error().message, folder_.string() + ": cannot write: Is a directory");
  EXPECT_EQ(formats::read_file(folder_).error().message, folder_.string() + ": cannot read: Is a directory");
}

TEST_F(FileTest, WhatIsNotARegularFileIsRefusedUnopened) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, fs::path("/dev/zero"), fs::path("/dev/full")}) {
    if (!fs::exists(path)) continue;
    const Result<std::string> read = formats::read_file(path);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, Error::Code::bad_input);
    EXPECT_EQ(read.error().message, path.string() + ": is not a regular file; give a file");
  }
}

TEST_F(FileTest, AFileAboveTheLimitIsRefusedUnread) {
  const fs::path path = folder_ / "sparse";
  ASSERT_TRUE(formats::write_file(path, "x").ok());
  fs::resize_file(path, std::uintmax_t{1} << 42);  // takes no room, but would fill any memory
  const Result<std::string> read = formats::read_file(path);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Error::Code::bad_input);
  EXPECT_EQ(read.error().message, path.string() + ": is 4.00 TiB large; it must be at most 4.00 GiB");
  fs::resize_file(path, 100'000);
  EXPECT_EQ(formats::read_file(path, 99'999).error().message,
            path.string() + ": is 97.66 KiB large; it must be at most 97.66 KiB");
  EXPECT_EQ(formats::read_file(path, 100'000).value().size(), 100'000U);
}

TEST_F(FileTest, AnEndingSignalLeavesNoTemporary) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const struct rlimit no_core = {};
      ::setrlimit(RLIMIT_CORE, &no_core);
      ::signal(number, SIG_DFL);
      formats::remove_temporaries_on_signals();
      const formats::Temporary first = formats::create_temporary(folder_ / "a");
      const formats::Temporary second = formats::create_temporary(folder_ / "b");
      if (first.fd < 0 || second.fd < 0 || entries() != 2) ::_exit(1);
      ::raise(number);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_EQ(entries(), 0u);
  }
}

/// A process that does `work` until it is killed; `work` must not return.
template <class Work>
pid_t start_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(1);
  }
  return child;
}

void kill_child(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(FileTest, AKilledWriterLeavesNoTemporaryForEver) {
  const fs::path path = folder_ / "out.json", other = folder_ / "other.json";
  const std::string bytes(4 << 20, 'x');
  int left = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = start_child([&] {
      for (;;) static_cast<void>(formats::write_file(path, bytes).ok());
    });
    ::usleep(5'000 + 1'000 * static_cast<useconds_t>(i));
    kill_child(child);
    left += entries() > static_cast<std::size_t>(fs::exists(path)) ? 1 : 0;
    if (fs::exists(path)) {
      EXPECT_TRUE(fs::file_size(path) == bytes.size() || formats::read_file(path).value() == "whole");
    }
    ASSERT_TRUE(formats::write_file(path, "whole").ok());
    EXPECT_EQ(entries(), 1U) << "after kill " << i;
  }
  EXPECT_GT(left, 0) << "no kill came in the middle of a write";
  ASSERT_TRUE(formats::write_file(other, "").ok());
  EXPECT_EQ(entries(), 2U);
}

TEST_F(FileTest, ATemporaryInUseIsNobodyElsesToRemove) {
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = start_child([&] {
    const bool made = formats::create_temporary(folder_ / "a").fd >= 0;
    while (made && ::write(ready[1], "", 1) == 1) ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  for (const int fd : ready) ::close(fd);
  ASSERT_TRUE(formats::write_file(folder_ / "b", "x").ok());
  EXPECT_EQ(entries(), 2U);
  kill_child(child);
  EXPECT_EQ(entries(), 2U);
  ASSERT_TRUE(formats::write_file(folder_ / "b", "y").ok());
  EXPECT_EQ(entries(), 1U);
}

TEST_F(FileTest, OnlyNamesOfTemporariesAreRemoved) {
  for (const char* name : {".tidemark-12-0.tmp", ".tidemark-notes.tmp", ".tidemark-1-0.tmp.bak", "tidemark-1-0.tmp"})
    ASSERT_TRUE(formats::write_file(folder_ / name, "x").ok());
  ASSERT_TRUE(formats::write_file(folder_ / "out", "x").ok());
  EXPECT_EQ(entries(), 4U);
  EXPECT_FALSE(fs::exists(folder_ / ".tidemark-12-0.tmp"));
}

TEST_F(FileTest, MoreTemporariesThanHaveRoomAreAnError) {
  std::vector<formats::Temporary> made;
  for (formats::Temporary next = formats::create_temporary(folder_ / "a"); next.fd >= 0;
       next = formats::create_temporary(folder_ / "a"))
    made.push_back(next);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(made.size(), 64U);
  EXPECT_EQ(entries(), 64U);
  for (const formats::Temporary& temporary : made) {
    ::close(temporary.fd);
    ::unlink(temporary.path.c_str());
    formats::forget_temporary(temporary.path);
  }
}

TEST_F(FileTest, AMissingFileCannotBeRead) {
  const Result<std::string> read = formats::read_file(folder_ / "nothing.yaml");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Error::Code::bad_input);
  EXPECT_EQ(read.error().message, (folder_ / "nothing.yaml").string() + ": cannot read: No such file or directory");
}

TEST_F(FileTest, AFullDiskIsReportedAndNothingIsLeft) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Status status = formats::write_file("/dev/full", std::string(100'000, 'x'));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "/dev/full: cannot write: No space left on device");
}

TEST_F(FileTest, AFailedWriteKeepsTheOldBytes) {
  const fs::path path = folder_ / "out.json";
  ASSERT_TRUE(formats::write_file(path, "precious").ok());
  // A file size limit makes the write of the temporary fail half-way, for root as well.
  EXPECT_TRUE(holds_in_child([&] {
    ::signal(SIGXFSZ, SIG_DFL);
    formats::remove_temporaries_on_signals();  // and keeps SIGXFSZ from ending the process within the write
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = formats::write_file(path, std::string(100'000, 'x'));
    return !status.ok() && status.error().message.find("File too large") != std::string::npos;
  }));
  EXPECT_EQ(formats::read_file(path).value(), "precious");
  EXPECT_EQ(entries(), 1u) << "nothing half-written is left";
}

TEST_F(FileTest, AnUnwritableFolderIsBadInput) {
  fs::permissions(folder_,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const std::string expected = (folder_ / "out").string() + ": cannot write: Permission denied";
  EXPECT_TRUE(holds_in_child([&] {
    constexpr uid_t kNobody = 65534;  // root may write anywhere, so the child stops being root
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return false;
    const Status status = formats::write_file(folder_ / "out", "x");
    return !status.ok() && status.error().message == expected;
  }));
  EXPECT_EQ(entries(), 0u);
}

TEST_F(FileTest, NoNameIsBadInput) {
  EXPECT_EQ(formats::write_file("", "x").error().code, Error::Code::bad_input);
}

}  // namespace
}  // namespace tidemark
