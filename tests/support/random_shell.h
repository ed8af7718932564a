#pragma once
// Random launch scripts: every construct that a reader of them has to follow as bash does, or to say that it does not.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace tidemark::testing {

/// One script a call; the same seed gives the same scripts. Ends with a training that takes the variables A to E.
class RandomShell {
 public:
  explicit RandomShell(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::string script() {
    functions_ = 0;
    in_function_ = false;
    is_calm_ = !chance(3);
    std::string text = "A=1; B=2; C=4\nD=8\nexport E=16\nL=(3 5)\n";
    const std::size_t count = 1 + below(5);
    for (std::size_t i = 0; i < count; ++i) text += statement(0) + "\n";
    return text + training() + "\n";
  }

 private:
  // Calm scripts leave out what a reader can only doubt, so that most of what they do is compared.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  std::string one(std::initializer_list<const char*> of) { return *(of.begin() + below(of.size())); }
  /// One after the other: in a sum of texts the compiler would choose which is drawn first.
  static std::string joined(std::initializer_list<std::string> parts) {
    std::string text;
    for (const std::string& part : parts) text += part;
    return text;
  }
  std::string name() { return one({"A", "B", "C", "D", "E"}); }
  std::string number() { return one({"0", "1", "2", "3", "7", "12", "64"}); }

  std::string training() {
    std::string text = joined({"torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers", one({" ", " ", "="}), word(),
                               " --micro-batch-size", one({" ", " ", "="}), word()});
    if (chance(2)) text += " --hidden-size " + word();
    if (chance(3)) text += " --seq-length \"$" + name() + "\"";
    if (chance(3)) text += " --extra \"${L[@]}\"";
    if (chance(4)) text += " --first ${1:-9} --rest \"$*\"";
    if (chance(8)) text += " | tee log";
    if (chance(8)) text += one({" > log", " 2>&1 | tee log", " > log 2>&1"});
    if (chance(12)) text = joined({name(), "=", value(), " ", text});
    return text;
  }

  /// An argument.
  std::string word() {
    const std::string v = name();
    if (is_calm_ && !chance(6)) return one({"$", "\"$"}) == "$" ? "$" + v : "\"$" + v + "\"";
    switch (below(20)) {
      case 0:
        return "\"$" + v + "\"";
      case 1:
        return "${" + v + ":-7}";
      case 2:
        return "$((" + v + " * 2))";
      case 3:
        return "$((" + v + "++))";
      case 4:
        return one({"~", "*.none", "{1,2}", "$'1\\n2'", "$'7'", "$\"7\"", "'7'", "\\7", "<(true)"});
      case 5:
        return "${" + v + one({"#1", "%2", "/1/3", ":0:1", "^^", ",,", "@Q"}) + "}";
      case 6:
        return one({"${#A}", "${!B}", "${#L[@]}", "${L[1]}", "${L[0]}", "${L[*]}", "$#", "$1", "$2", "${2:-6}", "$?"});
      case 7:
        return "${" + v + ":+5}";
      default:
        return "$" + v;
    }
  }

  /// The right of an assignment.
  std::string value() {
    const std::string v = name();
    if (is_calm_ && chance(2))
      return one({"\"$A\"", "$B", "\"$C$D\"", "${E:-5}", "$((A + 1))", "$((B * C))", "5", "9"});
    switch (below(26)) {
      case 0:
        return "\"$" + v + "\"";
      case 1:
        return "$" + v;
      case 2:
        return "${" + v + one({":-5", "-5", ":=5", "=6", ":+4", "+4", "#1", "/2/5"}) + "}";
      case 3:
        return "$((" + v +
               one({" + 1", " * 2", " - 3", " / 2", " % 3", "*=2", "++", " == 2", " && 0", " << 1", "+010"}) + "))";
      case 4:
        return "$(echo " + number() + ")";
      case 5:
        return one({"''", "", "\" 3\"", "'2 4'", "a{1,2}", "010", "0x10", "1+2", "-1", "\"1  2\""});
      case 6:
        return "\"${" + v + ":-x}" + number() + "\"";
      case 7:
        return "$(($" + v + " * " + number() + "))";
      case 8:
        return "${U" + one({":-5", ":=5", ":+5", "", "-6"}) + "}";
      case 9:
        return one({"$RANDOM", "$SECONDS", "$LINENO", "$UID", "${SHELL:+5}", "$PPID", "${HOME:+5}"});
      case 10:
        return one(
            {"${L[0]}", "${L[@]}", "$L", "${#L}", "\"${L[*]}\"", "${L[-1]}", "\"$*\"", "$1", "\"$@\"", "${1:-4}"});
      default:
        return number();
    }
  }

  std::string assignment() {
    switch (below(12)) {
      case 0:
        return joined({name(), "+=", value()});
      case 1:
        return joined({one({"L=(", "L+=("}), value(), " ", number(), ")"});
      case 2:
        return one({"L=7", "L[0]=6", "L[1]=9", "L+=8", "L=([1]=5 [0]=4)", "L=()", "unset L", "unset 'L[0]'"});
      case 3:
        return joined({name(), "=", value(), " ", name(), "=", value()});
      default:
        return joined({name(), "=", value()});
    }
  }

  std::string declaration() {
    const std::string v = name();
    if (is_calm_)
      return joined(
          {one({"export ", "local ", "declare ", "declare -g ", "declare -x ", "declare -i ", "typeset ", "local -r "}),
           v, one({"=3", "=3", "=$B", "", "=\"$C\""})});
    switch (below(15)) {
      case 0:
        return "export " + v + "=" + value();
      case 1:
        return joined({"declare ", one({"-x ", "-i ", "-g ", "-a ", "-u ", "-r ", "", "-gx ", "-n ", "+x ", "-l "}), v,
                       "=", value()});
      case 2:
        return joined({one({"local ", "local -i ", "local -r ", "typeset ", "declare "}), v, "=", value()});
      case 3:
        return one({"local ", "declare ", "declare -i ", "export ", "declare -x ", "export -n ", "typeset -u "}) + v;
      case 4:
        return "readonly " + v + one({"", "=3"});
      case 5:
        return "unset " + one({"", "-v "}) + v;
      case 6:
        return "unset " + one({"f1", "-f f1", "f2"});
      case 7:
        return "export \"" + v + "=5\"";
      case 8:
        return "n=" + v + "; declare \"$n=5\"";
      case 9:
        return "printf -v " + v + " 5";
      case 10:
        return "read " + v + " <<< 6";
      case 11:
        return "declare -n r=" + v + "; r=5";
      case 12:
        return declaration_of_two();
      default:
        return "export " + v;
    }
  }

  /// All words are replaced before the first assigns.
  std::string declaration_of_two() {
    return joined({one({"export ", "declare ", "local ", "readonly ", "command export ", "let "}), name(), "=", value(),
                   " ", name(), one({"=$A", "=$B", "=\"$C\"", "=5", ""})});
  }

  /// Parts of scripts that go over their own arguments, of which there are none.
  std::string over_arguments(int depth) {
    return joined(
        {one({"for i in 1 2", "while [ $# -gt 0 ]", "while [[ $# -lt 1 ]]", "until [ $# -eq 0 ]", "while true",
              "while [ -n \"$1\" ]", "while [ -n $1 ]", "while getopts ab: o", "for a in \"$@\"", "for a"}),
         "; do case ", one({"$1", "\"$1\"", "\"${1:-}\""}), " in\n", one({"-a|--all", "--x=*", "''", "\"\"", "-*"}),
         ") ", list(depth), one({";;", ";;", ";&"}), "\n", one({"--y", "*", "\"$U\""}), ") ", list(depth),
         ";;\nesac\nbreak\ndone"});
  }

  /// While the shell ends over a command that fails, only what the script decides: programs that fail are its
  /// machine's.
  std::string strict() {
    const std::string v = name();
    return one({"set -e; ", "set -eu; ", "set -o errexit; "}) +
           joined({one({"true", "false", "[ 1 = 2 ]", "! true", "false || true", "false && true", "(exit 1)",
                        "{ false; }", "if false; then :; fi", "[ 1 = 2 ] && A=3", "((1 > 2))", "let 0"}),
                   "; ", v, "=", one({"5", "${U:-3}", "$A", "$U"}), "; set +eu"});
  }

  std::string redirected(int depth) {
    const std::string file = one({" > log", " < /no/such", " > /no/such/x", " 2>&1", " > /dev/null 2>&1", " <<< x"});
    return (chance(2) ? group(depth) : chance(2) ? assignment() : call()) + file;
  }

  std::string odd_command() {
    const std::string v = name();
    if (is_calm_) return calm_command();
    switch (below(24)) {
      case 0:
        return "\\export " + v + "=5";
      case 1:
        return "\"declare\" " + v + "=5";
      case 2:
        return "c=\"export " + v + "=5\"; $c";
      case 3:
        return "$UNSET export " + v + "=5";
      case 4:
        return "eval \"" + v + "=5\"";
      case 5:
        return "e=eval; $e " + v + "=5";
      case 6:
        return "e=; $e " + v + "=5";
      case 7:
        return "trap '" + v + "=5' " + one({"DEBUG", "ERR", "RETURN", "EXIT", "INT"});
      case 8:
        return "command export " + v + "=5";
      case 9:
        return "builtin " + one({"export ", "declare ", "eval "}) + v + "=5";
      case 10:
        return joined({"cd /no/such 2>/dev/null ", one({"|| ", "&& "}), assignment()});
      case 11:
        return joined({one({"mkdir x", "nvidia-smi", "false", "true", "grep -q x", "! true"}), one({" || ", " && "}),
                       assignment()});
      case 12:
        return joined({"set -- ", number(), " ", value()});
      case 13:
        return one({"shift", "shift 2", "set -e; set +e", "set -", "set 5 6", "set --", "set -- \"$@\" 8", "set -a",
                    "set -k", "set - 5", "set +a"});
      case 14:
        return v + "=$1";
      case 15:
        return "IFS=,";
      case 16:
        return ": \"${" + v + ":=5}\" ${U:=3}; " + name() + "=$U";
      case 17:
        return ": <<T\n${U:=5} $((" + v + "++))\nT\n:";
      case 18:
        return "((" + v + one({" = 5", " += 1", "++", " *= 2", " == 2", " = B + 1", " > 1 && (C = 3)", ", B = 3"}) +
               "))";
      case 19:
        return joined({"let ", v, "=", one({"5", "B+1", "010", "A++"}), one({"", " \"B = 3\""})});
      case 20:
        return "echo $((" + v + one({"*=2", " + 1", " = 3", "--"}) + ")) ${L[" + v + "++]} >/dev/null";
      case 21:
        return "alias x=y";
      case 22:
        return "shopt -s nullglob";
      default:
        return v + "=5 " +
               one({"true", "export B", "eval A=3", "mkdir x", "read A <<< 5", "nvidia-smi", "declare D=2"});
    }
  }

  std::string calm_command() {
    const std::string v = name();
    switch (below(9)) {
      case 0:
        return "e=; $e " + v + "=5";
      case 1:
        return "command export " + v + "=5";
      case 2:
        return joined(
            {one({"mkdir x", "cd /no/such", "nvidia-smi", "true", "false"}), one({" || ", " && "}), assignment()});
      case 3:
        return one({"set -- 4 6", "set -- $A", "shift", "shift 2", "set -e; set +e", "set 5 6", "set -a", "set +a"});
      case 4:
        return v + "=$1";
      case 5:
        return ": \"${U:=5}\" ${W:=3}; " + v + "=$U";
      case 6:
        return "((" + v + " = " + one({"5", "B + 1", "C * 2", "D > 2", "A == 1 || B"}) + "))";
      case 7:
        return v + "=5 " + one({"true", "mkdir x", "nvidia-smi", "echo $A"});
      default:
        return "let " + v + "=" + one({"5", "B+1", "C*D"});
    }
  }

  std::string condition() {
    const std::string v = name();
    const std::string w = one({"$", "\"$"}) + v;
    const std::string x = w.front() == '"' ? w + "\"" : w;
    switch (below(22)) {
      case 0:
        return "[ " + x + " -gt " + number() + " ]";
      case 1:
        return "[ " + x + " = " + number() + " ]";
      case 2:
        return "[[ " + x + " == " + one({"1*", "\"1\"", "$B", "\"$B\"", "[12]", "?", "2"}) + " ]]";
      case 3:
        return joined(
            {"[[ ", x, " -", one({"eq", "lt", "ge", "ne"}), " ", one({"2", "010", "$B", "B", "1+1", "08"}), " ]]"});
      case 4:
        return joined({"[[ ", x, " == 1 ", one({"&&", "||"}), " $B ", one({"<", ">", "==", "!="}), " 2 ]]"});
      case 5:
        return "[[ ! ( " + x + " == 2 ) ]]";
      case 6:
        return "[ -n $U ]";
      case 7:
        return "[ -z " + x + " ]";
      case 8:
        return "[ -n " + x + " ]";
      case 9:
        return "[ 1 " + one({"-a", "-o"}) + " " + x + " ]";
      case 10:
        return "test " + x + " != " + number();
      case 11:
        return "((" + v + " " + one({">", "<", "==", "!=", "&", "-"}) + " 2))";
      case 12:
        return one({"true", "false", ":", "mkdir x", "nvidia-smi", "! true", "! false", "! ! true"});
      case 13:
        return functions_ == 0 ? "true" : "f" + std::to_string(1 + below(functions_));
      case 14:
        return "[ ! " + x + " = 2 ]";
      case 15:
        return one({"[ ]", "[ x ]", "[ -n ]", "[ -z ]", "[ ! ]", "[ ! x ]", "[ = x ]", "[ x = ]", "[ a = a -a b ]",
                    "[[ a =~ ^a ]]", "[[ -n $U ]]", "[[ -z $U ]]", "[ -z \"$HOME\" ]", "[ -n \"$U\" ]", "[[ $U ]]"});
      case 16:
        return "[[ -n ${" + v + ":=5} && $A == 1 ]]";
      case 17:
        return v + "=" + value();
      default:
        return joined({"[ \"$", v, "\" -", one({"eq", "lt", "le", "ge"}), " ", number(), " ]"});
    }
  }

  std::string list(int depth) {
    std::string text = statement(depth + 1);
    while (chance(2)) text += joined({one({"; ", "\n"}), statement(depth + 1)});
    return text;
  }
  std::string group(int depth) { return "{ " + list(depth) + "\n}"; }

  std::string call() {
    if (functions_ == 0) return assignment();
    const std::string f = "f" + std::to_string(1 + below(functions_));
    switch (below(14)) {
      case 0:
        return f + " " + number();
      case 1:
        return joined({name(), "=", number(), " ", f});
      case 2:
        return "! " + f;
      case 3:
        return "g=" + f + "; $g";
      case 4:
        return "\"" + f + "\"";
      case 5:
        return joined({f, one({" && ", " || "}), assignment()});
      case 6:
        return f + " | tee log";
      case 7:
        return "( " + f + " )";
      case 8:
        return "command " + f + " 2>/dev/null";
      case 9:
        return f + " \"$@\"";
      case 10:
        return f + " $e";
      case 11:
        return "time " + f + " 2>/dev/null";
      default:
        return f;
    }
  }

  std::string function(int depth) {
    const bool outer = in_function_;
    in_function_ = true;
    std::string body = list(depth);
    if (chance(2)) body = joined({"local ", name(), one({"", "=6", "=\"$A\""}), "\n", body});
    if (chance(3)) body += joined({"\n", condition(), one({" && ", " || "}), one({"return", "return 1", "return 0"})});
    if (chance(2)) body += "\n" + statement(depth + 1);
    if (chance(4)) body += joined({"\nreturn", one({"", " 0", " 1"}), "\n", assignment()});
    in_function_ = outer;
    const std::string f = "f" + std::to_string(functions_ + 1);
    if (functions_ < 3) ++functions_;
    return joined(
        {one({"", "function "}), f, "() ", (chance(5) ? "( " + body + "\n)" : "{ " + body + "\n}"), "\n", call()});
  }

  std::string statement(int depth) {
    if (depth > 3) return assignment();
    switch (below(33)) {
      case 32:
        return strict();
      case 30:
        return over_arguments(depth);
      case 31:
        return redirected(depth);
      case 0:
        return "( " + list(depth) + "\n)";
      case 1:
        return group(depth) + " | tee log";
      case 2:
        return "true | " + group(depth);
      case 3:
        return group(depth) + " &\nwait";
      case 4:
      case 5:
        return joined({condition(), one({" && ", " || "}), statement(depth + 1)});
      case 6:
        return joined({condition(), one({" && ", " || "}), group(depth), one({" && ", " || "}), group(depth)});
      case 7:
      case 8:
        return joined({"if ", condition(), "; then\n", list(depth), "\nelse\n", list(depth), "\nfi"});
      case 9:
        return joined(
            {"if ", condition(), "; then\n", list(depth), "\nelif ", condition(), "; then\n", list(depth), "\nfi"});
      case 10:
        return joined({"case $", name(), " in\n1|2) ", list(depth), one({";;", ";;", ";&", ";;&"}), "\n",
                       one({"4", "[48]", "$B", "'8'", "*"}), ") ", list(depth), ";;\nesac"});
      case 11:
        return "for i in 1 2; do " + list(depth) + "\ndone";
      case 12:
        return "while false; do " + list(depth) + "\ndone";
      case 13:
      case 14:
        return functions_ < 3 ? function(depth) : call();
      case 15:
        return call();
      case 16:
      case 17:
      case 18:
        return declaration();
      case 19:
      case 20:
      case 21:
        return odd_command();
      case 22:
        return in_function_ ? joined({condition(), " && return ", number()}) : assignment();
      case 23:
        return joined({"( ", list(depth), "\nexit ", number(), "\n)", one({" && ", " || "}), assignment()});
      default:
        return assignment();
    }
  }

  std::mt19937_64 random_;
  std::size_t functions_ = 0;
  bool in_function_ = false;
  bool is_calm_ = false;
};

}  // namespace tidemark::testing
