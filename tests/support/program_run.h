#pragma once
// Runs the real `tidemark` as a user would, in a directory of its own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/program_path.h"

namespace tidemark::testing {

struct Ran {
  int status = -1;  ///< exit status; 128 + signal where one ended it
  std::string out, err;
};

/// Newlines, and whether the last character is one.
[[nodiscard]] inline bool is_one_line(const std::string& text) {
  return !text.empty() && text.back() == '\n' && std::ranges::count(text, '\n') == 1;
}

/// A temporary directory that is the working directory of what runs in it.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tidemark-cli-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    root_ = pattern;
    std::filesystem::create_directory(root_ / "work");
  }
  ~Workplace() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  [[nodiscard]] std::filesystem::path path(std::string_view name) const { return root_ / "work" / name; }

  void write(std::string_view name, std::string_view text) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream file(path(name), std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + path(name).string());
  }

  [[nodiscard]] std::string read(std::string_view name) const { return text_of(path(name)); }

  /// Every file below the working directory, dot files included.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    std::error_code loop;  // a link to itself is a file
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ / "work"))
      if (!entry.is_directory(loop)) names.insert(entry.path().lexically_relative(root_ / "work").string());
    return names;
  }

  /// Streams go to files, so that neither can fill a pipe and stall. `out`: where stdout goes instead.
  [[nodiscard]] Ran run(const std::vector<std::string>& arguments, const std::string& out = "") const {
    std::vector<std::string> words = {program_path()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return finish(start(std::move(words), out), out);
  }

  /// The same with a limit on the address space, as `ulimit -v` sets it.
  [[nodiscard]] Ran run_limited(const std::vector<std::string>& arguments, std::int64_t bytes) const {
    std::vector<std::string> words = {"/bin/sh", "-c", "ulimit -v " + std::to_string(bytes / 1024) + "; exec \"$@\"",
                                      "sh", program_path()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return finish(start(std::move(words), ""), "");
  }

  /// Its process, for tests that look at it while it runs; `finish` waits for it.
  [[nodiscard]] pid_t start(std::vector<std::string> words, const std::string& out) const {
    const std::string out_file = out.empty() ? (root_ / "out").string() : out;
    const std::string err_file = (root_ / "err").string();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, (root_ / "work").c_str());
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, err_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    const int error = ::posix_spawn(&child, words.front().c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " + words.front());
    return child;
  }

  [[nodiscard]] Ran finish(pid_t child, const std::string& out) const {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = out.empty() ? text_of(root_ / "out") : "",
            .err = text_of(root_ / "err")};
  }

 private:
  std::filesystem::path root_;
};

/// Exit 2, one line on stderr that matches, nothing else anywhere.
inline void expect_refused(const Workplace& place, const std::vector<std::string>& arguments,
                           const std::string& pattern) {
  const std::set<std::string> before = place.files();
  const Ran ran = place.run(arguments);
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  EXPECT_TRUE(has_match(ran.err, pattern)) << ran.err << "does not match " << pattern;
  EXPECT_EQ(place.files(), before);
}

/// The shipped small model.
[[nodiscard]] inline std::string small_model() {
  return source_path("models/small-mla-moe.yaml").string();
}

}  // namespace tidemark::testing
