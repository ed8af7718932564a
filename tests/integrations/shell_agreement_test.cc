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
    program("bash", "exec /bin/bash \"$@\"");
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
          "2>&1\ndone\nexit 0\n");
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
      const std::size_t end = std::min(word.find('='), word.size());
      name = word.substr(2, end - 2);
      options[name] = word.substr(std::min(end + 1, word.size()));
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
  std::size_t scripts = 0, run = 0, sure = 0, disagreeing = 0;
};

/// Reads scripts and runs those of which anything is said without a doubt; fails where the shell does otherwise.
Tally compare(const Bash& bash, const std::vector<std::string>& scripts) {
  Tally tally{.scripts = scripts.size()};
  std::vector<std::string> said;
  for (const std::string& script : scripts) {
    const Result<ShellScript> read = read_shell_script(script, "run.sh");
    const Result<ArgumentFile> file = read_arguments(script, "run.sh");
    const bool is_known = read && is_sure(read.value());
    if (is_known) ++tally.sure;
    if (is_known || (file && file.value().set.unread.empty())) said.push_back(script);
  }
  tally.run = said.size();
  const std::vector<std::vector<Started>> started = bash.run(said);
  for (std::size_t i = 0; i < said.size(); ++i) {
    const Result<ShellScript> read = read_shell_script(said[i], "run.sh");
    const Result<ArgumentFile> file = read_arguments(said[i], "run.sh");
    std::string wrong = read ? disagreement(read.value(), started[i]) : "";
    if (wrong.empty() && file) wrong = disagreement(file.value(), started[i]);
    if (!wrong.empty() && ++tally.disagreeing <= 5) ADD_FAILURE() << wrong << "\n" << said[i];
  }
  EXPECT_EQ(tally.disagreeing, 0U);
  return tally;
}

