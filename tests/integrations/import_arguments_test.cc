#include "integrations/formats/import_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ostream>

#include "integrations/formats/shell_arithmetic.h"
#include "tests/support/data.h"

namespace tidemark {
namespace {

formats::ArgumentFile read(std::string_view text, std::string_view name = "run.sh") {
  Result<formats::ArgumentFile> file = formats::read_arguments(text, name);
  EXPECT_TRUE(file.ok()) << (file ? "" : file.error().message);
  return file ? std::move(file).value() : formats::ArgumentFile{};
}

formats::ArgumentFile read_data(const std::string& name) {
  return read(testing::text_of(testing::source_path("tests/data/arguments/" + name)), name);
}

/// The value of the last argument of that name; "absent" without one, "switch" for one without a value.
std::string value_of(const formats::ArgumentFile& file, std::string_view name) {
  std::string value = "absent";
  for (const auto& argument : file.set.arguments)
    if (argument.name == name) value = argument.is_switch ? "switch" : argument.value;
  return value;
}
std::string place_of(const formats::ArgumentFile& file, std::string_view name) {
  for (const auto& argument : file.set.arguments)
    if (argument.name == name) return argument.place;
  return "absent";
}

/// What a script whose last line starts pretrain.py with `arguments` gives for --x.
std::string x_of(const std::string& lines, const std::string& arguments) {
  return value_of(read(lines + "\ntorchrun pretrain.py --y 1 " + arguments + "\n"), "x");
}

// ---- launch scripts -----------------------------------------------------------------------------------------------

TEST(LaunchScript, IsReadWithTheLineOfEachArgument) {
  const formats::ArgumentFile file = read_data("launch_npu.sh");
  EXPECT_EQ(value_of(file, "num-layers"), "8");
  EXPECT_EQ(place_of(file, "num-layers"), "launch_npu.sh:38");
  EXPECT_EQ(value_of(file, "seq-length"), "4096");
  EXPECT_EQ(value_of(file, "tensor-model-parallel-size"), "2");
  EXPECT_EQ(value_of(file, "sequence-parallel"), "switch");
  EXPECT_EQ(place_of(file, "sequence-parallel"), "launch_npu.sh:27");
  EXPECT_EQ(value_of(file, "position-embedding-type"), "rope");
  EXPECT_EQ(value_of(file, "recompute-num-layers"), "1");
  EXPECT_EQ(value_of(file, "recompute-method"), "block");
  EXPECT_EQ(value_of(file, "save"), "your model ckpt path");
  EXPECT_EQ(value_of(file, "nproc-per-node"), "8");
  EXPECT_EQ(value_of(file, "not-reached"), "absent");
  EXPECT_EQ(file.hints.platform.framework, estimate::Framework::mindspeed_llm);
  const auto imported = estimate::import_run(file.set, file.hints);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported.value().run.parallel.world, 16);
  EXPECT_EQ(imported.value().run.parallel.data, 2);
  EXPECT_TRUE(imported.value().run.platform.expandable_segments);
  for (const auto& argument : imported.value().judged)
    EXPECT_EQ(argument.standing == estimate::Standing::not_understood, argument.name.empty()) << argument.name;
}

TEST(LaunchScript, NamesWhatItLeavesOut) {
  const formats::ArgumentFile file = read_data("launch_npu.sh");
  ASSERT_EQ(file.notes.size(), 1U);
  EXPECT_NE(file.notes[0].find("launch_npu.sh:61: `for` is not followed"), std::string::npos) << file.notes[0];
  ASSERT_EQ(file.set.unread.size(), 1U);
  EXPECT_NE(file.set.unread[0].what.find("'$DATA_ARGS'"), std::string::npos) << file.set.unread[0].what;
}

struct Expansion {
  const char* name;
  const char* lines;
  const char* arguments;
  const char* expected;  ///< value of --x
};
std::ostream& operator<<(std::ostream& out, const Expansion& expansion) {
  return out << expansion.name;
}

class Words : public ::testing::TestWithParam<Expansion> {};

TEST_P(Words, AreExpandedAsAShellWould) {
  EXPECT_EQ(x_of(GetParam().lines, GetParam().arguments), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Shell, Words,
    ::testing::Values(
        Expansion{"Plain", "", "--x 3", "3"}, Expansion{"Switch", "", "--x", "switch"},
        Expansion{"Equals", "", "--x=3", "3"}, Expansion{"List", "", "--x 1 2 3 --z", "1 2 3"},
        Expansion{"Negative", "", "--x -1", "-1"}, Expansion{"Quotes", "", "--x '1 2' \"3\"", "1 2 3"},
        Expansion{"Variable", "A=5", "--x $A", "5"}, Expansion{"Braces", "A=5", "--x ${A}0", "50"},
        Expansion{"Default", "", "--x ${A:-7}", "7"}, Expansion{"DefaultOfEmpty", "A=", "--x ${A:-7}", "7"},
        Expansion{"DefaultUnused", "A=5", "--x ${A:-7}", "5"},
        Expansion{"DefaultOfDefault", "", "--x ${A:-${B:-9}}", "9"}, Expansion{"Assigning", ": ${A:=4}", "--x $A", "4"},
        Expansion{"Alternative", "A=5", "--x ${A:+6}", "6"}, Expansion{"Positional", "", "--x ${1:-8}", "8"},
        Expansion{"Sum", "A=5; B=2", "--x $((A * B + $A - 1))", "14"},
        Expansion{"Power", "", "--x $((2**10 / (1 + 1)))", "512"}, Expansion{"Export", "export A=5", "--x $A", "5"},
        Expansion{"Appended", "A=5; A+=6", "--x $A", "56"}, Expansion{"SingleQuotes", "A=5", "--x '$A'", "$A"},
        Expansion{"Split", "A='--x 4 --z 5'", "$A", "4"},
        Expansion{"Array", "A=(--x 4\n # note\n --z)", "\"${A[@]}\"", "4"},
        Expansion{"ArrayAppended", "A=(--z); A+=(--x 9)", "${A[@]}", "9"},
        Expansion{"ArrayOfBlanks", "A=(--x '1 2')", "\"${A[@]}\"", "1 2"},
        Expansion{"Continued", "", "\\\n  --x \\\n 3 \\\n", "3"},
        Expansion{"WindowsLines", "A=5\r", "--x $A \\\r\n --z\r", "5"},
        Expansion{"Comment", "A=5 # A=6", "--x $A # --x 7", "5"}, Expansion{"HashInWord", "", "--x a#b", "a#b"},
        Expansion{"Redirected", "", "--x 3 > log 2>&1", "3"}, Expansion{"Piped", "", "--x 3 | tee --x 4", "3"},
        Expansion{"If", "A=5\nif [ $A -gt 4 ]; then B=1; else B=2; fi", "--x $B", "1"},
        Expansion{"Else", "A=5\nif [[ $A == 4 ]]; then\n B=1\nelse\n B=2\nfi", "--x $B", "2"},
        Expansion{"Elif", "A=5\nif [ $A = 4 ]; then B=1; elif [ $A -le 5 ]; then B=3; else B=2; fi", "--x $B", "3"},
        Expansion{"Nested", "A=5\nif [ $A = 5 ]; then if [ $A = 6 ]; then B=1; else B=2; fi; fi", "--x $B", "2"},
        Expansion{"NotDecided", "B=1\nif [ $U = 5 ]; then B=2; else B=3; fi", "--x $B", "$B"},
        Expansion{"NotDecidedElsewhere", "B=1\nif [ $U = 5 ]; then C=2; mkdir -p $C; fi", "--x $B", "1"},
        Expansion{"NotDecidedTheSame", "B=1\nif [ $U = 5 ]; then B=1; fi", "--x $B", "1"},
        Expansion{"DefaultByTest", "if [ -z \"${U}\" ]; then B=2; fi; [[ -z $U ]] && A=1", "--x $A$B", "12"},
        Expansion{"DefaultNotTaken", "U=5; [ -z \"$U\" ] && U=2", "--x $U", "5"},
        Expansion{"DefaultByACommand", "U=5; [ -z \"$(date)\" ] && U=3", "--x $U", "$U"},
        Expansion{"And", "A=5; B=1; [ $A = 5 ] && B=2", "--x $B", "2"},
        Expansion{"Or", "A=5; B=1; [ $A = 5 ] || B=2", "--x $B", "1"},
        Expansion{"Loop", "A=5\nfor A in 1 2; do A=7; done", "--x $A", "$A"},
        Expansion{"LoopElsewhere", "A=5\nfor B in 1 2; do C=$A; done", "--x $A", "5"},
        Expansion{"LoopOverOwnArguments", "A=5\nwhile [[ $# -gt 0 ]]; do case $1 in --a) A=$2; shift;; esac; done",
                  "--x $A", "5"},
        Expansion{"LoopOverOptions", "A=5\nwhile getopts a: O; do case $O in a) A=$OPTARG;; esac; done", "--x $A", "5"},
        Expansion{"LoopOfGetopt",
                  "A=5\neval set -- \"$(getopt -o a: -- \"$@\")\"\nwhile true; do case \"$1\" in -a) A=$2; shift 2;; "
                  "esac; done",
                  "--x $A", "5"},
        Expansion{"Case", "A=5\ncase $Z in\n a) A=7 ;;\nesac", "--x $A", "$A"},
        Expansion{"Function", "f() {\n A=6\n}\nf", "--x $A", "6"},
        Expansion{"FunctionNeverCalled", "A=5\nf() { A=6; }", "--x $A", "5"},
        Expansion{"FunctionCalledLater", "f() { A=6; }\nA=5\nf", "--x $A", "6"},
        Expansion{"FunctionByWord", "function f { A=6; }\nA=5\nf", "--x $A", "6"},
        Expansion{"FunctionOfItsArguments", "f() { A=$1; }\nA=5\nf 6", "--x $A", "$1"},
        Expansion{"FunctionsLocal", "A=5\nf() { local A=6; B=$A; }\nf", "--x $A$B", "56"},
        Expansion{"FunctionCalledInALoop", "f() { A=6; }\nA=5\nfor B in 1; do f; done", "--x $A", "$A"},
        Expansion{"Arithmetic", "A=5; B=4\n((A = B * 4))", "--x $A", "16"},
        Expansion{"ArithmeticNotFollowed", "A=5\n((A++))", "--x $A", "$A"},
        Expansion{"ArithmeticCondition", "A=5; B=1\nif ((A > 4)); then B=2; fi\n((A == 4)) && B=3", "--x $B", "2"},
        Expansion{"Let", "A=5\nlet A=16 \"B = A\"", "--x $A-$B", "16-16"},
        Expansion{"Read", "A=5\nread A", "--x $A", "$A"},
        Expansion{"ReadOthers", "A=5\nread -r -p 'how many' B", "--x $A", "5"},
        Expansion{"ReadOfMany", "A=5\nIFS=, read -ra A <<< \"$L\"", "--x $A", "$A"},
        Expansion{"ReadThenAssigned", "read A\nA=5", "--x $A", "5"},
        Expansion{"ReadInCondition", "A=5\nif read A; then echo; fi", "--x $A", "$A"},
        Expansion{"ReadInLoop", "A=5\nwhile read -r b; do A=16; done < cfg", "--x $A", "$A"},
        Expansion{"Mapfile", "A=5\nmapfile -t A < cfg", "--x $A", "$A"},
        Expansion{"PrintfInto", "A=5\nprintf -v A %d 16", "--x $A", "$A"},
        Expansion{"PrintfOut", "A=5\nprintf '%d' A", "--x $A", "5"},
        Expansion{"Eval", "A=5\neval \"$OVERRIDES\"", "--x $A", "$A"},
        Expansion{"EvalOfConda", "A=5\neval \"$(conda shell.bash hook)\"", "--x $A", "5"},
        Expansion{"Sourced", "A=5\nsource ./cluster.sh", "--x $A", "$A"},
        Expansion{"SourcedDefault", ". ./cluster.sh", "--x ${A:-2}", "2"},
        Expansion{"SourcedDefaultOfASet", "A=5\n. ./cluster.sh", "--x ${A:-2}", "${A:-2}"},
        Expansion{"SourcedDefaultOfNothing", ". ./cluster.sh", "--x ${A:-}", "${A:-}"},
        Expansion{"SourcedDefaultAssigned", ". ./cluster.sh\n: ${A:=2}\nB=$((A * 3))", "--x $A-$B", "2-6"},
        Expansion{"SourcedDefaultInCondition", ". ./cluster.sh\nB=1\nif [ ${A:-2} = 2 ]; then B=3; fi", "--x $B", "$B"},
        Expansion{"ReadDefault", "read A", "--x ${A:-2}", "${A:-2}"},
        Expansion{"OwnArgumentsSet", "set -- --x 4", "\"$@\"", "4"},
        Expansion{"OwnArgumentSet", "set -- 4 7", "--x $2", "7"},
        Expansion{"OwnArgumentShifted", "set -- 4 7; shift", "--x ${1:-8}", "7"},
        Expansion{"OwnArgumentsHandedOn", "main() { A=\"$*\"; }\nset -- 4; main \"$@\"", "--x $A", "4"},
        Expansion{"OwnArgumentOfAFunction", "f() { A=${1:-8}; }\nf 9", "--x $A", "${1:-8}"},
        Expansion{"OwnArgumentOfNone", "f() { A=${1:-8}; }\nset -- 9; f", "--x $A", "8"},
        Expansion{"SourcedThenAssigned", "source ./cluster.sh\nA=5", "--x $A", "5"},
        Expansion{"SourcedTest", "source ./cluster.sh\n[ -z \"$A\" ] && A=5", "--x $A", "$A"},
        Expansion{"SourcedEnvironment", "A=5\nsource /usr/local/Ascend/ascend-toolkit/set_env.sh", "--x $A", "5"},
        Expansion{"SourcedMaybe", "A=5\n[ -f c.sh ] && . c.sh", "--x $A", "$A"},
        Expansion{"ExportedList", "A=5\nexport $(grep -v '^#' .env)", "--x $A", "$A"},
        Expansion{"ExportedInQuotes", "A=5\nexport \"A=16\"", "--x $A", "$A"},
        Expansion{"DeclaredInteger", "declare -i A=16\nA+=1", "--x $A", "$A"},
        Expansion{"DeclaredReference", "A=5\ndeclare -n B=A\nB=16", "--x $A", "$A"},
        Expansion{"Element", "A=(5)\nA[0]=16", "--x $A", "$A"},
        Expansion{"UnsetMaybe", "A=5\nif [ $U = 5 ]; then unset A; fi", "--x $A", "$A"},
        Expansion{"AssigningMaybe", "if [ $U = 5 ]; then : ${A:=4}; fi", "--x $A", "$A"},
        Expansion{"SumOfLost", "A=5\nread A", "--x $((A * 2))", "$((A * 2))"},
        Expansion{"NotEmptyOfNeverSet", "A=5\nif [ -n \"$U\" ]; then A=6; fi", "--x $A", "5"},
        Expansion{"HereDocument", "A=5\ncat <<'END'\nA=6\nEND", "--x $A", "5"},
        Expansion{"Command", "", "--x $(date)", "$(date)"}, Expansion{"Unknown", "", "--x $A", "$A"},
        Expansion{"OwnArguments", "", "--x 3 \"$@\" \"${@:2}\" ${@}", "3"},
        Expansion{"EmptyArray", "A=()", "--x 3 \"${A[@]}\"", "3"}, Expansion{"EmptyText", "A=", "--x \"$A\"", ""}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(LaunchScript, IsFoundInsideOtherCommands) {
  for (const char* line :
       {"eval \"torchrun pretrain_gpt.py --x 3\"", "bash -c 'python -u pretrain_gpt.py --x 3'",
        "CMD=\"python pretrain_gpt.py --x 3\"\n$CMD", "A=1 srun -n 8 python x/pretrain_gpt.py --x 3 &",
        "python -m torch.distributed.launch --nproc_per_node 4 pretrain_gpt.py --x 3",
        "echo pretrain_gpt.py --x 4 --y 5\npython tools/x.py --input 3\npython pretrain_gpt.py --y --x 3",
        "ARGS=\"--z 1 --x 3\""})
    EXPECT_EQ(value_of(read(line), "x"), "3") << line;
  EXPECT_TRUE(read("python pretrain_bert.py --x 3").hints.bert);
  EXPECT_FALSE(read("python /bert/pretrain_gpt.py --x 3").hints.bert);
}

TEST(LaunchScript, LeavesUnknownVariablesBehindSwitchesOut) {
  const formats::ArgumentFile file = read("torchrun pretrain_gpt.py --bf16 $MORE --num-layers $LAYERS");
  EXPECT_EQ(value_of(file, "bf16"), "switch");
  EXPECT_EQ(value_of(file, "num-layers"), "$LAYERS");
  ASSERT_EQ(file.set.unread.size(), 1U);
  EXPECT_EQ(file.set.unread[0].place, "run.sh:1");
  EXPECT_EQ(file.set.unread[0].what, "nothing in the file says what '$MORE' holds; it is left out");
}

/// The message of a script whose last line starts pretrain.py with `arguments`.
std::string refusal_of(const std::string& lines, const std::string& arguments) {
  const auto file =
      formats::read_arguments(lines + "torchrun pretrain.py --num-layers 4 " + arguments + "\n", "run.sh");
  EXPECT_FALSE(file.ok()) << arguments;
  return file.ok() ? "" : file.error().message;
}

TEST(LaunchScript, RefusesWordsThatAreNoOptionWhateverIsBeforeThem) {
  for (const char* before : {"--lr 1e-4", "--overlap-param-gather", "--data-path a b", "--frobnicate", "--bf16"}) {
    const std::string words = before;
    EXPECT_EQ(refusal_of("", words + " \xe2\x80\x93swiglu"),
              "run.sh:1: '\xe2\x80\x93swiglu' is no option; is it --swiglu?");
    EXPECT_EQ(refusal_of("", words + " -recompute_granularity full"),
              "run.sh:1: '-recompute_granularity' is no option; is it --recompute_granularity?");
    EXPECT_EQ(refusal_of("", words + " -- swiglu"), "run.sh:1: '--' is no option; write its name right behind it");
    EXPECT_NE(refusal_of("A='--num-experts 8'\n", words + " \"$A\"").find("run.sh:1: '--num-experts 8' is one word"),
              std::string::npos);
  }
  EXPECT_EQ(value_of(read("torchrun pretrain.py --a -1 --b -.5e3 --c -"), "c"), "-");
}

TEST(LaunchScript, NamesEveryUnknownVariableThatMayHoldOptions) {
  for (const char* before : {"--overlap-param-gather", "--lr 1e-4", "--no-load-rng", "--use-mcore-models",
                             "--log-throughput", "--bf16", "--num-layers 4", "--data-path a"}) {
    const formats::ArgumentFile file = read(std::string("torchrun pretrain.py ") + before + " $SP --seed 1");
    ASSERT_EQ(file.set.unread.size(), 1U) << before;
    EXPECT_EQ(file.set.unread.front().what, "nothing in the file says what '$SP' holds; it is left out");
  }
  EXPECT_TRUE(read("torchrun pretrain.py --lr $LR --data-path $DATA --bf16").set.unread.empty());
  EXPECT_EQ(read("torchrun pretrain.py --overlap-param-gather stray --bf16").set.unread.size(), 1U);
}

/// A value that decides memory, behind a line that may have set it: never the value from before.
TEST(LaunchScript, RefusesAValueThatALineNotFollowedMayHaveSet) {
  for (const char* line : {"read MBS", "eval \"$OVERRIDES\"", "while read -r a; do MBS=16; done < cfg",
                           "if [ \"$NNODES\" -gt 1 ]; then MBS=16; fi", "[ \"$NNODES\" -gt 1 ] && MBS=16",
                           "source ./cluster.sh", "for MBS in 1 16; do echo $MBS; done", "((MBS*=2))", "let MBS*=2",
                           "case \"$SIZE\" in big) MBS=16;; esac", "mapfile -t MBS < cfg", "printf -v MBS 16"})
    EXPECT_EQ(
        refusal_of(std::string("MBS=1\n") + line + "\n", "--micro-batch-size $MBS"),
        "run.sh:3: --micro-batch-size needs '$MBS', which line 2 may set in a way that is not followed; write its "
        "value into the command, or give the arguments as YAML")
        << line;
  EXPECT_NE(refusal_of("MBS=1\nread MBS\n", "--micro-batch-size=$MBS").find("--micro-batch-size needs"),
            std::string::npos);
  EXPECT_EQ(value_of(read("C=1\nread C\ntorchrun p.py --save $C --micro-batch-size 1"), "micro-batch-size"), "1");
}

TEST(LaunchScript, RefusesOptionsThatALineNotFollowedMayHaveSet) {
  EXPECT_NE(refusal_of("A=(--micro-batch-size 1)\nsource ./c.sh\n", "\"${A[@]}\"").find("which line 2 may set"),
            std::string::npos);
  EXPECT_NE(refusal_of("A='--bf16'\nif [ $U = 1 ]; then A='--fp16'; fi\n", "$A").find("which line 2 may set"),
            std::string::npos);
}

TEST(LaunchScript, RefusesAnArgumentThatOnlyAnUndecidedConditionGives) {
  const std::string why =
      "whether --tensor-model-parallel-size is given depends on a condition that the script does not decide; set what "
      "it asks for, as in NAME=${NAME:-1}, or write the argument into the command";
  for (const char* more : {"A=\"$A --tensor-model-parallel-size 4\"", "A+=\" --tensor-model-parallel-size 4\""})
    EXPECT_EQ(refusal_of(std::string("A='--bf16'\n[ \"$N\" -gt 1 ] && ") + more + "\nB=\"$A\"\n", "$B"),
              "run.sh:2: " + why);
  EXPECT_EQ(refusal_of("A=()\nif [ $N -gt 1 ]; then\nA+=(--tensor-model-parallel-size 4)\nfi\n", "\"${A[@]}\""),
            "run.sh:3: " + why);
  const formats::ArgumentFile other =
      read("A='--bf16'\n[ \"$N\" -gt 1 ] && A=\"$A --tensorboard-dir t\"\ntorchrun p.py --num-layers 1 $A");
  EXPECT_EQ(value_of(other, "bf16"), "switch");
  EXPECT_EQ(other.notes.size(), 1U);
}

TEST(LaunchScript, KnowsNoNumberOfDevicesThatALineNotFollowedMayHaveSet) {
  const auto problem_of = [](const std::string& lines, const std::string& launcher) {
    return read(lines + "\ntorchrun " + launcher + " p.py --num-layers 1").device_problem;
  };
  EXPECT_NE(problem_of("N=2\nread N", "--nnodes=$N").find("run.sh:3: --nnodes needs '$N', which line 2"),
            std::string::npos);
  EXPECT_NE(problem_of("D='--nproc_per_node 8'\nsource c.sh", "$D").find("which line 2"), std::string::npos);
  EXPECT_NE(problem_of("NNODES=2\nread NNODES", "").find("run.sh:2: NNODES is the number"), std::string::npos);
  EXPECT_EQ(problem_of("NNODES=2\nread NNODES", "--nproc_per_node 8"), "");
}

TEST(LaunchScript, IsFoundInAFunctionHoweverItIsCalled) {
  for (const char* call : {"main \"$@\"", "main 2>&1 | tee log", "if main; then echo; fi", "srun bash -c main", ""})
    EXPECT_EQ(value_of(read(std::string("main() {\n local A=3\n torchrun p.py --x $A\n}\n") + call + "\n"), "x"), "3")
        << call;
  EXPECT_FALSE(formats::read_arguments("f() { f; }\nf\n", "run.sh").ok());
  std::string many = "f0() { :; }\n";
  for (int i = 1; i < 40; ++i)
    many += "f" + std::to_string(i) + "() { f" + std::to_string(i - 1) + "; f" + std::to_string(i - 1) + "; }\n";
  EXPECT_FALSE(formats::read_arguments(many + "f39\n", "run.sh").ok());
}

TEST(LaunchScript, NamesAnUnknownNumberOfNodes) {
  const formats::ArgumentFile file = read("N=$SLURM_NNODES\ntorchrun --nproc_per_node 8 --nnodes $N pretrain.py --x 1");
  ASSERT_EQ(file.device_notes.size(), 1U);
  EXPECT_EQ(file.device_notes.front(),
            "run.sh:2: --nnodes: nothing says what '$SLURM_NNODES' is; 1 taken, --world-size would say");
  EXPECT_TRUE(read("torchrun --nproc_per_node 8 --nnodes ${N:-2} pretrain.py --x 1").device_notes.empty());
}

TEST(LaunchScript, NamesLinesThatWereCutOff) {
  for (const char* cut : {"\n", " \\\n # --y \\\n"}) {
    const formats::ArgumentFile file = read(std::string("torchrun pretrain.py --bf16") + cut + "  --x 3\n");
    EXPECT_EQ(value_of(file, "x"), "absent") << cut;
    ASSERT_EQ(file.notes.size(), 1U) << cut;
    EXPECT_NE(file.notes.front().find("a line begins with '--x'; did the one before lose"), std::string::npos);
  }
}

TEST(LaunchScript, NamesWhatNeverEndsAndWhatIsStartedTwice) {
  EXPECT_EQ(refusal_of("A=(--y 1\nB=2\n", "${A[@]}"), "run.sh:1: the array 'A' is never closed; add )");
  EXPECT_NE(refusal_of("A=1\nB=${A\n", "").find("run.sh:2: this '${A"), std::string::npos);
  ASSERT_EQ(read("torchrun pretrain.py --x 1\ncat <<E\nnothing\n").notes.size(), 1U);
  EXPECT_TRUE(read("torchrun pretrain.py --x 1\ncat <<E\nnothing\nE\n").notes.empty());
  const std::string tool = "python tool.py --input a\n";
  EXPECT_TRUE(read(tool + "python p.py --num-layers 1 --y\n").notes.empty());
}

TEST(LaunchScript, RefusesParenthesesAmongOptions) {
  const std::string line = "a shell refuses this ( among options; put the value in quotes";
  EXPECT_EQ(refusal_of("", "--moe-layer-freq ([0]*3+[1]*5) --swiglu"), "run.sh:1: " + line);
  EXPECT_EQ(refusal_of("A=(--moe-layer-freq ([0]*3+[1]*5) --swiglu)\n", "${A[@]}"), "run.sh:1: " + line);
  EXPECT_EQ(x_of("f() { true; }\nif [[ $1 == --a* ]]; then (cd b && ls --all); fi", "--x '([0]*3)'"), "([0]*3)");
}

TEST(LaunchScript, RefusesABlankBehindABackslash) {
  EXPECT_EQ(refusal_of("", "--hidden-size 16 \\ \n  --swiglu"),
            "run.sh:1: a blank behind the backslash ends the command here; remove the blank");
  EXPECT_EQ(refusal_of("", "--bf16 \\ \n"), refusal_of("", "--hidden-size 16 \\ \n"));
  EXPECT_EQ(x_of("", "--x ' '"), " ");
}

TEST(LaunchScript, WithoutACommandSaysWhatWasLeftOut) {
  const auto file = formats::read_arguments("for T in 1 2; do\ntorchrun pretrain.py --num-layers 4\ndone\n", "run.sh");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("(run.sh:1: `for` is not followed"), std::string::npos) << file.error().message;
}

TEST(LaunchScript, NamesAQuotationThatNeverEnds) {
  const auto file = formats::read_arguments("A=1 # it's\ntorchrun pretrain.py --x \"8\n --y 1\n", "run.sh");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message, "run.sh:2: this quotation never ends; close it");
  EXPECT_EQ(x_of("A='it is'\necho \"it's\" <<E\ndon't\nE", "--x \"8\""), "8");
}

TEST(LaunchScript, LeavesFilesOfArgumentsOutWithANote) {
  const formats::ArgumentFile file = read("torchrun pretrain.py --bf16 @more.txt --x 1\n");
  ASSERT_EQ(file.set.unread.size(), 1U);
  EXPECT_EQ(file.set.unread.front().what, "the arguments in '@more.txt' are left out; give them here");
  EXPECT_EQ(value_of(file, "bf16"), "switch");
}

TEST(LaunchScript, SaysTheFrameworkByItsArgumentsNotItsComments) {
  const auto framework_of = [](std::string_view text, std::string_view name) {
    return read(text, name).hints.platform.framework;
  };
  using estimate::Framework;
  EXPECT_EQ(framework_of("--num-layers: 8 # not for ASCEND\n# mindspeed\n", "a.yaml"), Framework::megatron_lm);
  EXPECT_EQ(framework_of("--num-layers: 8\n--swap_attention: true\n", "a.yaml"), Framework::mindspeed_llm);
  EXPECT_EQ(framework_of("{\"noop_layers\": \"1,2\"}", "a.json"), Framework::mindspeed_llm);
  EXPECT_EQ(framework_of("export HCCL_BUFFSIZE=1\npython p.py --x 1", "a.sh"), Framework::mindspeed_llm);
  EXPECT_TRUE(read("python pretrain_t5.py --x 1").hints.t5);
  EXPECT_FALSE(read("python pretrain_gpt.py --x 1").hints.t5);
}

TEST(LaunchScript, ThatNeverEndsIsRefused) {
  std::string text = "A=--x\n";
  for (int i = 0; i < 64; ++i) text += "A=\"$A $A\"\n";
  const auto file = formats::read_arguments(text + "python p.py $A", "run.sh");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("expands to more than 1048576 characters"), std::string::npos);
  std::string deep = "A=";
  for (int i = 0; i < 100'000; ++i) deep += "${A:=$((";
  EXPECT_FALSE(formats::read_arguments(deep, "run.sh").ok());
  for (const char* broken :
       {"", "A=\"", "if", "fi", "A=(", "((((", "\\", "$", "${", "<<", "'", "`", "for\n", "then else"})
    EXPECT_FALSE(formats::read_arguments(broken, "run.sh").ok()) << broken;
}

TEST(ShellArithmetic, NeverOverflows) {
  const auto none = [](std::string_view) { return std::optional<std::int64_t>(); };
  EXPECT_EQ(formats::shell_arithmetic("1 + 2 * 3 - -4", none), 11);
  EXPECT_EQ(formats::shell_arithmetic("7 % 4 ** 2", none), 7);
  for (const char* wrong :
       {"", "1 +", "1/0", "5 % 0", "9223372036854775807 + 1", "2 ** 63", "2 ** -1", "(1", "a", "1 2"})
    EXPECT_EQ(formats::shell_arithmetic(wrong, none), std::nullopt) << wrong;
  EXPECT_EQ(formats::shell_arithmetic(std::string(100'000, '('), none), std::nullopt);
  EXPECT_EQ(formats::shell_arithmetic(std::string(100'000, '-') + "1", none), std::nullopt);
}

// ---- maps ---------------------------------------------------------------------------------------------------------

TEST(ArgumentMap, OfMegatronsTestsIsRead) {
  const formats::ArgumentFile file = read_data("model_config.yaml");
  EXPECT_EQ(value_of(file, "num-layers"), "12");
  EXPECT_EQ(place_of(file, "num-layers"), "model_config.yaml:8");
  EXPECT_EQ(value_of(file, "recompute-modules"), "core_attn mlp");
  EXPECT_EQ(value_of(file, "TEST_TYPE"), "absent");
  ASSERT_EQ(file.set.environment.size(), 3U);
  const auto imported = estimate::import_run(file.set, file.hints);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const estimate::TrainingRun& run = imported.value().run;
  EXPECT_EQ(run.parallel.virtual_pipeline, 2);
  EXPECT_FALSE(run.platform.allow_nondeterministic);
  EXPECT_EQ(run.platform.framework, estimate::Framework::megatron_lm);
  EXPECT_TRUE(run.deterministic);
}

TEST(ArgumentMap, OfJsonIsRead) {
  const formats::ArgumentFile file = read_data("moe.json");
  const auto imported = estimate::import_run(file.set, file.hints);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const estimate::TrainingRun& run = imported.value().run;
  EXPECT_EQ(run.parallel.world, 8);
  EXPECT_EQ(run.parallel.expert_data, 2);
  EXPECT_TRUE(run.model.gated);
  EXPECT_EQ(run.model.attention.head_dim, 64);
  EXPECT_EQ(std::ranges::count(run.model.moe.is_moe, true), 6);
  for (const auto& argument : imported.value().judged)
    EXPECT_NE(argument.standing, estimate::Standing::not_understood) << argument.name;
}

TEST(ArgumentMap, SaysTheSameInEveryForm) {
  const std::vector<formats::ArgumentFile> forms = {
      read("torchrun pretrain.py --num-layers 4 --bf16 --recompute-modules mlp moe", "a.sh"),
      read("--num-layers: 4\n--bf16: true\n--recompute-modules: [mlp, moe]\n", "a.yaml"),
      read("num_layers: 4\nmore:\n  bf16: true\n  recompute_modules: mlp moe\n", "a.yml"),
      read("{\"num-layers\": 4, \"bf16\": true, \"recompute-modules\": [\"mlp\", \"moe\"]}", "a.json"),
      read("{\"args\": {\"num-layers\": 4,\n\t\"bf16\": true, \"recompute-modules\": \"mlp moe\"}}", "no extension")};
  for (const formats::ArgumentFile& file : forms) {
    std::vector<std::string> values;
    for (const auto& argument : file.set.arguments) values.push_back(argument.is_switch ? "true" : argument.value);
    EXPECT_EQ(values, (std::vector<std::string>{"4", "true", "mlp moe"}));
  }
}

TEST(ArgumentMap, ThatIsNoneIsRefusedInOneLine) {
  for (const char* text : {"", "- 1\n- 2\n", "just text", "a: [b", "{", "{\"a\": {1: [{\"b\": 2}]}}", "MODEL_ARGS: 3",
                           "bf16: {}", "args:\n  a: 1\ngpus: many\n", "args: {a: 1}\nenv: [x]\n", "? [1]\n: 2\n"}) {
    const auto file = formats::read_arguments(text, "a.yaml");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_TRUE(file.error().message.starts_with("a.yaml")) << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  }
}

TEST(ArgumentMap, TakesTheDefaultsOfVariables) {
  const formats::ArgumentFile file =
      read("--num-layers: ${L:-4}\n--seq-length: ${S}\n--x: [\"${A:-1}\", \"${B-2}\"]\n", "a.yaml");
  EXPECT_EQ(value_of(file, "num-layers"), "4");
  EXPECT_EQ(value_of(file, "seq-length"), "${S}");
  EXPECT_EQ(value_of(file, "x"), "1 2");
}

TEST(ArgumentMap, NamesMembersThatAreThereTwice) {
  const formats::ArgumentFile file =
      read("{\"num-layers\": 4,\n\"bf16\": true, \"bf16\": true,\n\"num_layers\": 8}", "a.json");
  EXPECT_EQ(value_of(file, "num_layers"), "8");
  ASSERT_EQ(file.notes.size(), 1U);
  EXPECT_EQ(file.notes[0], "a.json:3: --num-layers is there twice, '4' before and '8' here; the last counts");
  const auto sections = formats::read_arguments("args: {num-layers: 4}\ngpus: 8\ngpus: 16\n", "a.yaml");
  ASSERT_FALSE(sections.ok());
  EXPECT_EQ(sections.error().message, "a.yaml:3: 'gpus' is there twice, first in line 2; keep one");
}

TEST(ArgumentMap, SuggestsWhatWasMeant) {
  EXPECT_EQ(formats::argument_hint("nmu-layers"), " (did you mean --num-layers?)");
  EXPECT_EQ(formats::argument_hint("something-else-altogether"), "");
}

TEST(ArgumentLimits, ValuesOfAMapGrowTogether) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "--a" + std::to_string(i) +
            ": \"${A:=0123456789abcdef}${B:=$A$A$A$A$A$A$A$A}${C:=$B$B$B$B$B$B$B$B}${D:=$C$C$C$C$C$C$C$C$C$C$C$C}\"\n";
  ASSERT_TRUE(formats::read_arguments(text, "f.yaml").ok());
  for (int i = 20; i < 200; ++i)
    text += "--a" + std::to_string(i) +
            ": \"${A:=0123456789abcdef}${B:=$A$A$A$A$A$A$A$A}${C:=$B$B$B$B$B$B$B$B}${D:=$C$C$C$C$C$C$C$C$C$C$C$C}\"\n";
  const auto file = formats::read_arguments(text, "f.yaml");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find(": the values up to here grow beyond 1048576 characters"), std::string::npos)
      << file.error().message;
}

TEST(ArgumentLimits, ShortWordsCountForTheMemoryTheyTake) {
  std::string text = "torchrun a.py --num-layers";
  for (int i = 0; i < 100'000; ++i) text += " a";
  const auto file = formats::read_arguments(text + "\n", "f.sh");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message, "f.sh:1: expands to more than 1048576 characters; is a variable made of itself?");
}

TEST(ArgumentLimits, ASecondDocumentIsRefused) {
  EXPECT_EQ(formats::read_arguments("--num-layers: 4\n---\n--num-layers: 8\n", "f.yaml").error().message,
            "f.yaml:3: a second document starts here; write one map of arguments a file");
}

}  // namespace
}  // namespace tidemark
