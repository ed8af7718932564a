// What the reader of launch scripts is sure of is what bash does: every script here is also run by a real bash, with a
// torchrun that writes down what it is given.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/import_arguments.h"
#include "integrations/formats/shell_script.h"
#include "tests/support/data.h"
#include "tests/support/random_shell.h"

namespace tidemark::formats {
namespace {

using Words = std::vector<std::string>;

/// One start of a training: what it was given, and E of its environment, "unset" without one.
struct Started {
  Words arguments;
  std::string e;
};

/// Runs scripts, each in an empty folder and without an environment.
class Bash {
 public:
  Bash() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tidemark-shell-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    root_ = pattern;
    std::filesystem::create_directory(root_ / "bin");
    std::filesystem::create_directory(root_ / "work");
    program("torchrun", "{ printf 'RUN\\0%s\\0' \"${E-unset}\"; printf '%s\\0' \"$@\"; printf 'END\\0'; } >>\"$OUT\"");
    program("tee", "while read -r line; do :; done");
    program("mkdir", "exit 1");
    program("nvidia-smi", "exit 0");
    program("grep", "exit 1");
  }
  ~Bash() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  Bash(const Bash&) = delete;
  Bash& operator=(const Bash&) = delete;

  [[nodiscard]] static bool is_there() { return std::filesystem::exists("/bin/bash"); }

  /// The trainings each script starts, in their order.
  std::vector<std::vector<Started>> run(const std::vector<std::string>& scripts) const {
    for (std::size_t i = 0; i < scripts.size(); ++i) write(root_ / (std::to_string(i) + ".sh"), scripts[i]);
    write(root_ / "all.sh",
          "ulimit -t 5\ncd \"$1/work\" || exit 1\nfor ((i = 0; i < $2; ++i)); do\n"
          "  OUT=\"$1/$i.out\" PATH=\"$1/bin\" /bin/bash --norc --noprofile \"$1/$i.sh\" </dev/null >/dev/null "
          "2>&1\ndone\n");
    const std::string command = "env -i /bin/bash --norc --noprofile '" + (root_ / "all.sh").string() + "' '" +
                                root_.string() + "' " + std::to_string(scripts.size());
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::vector<std::vector<Started>> started;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      const std::filesystem::path out = root_ / (std::to_string(i) + ".out");
      started.push_back(std::filesystem::exists(out) ? read(testing::text_of(out)) : std::vector<Started>{});
      std::filesystem::remove(out);
    }
    return started;
  }

 private:
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  }
  void program(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / "bin" / name;
    write(path, "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  static std::vector<Started> read(const std::string& text) {
    std::vector<Started> all;
    bool names_e = false;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\0', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      begin = end + 1;
      if (word == "RUN") {
        all.emplace_back();
        names_e = true;
      } else if (names_e) {
        all.back().e = word;
        names_e = false;
      } else if (word != "END" && !all.empty()) {
        all.back().arguments.push_back(word);
      }
    }
    return all;
  }

  std::filesystem::path root_;
};

Words behind_program(const Words& words) {
  const auto program = std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".py"); });
  return program == words.end() ? Words{} : Words(program + 1, words.end());
}

/// Options with the words behind them; of equal ones the last.
std::map<std::string, std::string> options_of(const Words& words) {
  std::map<std::string, std::string> options;
  std::string name;
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      name = word.substr(2);
      options[name].clear();
    } else if (!name.empty()) {
      options[name] += (options[name].empty() ? "" : " ") + word;
    }
  }
  return options;
}

/// Nothing of it is in doubt.
bool is_sure(const ShellScript& script) {
  return script.unread.empty() && script.doubts.empty() &&
         std::ranges::all_of(script.arguments, [](const ShellText& word) { return word.is_known(); });
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += "[" + word + "]";
  return text;
}

/// What the reader is sure of and bash does otherwise; empty: nothing.
std::string disagreement(const ShellScript& script, const std::vector<Started>& started) {
  if (!is_sure(script)) return {};
  if (started.size() != 1) return "sure, but bash starts " + std::to_string(started.size());
  Words words;
  for (const ShellText& word : script.arguments) words.push_back(word.characters);
  const Words real = behind_program(started.front().arguments);
  if (words != real) return "read " + joined(words) + ", bash " + joined(real);
  for (const ShellScript::Variable& variable : script.variables) {
    if (variable.name != "E" || !variable.value.is_known()) continue;
    const std::string e = variable.exported ? variable.value.characters : "unset";
    if (e != started.front().e) return "read E=" + e + ", bash E=" + started.front().e;
  }
  return {};
}

/// The same of the arguments with their standing: one of a run without doubts is right, or says that it is not known.
std::string disagreement(const ArgumentFile& file, const std::vector<Started>& started) {
  if (!file.set.unread.empty() || started.empty()) return {};
  const std::map<std::string, std::string> real = options_of(behind_program(started.back().arguments));
  std::map<std::string, std::string> read;
  for (const estimate::Argument& argument : file.set.arguments)
    if (argument.unsure_line == 0 && argument.value.find_first_of("$`*?[~{") == std::string::npos)
      read[argument.name] = argument.value;
  for (const char* name : {"num-layers", "micro-batch-size", "hidden-size", "seq-length"}) {
    if (!read.contains(name)) continue;
    const auto found = real.find(name);
    if (found == real.end() || found->second != read[name])
      return std::string(name) + " read " + read[name] + ", bash " + (found == real.end() ? "none" : found->second);
  }
  return {};
}

struct Tally {
  std::size_t scripts = 0, sure = 0, disagreeing = 0;
};

/// Reads and runs scripts; fails for each on which reader and shell disagree.
Tally compare(const Bash& bash, const std::vector<std::string>& scripts) {
  const std::vector<std::vector<Started>> started = bash.run(scripts);
  Tally tally{.scripts = scripts.size()};
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    const Result<ShellScript> script = read_shell_script(scripts[i], "run.sh");
    std::string wrong = script ? disagreement(script.value(), started[i]) : "";
    const Result<ArgumentFile> file = read_arguments(scripts[i], "run.sh");
    if (wrong.empty() && file) wrong = disagreement(file.value(), started[i]);
    if (script && is_sure(script.value())) ++tally.sure;
    if (wrong.empty()) continue;
    if (++tally.disagreeing <= 5) ADD_FAILURE() << wrong << "\n" << scripts[i];
  }
  EXPECT_EQ(tally.disagreeing, 0U);
  return tally;
}

std::size_t number_from(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(ShellAgreement, OfRandomScripts) {
  if (!Bash::is_there()) GTEST_SKIP() << "there is no /bin/bash";
  const Bash bash;
  const std::size_t count = number_from("TIDEMARK_SHELL_SCRIPTS", 2400);
  testing::RandomShell random(number_from("TIDEMARK_SHELL_SEED", 1));
  std::vector<std::string> scripts;
  for (std::size_t i = 0; i < count; ++i) scripts.push_back(random.script());
  const Tally tally = compare(bash, scripts);
  EXPECT_GT(tally.sure * 5, tally.scripts) << "unknown is no answer to everything";
  std::printf("%zu scripts, %zu of them known whole\n", tally.scripts, tally.sure);
}

}  // namespace
}  // namespace tidemark::formats
