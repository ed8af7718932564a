// Words of a launch script's command that cannot be followed: they never leave a run understood, and what the script
// does say goes on being used.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "integrations/formats/import_arguments.h"
#include "planner/estimate/run_holdings.h"

namespace tidemark::formats {
namespace {

const std::string kArguments =
    "--num-layers 12 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
    "--micro-batch-size 4 --global-batch-size 32 --bf16 --vocab-size 32000";
const std::string kCommand = "torchrun --nproc_per_node 8 pretrain_gpt.py " + kArguments;

struct Read {
  ArgumentFile file;
  estimate::ImportedRun imported;

  [[nodiscard]] bool is_understood() const { return estimate::is_understood(imported); }
  /// The last value of that name.
  [[nodiscard]] std::string value(const std::string& name) const {
    std::string last = "absent";
    for (const estimate::Argument& argument : file.set.arguments)
      if (argument.name == name) last = argument.value;
    return last;
  }
  [[nodiscard]] std::string unread() const {
    std::string all;
    for (const estimate::UnreadWords& words : file.set.unread) all += words.place + ": " + words.what + "\n";
    return all;
  }
};

Read read(const std::string& script, const std::map<std::string, std::string>& beside = {}) {
  auto file = read_arguments(script, "run.sh", [&](const std::string& path) {
    const auto found = beside.find(path);
    return found == beside.end() ? std::nullopt : std::optional(found->second);
  });
  EXPECT_TRUE(file.ok()) << file.error().message << "\n" << script;
  Read read;
  if (!file) return read;
  read.file = std::move(file).value();
  auto imported = estimate::import_run(read.file.set, read.file.hints);
  EXPECT_TRUE(imported.ok()) << imported.error().message << "\n" << script;
  if (imported) read.imported = std::move(imported).value();
  return read;
}

TEST(LaunchWords, ThatAreKnownLeaveTheRunUnderstood) {
  EXPECT_TRUE(read(kCommand).is_understood());
  for (const char* more : {"EXTRA='--swiglu'\n", "EXTRA=\n", "EXTRA=${EXTRA:---swiglu}\n", "EXTRA=()\n"})
    EXPECT_TRUE(read(more + kCommand + " $EXTRA").is_understood()) << more;
  const Read set = read("set -- --swiglu\n" + kCommand + " \"$@\"");
  EXPECT_TRUE(set.is_understood());
  EXPECT_TRUE(set.imported.run.model.gated);
}

TEST(LaunchWords, ThatMayHoldAnythingDoNot) {
  for (const char* words : {"$EXTRA_ARGS", "${EXTRA_ARGS}", "\"$EXTRA_ARGS\"", "@args.txt", "$1", "\"$@\"", "$*",
                            "\"${@:2}\"", "$(cat f)", "`cat f`", "\"${MORE[@]}\""})
    for (const std::string& command : {kCommand + " " + words, "torchrun --nproc_per_node 8 pretrain_gpt.py " +
                                                                   std::string(words) + " " + kArguments}) {
      const Read from = read(command);
      EXPECT_FALSE(from.is_understood()) << command;
      EXPECT_EQ(from.file.set.unread.size(), 1U) << command;
    }
  EXPECT_EQ(read(kCommand + " $EXTRA_ARGS").unread(),
            "run.sh:1: nothing in the file says what '$EXTRA_ARGS' holds; it is left out\n");
}

TEST(LaunchWords, OfTheScriptItselfAreFollowedAsFarAsItSaysThem) {
  EXPECT_FALSE(read("set -- \"$@\" --swiglu\n" + kCommand + " \"$@\"").is_understood());
  EXPECT_TRUE(read("set -- \"$@\" --swiglu\n" + kCommand + " \"$@\"").imported.run.model.gated);
  EXPECT_FALSE(read("[ $U = 1 ] && set -- --swiglu\n" + kCommand + " \"$@\"").is_understood());
  EXPECT_FALSE(read("A=(\"$@\")\n" + kCommand + " \"${A[@]}\"").is_understood());
  EXPECT_FALSE(read("main() {\n" + kCommand + " \"$@\"\n}\nmain \"$@\"").is_understood());
  EXPECT_TRUE(read("main() {\n" + kCommand + " \"$@\"\n}\nmain").is_understood());
  EXPECT_TRUE(read("set -- \n" + kCommand + " \"$@\"").is_understood());
}

TEST(LaunchWords, OfACheckpointAreNotUnderstood) {
  EXPECT_FALSE(read(kCommand + " --use-checkpoint-args").is_understood());
  EXPECT_FALSE(read(kCommand + " --use-mp-args-from-checkpoint-args").is_understood());
}

TEST(LaunchWords, ThatTurnOffWhatTheFrameworkCannotTurnOffAreNotUnderstood) {
  for (const char* more :
       {"--swiglu --no-swiglu", "--use-distributed-optimizer --no-use-distributed-optimizer", "--disable-swiglu",
        "--no-sequence-parallel", "--no-seed", "--no-cpu-offloading", "--swiglu false", "--swiglu=False"})
    EXPECT_FALSE(read(kCommand + " " + more).is_understood()) << more;
  const Read both = read(kCommand + " --use-distributed-optimizer --no-use-distributed-optimizer");
  EXPECT_TRUE(both.imported.run.optimizer.distributed);
  EXPECT_EQ(both.imported.judged.back().reason, estimate::kNoSuchOpposite);
}

/// Megatron-LM makes --no-x and --disable-x of what is on by default.
TEST(LaunchWords, ThatTurnOffWhatIsOnByDefaultDoSo) {
  for (const char* more : {"--no-gradient-accumulation-fusion", "--disable-gradient-accumulation-fusion"}) {
    const Read off = read(kCommand + " " + more);
    EXPECT_TRUE(off.is_understood()) << more;
    EXPECT_FALSE(off.imported.run.optimizer.gradient_fusion) << more;
  }
  EXPECT_TRUE(read(kCommand + " --disable-bias-linear").is_understood());
  EXPECT_FALSE(read(kCommand + " --disable-bias-linear").imported.run.model.linear_bias);
}

TEST(LaunchWords, OfTwoTrainingsSayWhichIsJudged) {
  const Read two = read(kCommand + "\n" + kCommand + " --swiglu\n");
  EXPECT_FALSE(two.is_understood());
  EXPECT_TRUE(two.imported.run.model.gated);
  EXPECT_EQ(
      two.unread(),
      "run.sh:1: 'pretrain_gpt.py' is started here, too; only what line 2 starts is judged; give each a script of "
      "its own\n");
  const Read loop = read(kCommand + "\nfor A in 1 2; do\n" + kCommand + " --seed $A\ndone\n");
  EXPECT_FALSE(loop.is_understood());
  EXPECT_NE(loop.unread().find("run.sh:3: 'pretrain_gpt.py' is started here, too, if it is"), std::string::npos)
      << loop.unread();
  const Read variables =
      read("A=\"" + kArguments + "\"\nfor T in 1 2; do\ntorchrun p.py $A --tensor-model-parallel-size $T\ndone\n");
  EXPECT_FALSE(variables.is_understood());
  EXPECT_NE(variables.unread().find("run.sh:3: 'p.py' is started here in a way that is not followed"),
            std::string::npos)
      << variables.unread();
}

/// However many options a tool takes, it is no training.
TEST(LaunchWords, OfAToolBesideTheTrainingAreNotItsOwn) {
  const Read tool =
      read("python tool.py --a 1 --b 2 --c 3 --d 4 --e 5 --f 6 --g 7 --h 8 --i 9 --j 10 --k 11\n" + kCommand + "\n");
  EXPECT_TRUE(tool.is_understood());
  EXPECT_EQ(tool.value("num-layers"), "12");
}

std::string with_micro_batch(const std::string& value) {
  std::string command = kCommand;
  return command.replace(command.find("--micro-batch-size 4"), 20, "--micro-batch-size " + value);
}

TEST(LaunchSourced, AssignmentsBesideTheScriptAreFollowed) {
  const std::string file = "# sizes\nexport MB=2\nNAME=x$MB\n: ${LAYERS:=12}\necho sizes are set\n";
  for (const char* line : {"source ./sizes.sh", ". sizes.sh", "source \"$(dirname \"$0\")/sizes.sh\"",
                           "D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\nsource $D/sizes.sh"}) {
    const std::map<std::string, std::string> beside = {{"./sizes.sh", file}, {"sizes.sh", file}};
    const Read from = read(std::string(line) + "\n" + with_micro_batch("${MB:-4}"), beside);
    EXPECT_EQ(from.value("micro-batch-size"), "2") << line;
    EXPECT_TRUE(from.is_understood()) << line;
    EXPECT_TRUE(from.file.notes.empty()) << line;
  }
  const Read plain = read("MB=1\nsource ./s.sh\n" + with_micro_batch("$MB"), {{"./s.sh", "MB=$((MB * 2))\n"}});
  EXPECT_EQ(plain.value("micro-batch-size"), "2");
  const Read options = read("A='--swiglu'\nsource ./s.sh\n" + kCommand + " $A", {{"./s.sh", "A+=' --seed 7'\n"}});
  EXPECT_EQ(options.value("seed"), "7");
  EXPECT_EQ(options.file.set.arguments.back().place, "run.sh:2");
}

TEST(LaunchSourced, AnythingElseLeavesDefaultsUnsure) {
  for (const char* text : {"if true; then MB=2; fi\n", "f() { MB=2; }\n", "MB=2 && MB=3\n", "MB='2\n", "source b.sh\n",
                           "python x.py\n", "read MB\n", "MB[0]=2\n", "set -- 2\n", "declare -n MB=A\n"}) {
    const Read from = read("source ./s.sh\n" + with_micro_batch("${MB:-4}"), {{"./s.sh", text}});
    EXPECT_EQ(from.value("micro-batch-size"), "4") << text;
    EXPECT_FALSE(from.is_understood()) << text;
  }
  for (const char* line : {"source /etc/job.sh", "source ~/job.sh", "source $D/job.sh", "source ../$X/job.sh",
                           "source ./missing.sh", "eval \"$OVERRIDES\""}) {
    const Read from = read(std::string(line) + "\n" + with_micro_batch("${MB:-4}"));
    EXPECT_FALSE(from.is_understood()) << line;
    EXPECT_EQ(from.value("micro-batch-size"), "4") << line;
  }
}

/// Only what decides memory: a default of an argument without effect says nothing against the figures.
TEST(LaunchSourced, DefaultsOfNoEffectDoNotMatter) {
  const Read from = read("source ./s.sh\nA=${A:-/data}\n" + kCommand + " --data-path $A --lr ${LR:-1e-4}");
  EXPECT_TRUE(from.is_understood());
  const Read unsure =
      read("source ./s.sh\nMB=${MB:-4}\nALL=\"--seed 1 --micro-batch-size $MB\"\n" + kCommand + " $ALL");
  int count = 0;
  for (const estimate::JudgedArgument& argument : unsure.imported.judged) {
    if (argument.standing != estimate::Standing::not_understood) continue;
    ++count;
    EXPECT_EQ(argument.name, "micro-batch-size");
    EXPECT_EQ(argument.hint, ": line 1");
  }
  EXPECT_EQ(count, 1);
}

TEST(LaunchSourced, WordsThatMayBeSetThereAreUnread) {
  EXPECT_FALSE(read("source ./s.sh\n" + kCommand + " ${EXTRA:-}").is_understood());
  const Read nodes = read("source ./s.sh\nexport NNODES=${NNODES:-1}\npython pretrain_gpt.py " + kArguments);
  EXPECT_FALSE(nodes.is_understood());
  EXPECT_NE(nodes.unread().find("run.sh:2: NNODES is the number of devices or nodes"), std::string::npos)
      << nodes.unread();
  const auto plain = read_arguments("MB=4\nsource ./s.sh\n" + with_micro_batch("$MB"), "run.sh");
  ASSERT_FALSE(plain.ok());
  EXPECT_NE(plain.error().message.find("run.sh:3: --micro-batch-size needs '$MB', which line 2 may set"),
            std::string::npos)
      << plain.error().message;
}

TEST(LaunchSourced, RelativePathsBeginInTheFolderTheScriptIsIn) {
  const std::map<std::string, std::string> beside = {{"./s.sh", "MB=2\n"}, {"s.sh", "MB=2\n"}};
  for (const char* line : {"cd x\nsource ./s.sh", "pushd x\n. ./s.sh", "[ -d x ] && cd x\nsource ./s.sh",
                           "D=$(cd \"$(dirname \"$0\")/x\" && pwd)\nsource $D/s.sh"})
    EXPECT_FALSE(read(std::string(line) + "\n" + with_micro_batch("${MB:-4}"), beside).is_understood()) << line;
  for (const char* line :
       {"cd \"$(dirname \"$0\")\"\nsource ./s.sh", "(cd x && make)\nsource ./s.sh",
        "cd x\nsource \"$(dirname \"$0\")/s.sh\"",
        "D=\"$( cd \"$( dirname \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd )\"\nsource \"$D/s.sh\""})
    EXPECT_TRUE(read(std::string(line) + "\n" + with_micro_batch("${MB:-4}"), beside).is_understood()) << line;
}

TEST(LaunchSourced, WhatChangesTheShellIsADoubt) {
  EXPECT_TRUE(read("source ./s.sh\n" + kCommand, {{"./s.sh", "A=4\n"}}).is_understood());
  EXPECT_NE(read("source ./s.sh\n" + kCommand, {{"./s.sh", "IFS=4\n"}}).unread().find("IFS"), std::string::npos);
  const std::string own = "A=1\nexport A=5 B=$A\n";
  EXPECT_FALSE(read("source ./s.sh\n" + with_micro_batch("${B:-4}"), {{"./s.sh", own}}).is_understood());
}

/// A word that is nothing to look at.
TEST(LaunchWords, OfUnclosedBracesAreRead) {
  EXPECT_FALSE(read(kCommand + " --foo \"${U+{,}\"").is_understood());
}

/// A file that is read again and again is paid for each time.
TEST(LaunchSourced, CountsAgainstTheBudgetOfTheScript) {
  std::string script;
  for (int i = 0; i < 2000; ++i) script += "source ./s.sh\n";
  const auto read = read_arguments(script + kCommand, "run.sh",
                                   [](const std::string&) { return "A=" + std::string(4000, 'a') + "\n"; });
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find(" expands to more than "), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace tidemark::formats