std::size_t number_from(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Lines before a training that takes `$MBS`, which is 4 before them.
struct Case {
  const char* name;
  const char* lines;
  bool is_known;  ///< the reader has to be sure of it
};
std::ostream& operator<<(std::ostream& out, const Case& one) {
  return out << one.name;
}

const std::string kTraining = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 1 --micro-batch-size ";

const std::vector<Case> kCases = {
    // What a shell of its own sets does not outlive it.
    {"Subshell", "( cd /; MBS=2 )", true},
    {"SubshellInside", "( MBS=2; echo $MBS )\nf() { MBS=8; }", true},
    {"Pipeline", "{ MBS=2; } | tee log", true},
    {"PipelineOfAFunction", "f() { MBS=2; }\nf | tee log", true},
    {"PipelineOfALoop", "while false; do MBS=2; done | tee log", true},
    {"PipelineLast", "true | MBS=2", true},
    {"Background", "MBS=2 &\nwait", true},
    {"FunctionOfASubshell", "f() { MBS=8; }\n( f() { MBS=2; } )\nf", true},
    {"ArgumentsOfASubshell", "set -- 6\n( set -- 2 )\nMBS=$1", true},
    {"ExitOfASubshell", "( exit 1 ) && MBS=2", true},
    // Before a command.
    {"Prefix", "MBS=2 true $MBS", true},
    {"PrefixOfAProgram", "MBS=2 mkdir x", true},
    {"PrefixOfAFunction", "f() { X=$MBS; }\nMBS=2 f\nMBS=$X", true},
    {"PrefixOfAFunctionEnds", "f() { MBS=8; }\nMBS=2 f", true},
    {"PrefixOfABuiltin", "MBS=2 export MBS", false},
    {"PrefixOfEval", "MBS=2 eval true", false},
    {"PrefixOfRead", "IFS=, read -ra X <<< 1,2", true},
    // Functions.
    {"Return", "f() { return; MBS=2; }\nf", true},
    {"ReturnDecided", "f() { [ $MBS = 4 ] && return\nMBS=2; }\nf", true},
    {"ReturnOpen", "f() { [ -f x ] && return\nMBS=2; }\nf", false},
    {"ReturnStatus", "f() { return 1; }\nf && MBS=2", true},
    {"LastStatus", "f() { false; }\nf || MBS=2", true},
    {"Local", "f() { local MBS=2; }\nf", true},
    {"LocalWithoutAValue", "f() { local MBS; X=${MBS:-9}; }\nf\nMBS=$X", true},
    {"LocalOutside", "local MBS=2", true},
    {"LocalOfACaller", "g() { MBS=8; }\nf() { local MBS=2; g; }\nf", true},
    {"DeclareInAFunction", "f() { declare MBS=2; }\nf", true},
    {"DeclareGlobal", "f() { declare -g MBS=2; }\nf", true},
    {"DeclareGlobalHidden", "f() { local MBS=3; declare -g MBS=2; }\nf", false},
    {"FunctionOfABuiltinsName", "cd() { MBS=2; }\ncd /", true},
    {"CommandOfAFunctionsName", "mkdir() { MBS=2; }\ncommand mkdir x", true},
    {"FunctionOfASubshellBody", "f() ( MBS=2 )\nf", true},
    {"FunctionOfAnIf", "f() if true; then MBS=2; fi\nf", true},
    {"FunctionTakenAway", "f() { MBS=2; }\nunset -f f\nf", true},
    {"FunctionInACondition", "f() { MBS=2; }\nif f; then MBS=$((MBS + 1)); fi", true},
    {"FunctionBehindAnInversion", "f() { MBS=2; return 1; }\n! f && MBS=$((MBS + 1))", true},
    {"FunctionTimed", "f() { MBS=2; }\ntime f", true},
    {"FunctionQuoted", "f() { MBS=2; }\n\"f\"", true},
    {"FunctionByVariable", "f() { MBS=2; }\ng=f; $g", true},
    // Tests.
    {"Pattern", "[[ $MBS == 4* ]] && MBS=2", false},
    {"PatternQuoted", "[[ $MBS == \"4*\" ]] && MBS=2", true},
    {"PatternOfAVariable", "P='4*'\n[[ $MBS == $P ]] && MBS=2", false},
    {"BothInOne", "[[ $MBS == 4 && $MBS == 5 ]] && MBS=2", true},
    {"EitherInOne", "[[ $MBS == 5 || $MBS == 4 ]] && MBS=2", true},
    {"LessInOne", "[[ $MBS < 5 ]] && MBS=2", false},
    {"Parentheses", "[[ ! ( $MBS == 4 ) ]] && MBS=2", true},
    {"Expression", "[[ $MBS =~ ^(4|5)$ ]] && MBS=2", false},
    {"Octal", "[[ 010 -eq 8 ]] && MBS=2", false},
    {"OctalInBrackets", "[ 010 -eq 10 ] && MBS=2", true},
    {"EmptyWord", "X=\n[ -n $X ] && MBS=2", true},
    {"TwoTestsInOne", "[ a = a -a b = b ] && MBS=2", false},
    {"AndOfWords", "[ a -a b ] && MBS=2", false},
    {"InversionOfAComparison", "[ ! = x ] || MBS=2", true},
    // Arithmetic.
    {"AssigningInAWord", "echo $((MBS*=8))", false},
    {"IncrementInAWord", "echo $((MBS++))", false},
    {"IncrementInASubscript", "a=(1 2)\necho ${a[MBS++]}", false},
    {"IncrementInAnOffset", "x=abc\necho ${x:MBS++}", false},
    {"AssigningAValue", "A='MBS=9'\necho $((A))", false},
    {"OctalNumber", "MBS=$((010))", false},
    {"HexNumber", "MBS=$((0x10))", false},
    {"TextOfAName", "A=1+2\nMBS=$(($A * 3))", true},
    {"DefaultInASum", "MBS=$((${N:-2} * ${MBS}))", true},
    {"OutputInASum", "X=$(($(nproc) / 2))", true},
    {"SumOfNoNumber", "A='4 5'\nX=$((A * 2))", false},
    {"ValueOfAName", "A=1+2\nMBS=$((A * 3))", true},
    {"Item", "L=(1)\n((L[0] = 5)); MBS=$L", false},
    // Declarations.
    {"Readonly", "readonly MBS\nMBS=2", false},
    {"ReadonlyByDeclare", "declare -r MBS=2\nMBS=3", false},
    {"ReadonlyInALoop", "X=1; f() { readonly X; for i in 1; do X=2; done; MBS=3; }\nf", false},
    {"Reference", "declare -n R=MBS\nR=2", false},
    {"Integer", "declare -i MBS=3+4", true},
    {"IntegerLater", "declare -i MBS\nMBS=3+4", true},
    {"UpperCase", "declare -u MBS\nMBS=a", false},
    // What the shell goes by.
    {"TrapOfEachCommand", "trap 'MBS=2' DEBUG", false},
    {"TrapOfErrors", "trap 'MBS=2' ERR\nfalse", false},
    {"TrapThatSpeaks", "trap 'echo failed' ERR\nfalse", true},
    {"Alias", "shopt -s expand_aliases\nalias torchrun='torchrun --micro-batch-size 2'", false},
    {"Keywords", "set -k", false},
    {"Blanks", "IFS=4\nMBS=143", false},
    {"Options", "set -euo pipefail", true},
    // Names of commands.
    {"EscapedEval", "\\eval MBS=2", false},
    {"QuotedEval", "\"eval\" MBS=2", false},
    {"EvalOfAVariable", "e=eval\n$e MBS=2", false},
    {"BuiltinOfAVariable", "CMD='export MBS=2'\n$CMD", false},
    {"EmptyCommand", "e=\n$e export MBS=2", true},
    {"NeverSetCommand", "$SUDO export MBS=2", false},
    {"CommandLost", "read c <<< 'export MBS=2'\n$c", false},
    {"CommandBuiltin", "command export MBS=2", true},
    {"EvalOfAProgram", "eval mkdir x", true},
    // Statuses.
    {"FailedCommand", "cd /no/such || MBS=16", false},
    {"FailedProgram", "mkdir x && MBS=2", false},
    {"StatusOfOutput", "X=$(false) || MBS=2", false},
    {"StatusOfALoop", "for i in 1; do false; done || MBS=2", false},
    {"GroupLeftOut", "[ $MBS = 5 ] && { MBS=2; MBS=3; }", true},
    {"GroupTaken", "[ $MBS = 4 ] && { X=1; MBS=3; }", true},
    {"IfLeftOut", "[ $MBS = 5 ] && if true; then MBS=2; fi", true},
    {"SubshellBehindOr", "[ $MBS = 5 ] || (MBS=2)", true},
    {"GroupOpen", "[ -f x ] && { X=1; MBS=3; }", false},
    // Names the shell sets.
    {"Home", "MBS=${PWD:+2}", false},
    {"Path", "[ -z \"$PATH\" ] && MBS=2", false},
    {"Random", "MBS=${RANDOM:-2}", false},
    {"RandomSet", "RANDOM=2; MBS=$RANDOM", false},
    // Words.
    {"Alternatives", "MBS={1,2}", true},
    {"HomeFolder", "MBS=~", false},
    {"Escapes", "MBS=$'2\\t'", true},
    {"EscapesOther", "MBS=$'\\x32'", false},
    {"Translated", "MBS=$\"2\"", false},
    {"Cut", "MBS=${MBS#4}2", false},
    {"Length", "MBS=${#MBS}", false},
    {"Indirect", "X=MBS; MBS=${!X}", false},
    {"BlanksKept", "X='  2'; MBS=$X", true},
    {"DefaultInQuotes", "MBS=\"${U:-\"2\"}\"", true},
    {"DefaultOfABrace", "X=3; MBS=${X:-{}5", true},
    {"FirstOfAnArray", "L=(2 3); L=8; MBS=\"${L[*]}\"", true},
    {"HereDocument", ": <<E\n${MBS:=1} $((MBS++))\nE", false},
    {"HereDocumentIndented", "cat <<E\n  E\nMBS=2\nE", true},
    // Choices.
    {"Case", "case $MBS in\n1) MBS=2 ;;\n4) MBS=3 ;;\n*) MBS=5 ;;\nesac", true},
    {"CaseOther", "case $MBS in\n1 | 2) MBS=2 ;;\n*) MBS=5 ;;\nesac", true},
    {"CasePattern", "case $MBS in\n[0-9]) MBS=2 ;;\nesac", false},
    {"CaseFallsThrough", "case $MBS in\n4) X=1 ;&\n5) MBS=2 ;;\nesac", false},
    {"Select", "select X in 1 2; do MBS=2; done < /dev/null", false},
    {"Semicolons", "if true; then; MBS=2; fi", false},
    {"LoopOfTheNextTime", "B=1; A=0\nfor i in 1 2; do B=$((A + 1)); A=5; done\nMBS=$B", false},
    {"Coprocess", "coproc MBS=2", false},
    // The script's own arguments.
    {"Unquoted", "X='5 6'; set -- $X; MBS=$2", true},
    {"UnknownBefore", "set -- $U 5; MBS=${2:-3}", false},
    {"ShiftOfTwo", "set -- 1 2 3; shift 2; MBS=$1", true},
    {"WithoutDashes", "set 5 6; MBS=$2", true},
    // Words of a builtin: all are replaced before it runs.
    {"ExportOfItself", "A=1; export A=5 B=$A\nMBS=$B", false},
    {"ExportOfAnother", "A=1; export C=5 B=$A\nMBS=$B", true},
    {"LocalOfItself", "A=1; f() { local A=5 B=$A; MBS=$B; }\nf", false},
    {"LocalOfOneJustHidden", "A=1; f() { local A B=${A:-7}; MBS=$B; }\nf", false},
    {"ReadonlyOfItself", "A=1; readonly A=5 B=$A\nMBS=$B", false},
    {"DeclareOfItself", "A=1; declare A=5 B=$((A + 1))\nMBS=$B", false},
    {"LetOfItself", "A=1; let A=5 B=$A\nMBS=$B", false},
    {"LetOfItselfInQuotes", "A=1; let 'A=5, C=2' \"B=$C$A\"\nMBS=$B", false},
    {"LetOfANumber", "A=1; let A=5 B=A\nMBS=$B", true},
    {"ExportOfAlternatives", "export Q={1,2}\nMBS=$Q", false},
    {"ExportOfNames", "export {MBS,X}=2", false},
    {"ExportOfQuotedBraces", "export Q='{1,2}'\nMBS=3", true},
    {"ExportOfNamesLeftOut", "[ ! -f x ] && export {MBS,X}=2", false},
    {"CommandExportCut", "B='3 MBS=2'; command export A=$B", false},
    {"BuiltinExportCut", "B='3 MBS=2'; builtin export A=$B", false},
    {"EmptyExportCut", "B='3 MBS=2'; e=; $e export A=$B", false},
    {"CommandExportQuoted", "B='3 MBS=2'; command export A=\"$B\"", true},
    {"DeclareAsks", "declare -p FOO || MBS=2", false},
    {"DeclareAsksForAFunction", "declare -F f && MBS=2", false},
    {"ItemBehindNothing", "L=(1 2); e=; L[0]=9 $e\nMBS=$L", false},
    {"LocalOfOneExported",
     "export E=16; f() { local E; E=5; torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 1 --micro-batch-size "
     "3; exit; }\nf",
     true},
    // A choice over the script's own arguments.
    {"CaseOfNoArgument", "for i in 1; do case \"$1\" in *) MBS=2 ;; esac; done", false},
    {"CaseOfAnEmptyArgument", "for i in 1; do case $1 in \"\") MBS=2 ;; esac; done", false},
    {"CaseOfAnEmptyArgumentFallsThrough", "for i in 1; do case $1 in '') : ;& x) MBS=2 ;; esac; done", false},
    {"CaseOfOptions", "for i in 1; do case $1 in -m | --mbs=*) MBS=2 ;; esac; done", true},
    {"CaseOfArgumentsSet", "for i in 1; do set -- -m; case $1 in -m) MBS=2 ;; esac; done", false},
    {"ArgumentsSetOrNot", "[ ! -f x ] && set -- 2\nMBS=${1:-3}", false},
    {"LoopOfTooFewArguments", "while [ $# -lt 1 ]; do set -- x; MBS=2; done", false},
    {"LoopOfAnEmptyArgument", "while [ ! -n \"$1\" ]; do set -- x; MBS=2; done", false},
    {"LoopOfABareArgument", "while [ -n $1 ]; do MBS=2; break; done", false},
    {"LoopUntilArguments", "until [ $# -gt 0 ]; do set -- x; MBS=2; done", false},
    {"LoopUntilOptions", "until getopts m: X; do MBS=2; break; done", false},
    {"LoopOverGivenOptions", "while getopts m: X -m 3; do MBS=2; done", false},
    {"LoopOverArguments", "while [ $# -gt 0 ]; do MBS=2; shift; done", true},
    {"LoopOverArgumentsInOne", "while [[ $# -gt 0 && $1 == -* ]]; do MBS=2; shift; done", true},
    {"LoopWhileArguments", "while [ -n \"$1\" ]; do MBS=2; shift; done", true},
    {"LoopUntilNoArgument", "until [ -z \"$1\" ]; do MBS=2; shift; done", true},
    {"LoopOverOptions", "while getopts m: X; do MBS=$OPTARG; done", true},
    {"CaseOfAPatternThatSets", "case $U in $((MBS++))) X=1 ;; esac", false},
    // Where the shell ends.
    {"ErrorExit", "set -e\nfalse\nMBS=2", false},
    {"ErrorExitOfACall", "set -euo pipefail\nf() { return 1; }\nf", false},
    {"ErrorExitOfTheLast", "set -o errexit\nf() { [ $MBS = 5 ] && MBS=2; }\nf", false},
    {"ErrorExitOfASubshell", "set -e\n( exit 1 )", false},
    {"ErrorExitOfArithmetic", "set -e\n((X = 0))", false},
    {"ErrorExitInACondition", "set -e\nf() { false; MBS=2; }\nif f; then X=1; fi\n! true\nfalse || X=2\nfalse && X=3",
     true},
    {"ErrorExitOfAnInversion", "f() { set -e; false; MBS=2; }\n! f", false},
    {"ErrorExitOff", "set -e\nset +e\nfalse\nMBS=2", true},
    {"ErrorExitLeftOut", "[ ! -f x ] && set -e\nfalse", false},
    {"ErrorExitOfAList", "set -e\n{ false && X=1; }\nMBS=2", true},
    {"ErrorExitByATrap", "trap 'exit 1' ERR\nfalse\nMBS=2", false},
    {"ExitBeforeEachCommand", "trap 'exit 1' DEBUG\nMBS=2", false},
    {"TrapOfChildren", "trap 'MBS=2' 17\nmkdir x; nvidia-smi", false},
    {"TrapInSmallLetters", "trap 'MBS=2' Debug\nX=1", false},
    {"UnsetIsAnError", "set -u\nX=$UNSET\nMBS=2", false},
    {"UnsetIsAnErrorInBraces", "set -o nounset\nX=${UNSET}\nMBS=2", false},
    {"UnsetIsAnErrorInASum", "set -u\nX=$((UNSET + 1))\nMBS=2", false},
    {"UnsetWithADefault", "set -u\nX=${UNSET:-1}\nMBS=2", true},
    {"MissingValue", "R=1; unset R; : ${R?}", false},
    {"NameOfTheShell", "EUID=3 && MBS=7", false},
    {"ExportsAllOrNot", "[ ! -f x ] && set -a\nE=5", false},
    {"SetOfADash", "set -- 2; set -; MBS=$1", true},
    {"EscapedBrace", "MBS=\"${U:-2\\}}\"", false},
    // Files that cannot be opened.
    {"MissingFile", "true < /no/such || MBS=2", false},
    {"MissingFileOfAGroup", "{ MBS=2; } < /no/such", false},
    {"MissingFolderOfAnIf", "if true; then MBS=2; fi > dir/log", false},
    {"MissingFileOfADeclaration", "export MBS=2 < /no/such", false},
    {"MissingFileOfAnAssignment", "MBS=2 < /no/such", false},
    {"MissingFileOfACall", "f() { MBS=2; }\nf < /no/such", false},
    {"MissingFileOfABody", "f() { MBS=2; } < /no/such\nf", false},
    {"MissingFileOfATest", "[ $MBS = 4 ] < /no/such && MBS=2", false},
    {"NullFile", "{ MBS=2; } > /dev/null 2>&1", true},
    {"FileOfAProgram", "mkdir x > log 2>&1", true},
    {"FileOfTheShell", "exec 2> log\nMBS=2", true},
    // Other scripts and folders.
    {"SourceOfFunctions", "f() { MBS=2; }\nsource <(echo 'f() { MBS=3; }')\nf", false},
    {"FolderChanged", "PWD=3; cd /\nMBS=$PWD", false},
    {"FolderChangedLeftOut", "PWD=3; [ ! -f x ] && cd /\nMBS=$PWD", false},
    {"AssignmentBehindNothing", "set -e\ne=; $e X=5", false},
    {"FileOfACommand", "MBS=--x=<(true)", false},
    // Output of commands.
    {"DocumentInOutput", "X=$(cat <<E\nit's\nE\n)\nMBS=2\n# don't)", true},
    {"CommentInOutput", "X=$(true # it's )\n)\nMBS=2\n# don't)", true},
    {"ShiftInASum", "X=$((1 << 2)); MBS=$((16 # 2\n))", false},
    {"EmptyFirstItem", "L=('' 3); MBS=${L:-2}", true},
    {"SetFirstItem", "L=(5 3); MBS=${L:+2}", true},
    {"PrintfOfNothing", "$SUDO printf -v MBS 9", false},
    {"PrintfOfAVariable", "p=printf; [ ! -f x ] && $p -v MBS 9", false},
    {"CallThatHandsOn", "set -- 2; f() { MBS=$2; }; g='f 3'; $g \"$@\"", false},
};

class Agreement : public ::testing::TestWithParam<Case> {};

TEST_P(Agreement, IsOfBash) {
  if (!Bash::is_there()) GTEST_SKIP() << "there is no /bin/bash";
  const std::string script = std::string("MBS=4\n") + GetParam().lines + "\n" + kTraining + "$MBS\n";
  const Bash bash;
  const std::vector<Started> started = bash.run({script}).front();
  const Result<ShellScript> read = read_shell_script(script, "run.sh");
  EXPECT_EQ(read ? disagreement(read.value(), started) : "", "") << script;
  EXPECT_EQ(read && is_sure(read.value()), GetParam().is_known) << script;
}

INSTANTIATE_TEST_SUITE_P(Shell, Agreement, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

/// Where the training itself stands.
TEST(ShellAgreement, OfTrainingsWhereverTheyStand) {
  if (!Bash::is_there()) GTEST_SKIP() << "there is no /bin/bash";
  const Bash bash;
  const std::vector<std::string> scripts = {"( M=2; " + kTraining + "$M )\n",
                                            "M=2\n{ M=3; " + kTraining + "$M; } | tee log\n",
                                            "M=2\nM=3 " + kTraining + "$M\n",
                                            "E=1\nE=2 " + kTraining + "5\nexport E=3\n",
                                            "export E=1\nf() { E=2 " + kTraining + "5; }\nf\nE=4\n",
                                            "M=2\n" + kTraining + "$M\nM=3\n",
                                            "M=2\n" + kTraining + "$M &\nwait\n",
                                            "true && " + kTraining + "2\n",
                                            "f() { " + kTraining + "2; }\nf | tee log\n",
                                            "M=2\nexit 0\n" + kTraining + "$M\n",
                                            "f() { " + kTraining + "2; }\n",
                                            "exec " + kTraining + "2\n" + kTraining + "3\n",
                                            "eval " + kTraining + "2\n",
                                            ": " + kTraining + "2\n",
                                            "OPTS=\"--num-layers 2 --micro-batch-size 3\"\n",
                                            "X=$(" + kTraining + "2)\n" + kTraining + "3\n",
                                            "bash -c '" + kTraining + "$M; M=3'\n",
                                            "bash -c '" + kTraining + "2' --more 3\n",
                                            "\"\" " + kTraining + "2\n",
                                            "if false; then\n" + kTraining + "2\nelse\n" + kTraining + "3\nfi\n",
                                            "bash <<E\n" + kTraining + "2\nE\n" + kTraining + "3\n",
                                            "cat <<'E' | bash\n" + kTraining + "2\nE\n" + kTraining + "3\n",
                                            "cat <<E\n" + kTraining + "2\nE\n" + kTraining + "3\n",
                                            "torchrun p.py --num-layers=1 --micro-batch-size=2\n" + kTraining + "3\n",
                                            "{ M=3; " + kTraining + "$M; } > log 2>&1\n",
                                            "set -euo pipefail\nM=3\n" + kTraining + "$M > log 2>&1\n"};
  const Tally tally = compare(bash, scripts);
  EXPECT_EQ(tally.sure, 15U);
}

/// As people write them: nothing in it is a doubt.
TEST(ShellAgreement, OfAnOrdinaryScriptIsWhole) {
  if (!Bash::is_there()) GTEST_SKIP() << "there is no /bin/bash";
  const Bash bash;
  const std::string head =
      "#!/bin/bash\nset -euo pipefail\ncd \"$(dirname \"$0\")\" > /dev/null\nMBS=${MBS:-4}\nexport A=1 B=2\n"
      "trap 'echo ended' EXIT\nusage() { cat <<E\nrun.sh [--mbs N]\nE\n}\n";
  const std::string arguments =
      "while [[ $# -gt 0 ]]; do\n  case $1 in\n    --mbs) MBS=\"$2\"; shift 2 ;;\n    -h | --help) usage; exit 0 ;;\n"
      "    *) echo \"what is $1?\" >&2; exit 1 ;;\n  esac\ndone\n"
      "for arg in \"$@\"; do case $arg in --mbs=*) MBS=\"${arg#*=}\" ;; *) exit 1 ;; esac; done\n"
      "if [[ $MBS -gt 8 ]]; then MBS=8; fi\n[ -n \"${DEBUG:-}\" ] && set -x\necho \"run with $MBS\" > log.txt\n"
      "mkdir -p logs 2> /dev/null || true\n";
  const std::string main = "main() {\n  local micro=$MBS\n  " + kTraining + "$micro 2>&1 | tee log\n}\nmain \"$@\"\n";
  const std::vector<std::string> scripts = {head + arguments + kTraining + "$MBS 2>&1 | tee log\n",
                                            head + arguments + kTraining + "$MBS > log.txt 2>&1\n",
                                            head + arguments + main};
  EXPECT_EQ(compare(bash, scripts).sure, scripts.size());
}

TEST(ShellAgreement, OfRandomScripts) {
  if (!Bash::is_there()) GTEST_SKIP() << "there is no /bin/bash";
  const Bash bash;
  const std::size_t count = number_from("TIDEMARK_SHELL_SCRIPTS", 3000);
  testing::RandomShell random(number_from("TIDEMARK_SHELL_SEED", 1));
  std::vector<std::string> scripts;
  for (std::size_t i = 0; i < count; ++i) scripts.push_back(random.script());
  const Tally tally = compare(bash, scripts);
  EXPECT_GT(tally.sure * 4, tally.scripts) << "unknown is no answer to everything";
  std::printf("%zu scripts, %zu of them run, %zu known whole\n", tally.scripts, tally.run, tally.sure);
}

}  // namespace
}  // namespace tidemark::formats
