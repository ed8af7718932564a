// Scripts that a shell takes otherwise than they look are never sure; those that people write are none of them.

#include "integrations/formats/shell_unusual.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/shell_parser.h"
#include "integrations/formats/shell_script.h"

namespace tidemark::formats {
namespace {

std::vector<ShellUnusual> unusual_in(std::string_view script) {
  std::vector<ShellUnusual> found = unusual_text(script);
  const ShellTree tree = parse_shell(script);
  for (ShellUnusual& one : unusual_commands(script, tree)) found.push_back(std::move(one));
  return found;
}

class Unusual : public ::testing::TestWithParam<const char*> {};

/// Each sets M, or starts a training, where the follower would not see it.
TEST_P(Unusual, IsNeverSure) {
  const std::string script =
      std::string("M=1\n") + GetParam() + "\ntorchrun pretrain_gpt.py --num-layers 2 --micro-batch-size 1\n";
  const std::vector<ShellUnusual> found = unusual_in(script);
  ASSERT_FALSE(found.empty()) << script;
  EXPECT_LT(found.front().at, script.size());
  EXPECT_FALSE(found.front().what.empty());
  const Result<ShellScript> read = read_shell_script(script, "run.sh");
  if (read) {
    EXPECT_FALSE(read.value().unread.empty()) << script;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, Unusual,
    ::testing::Values(
        "MB\\\nS=8", "true\r && M=8", "cat <<$'E'\nM=8\nE\n", "cat <<E\nfoo\\\nE\nM=8\nE\n",  // text

        "declare -F foo && M=8", "declare -p M || M=8", "export a-b=1 && M=8", "declare -A A && M=8",
        "unset -v 1x && M=8", "declare -n r=M",  // declarations
        "if true; then set -- 8; fi", "for i in 1; do set -- 8; done", "shift $(echo 1)", "if true; then shift; fi",
        "eval set -- 8", "set -- -m 8; while getopts m: o; do M=8; done", "while getopts m: o -m 8; do M=8; done",
        "f() { M=$2; }; f $@",                        // own arguments
        "M=8 $UNSET", "exec \"$@\"", "Y=\"${X%'}\"",  // words
        "UID=1000; M=8", "PS4='${X:=8}'", "FUNCNEST=1", "export UID=0", "[[ 8 =~ 8 ]]; M=${BASH_REMATCH:-1}",
        "trap 'M=8' USR1", "trap 'M=8' Debug", "trap 'M=8' CHLD", "exit_handler() { M=8; }; trap exit_handler ERR",
        "f() { torchrun a.py --num-layers 3; }; trap f EXIT", "C=x; run() { $C; }; trap run EXIT",
        "trap \"$C\" EXIT",  // traps
        "eval set 'x; M=8'", "E='M=8'; eval \"$E\"", "X='M=8'; (( $X ))", "Y='M=8'; [[ Y -eq 8 ]]",
        "[[ $RANDOM -ge M=8 ]]", "A=([M=8]=x)", "[ -v 'A[M=8]' ]", "let $X", "read -pd M <<< 8", "read 'A[M=8]'",
        "printf -vM 8", "printf \"-v\" M 8", "printf -v 'A[M=8]' x", "mapfile -C cb -c 1", "compgen -F f",
        "E=$'a\\r'; [ $E = a ] && M=8", "printf M=8 > activate; . ./activate",
        "(: $UNSET ${X?}) || M=8",  // what computes and reads
        "echo 8 | xargs torchrun pretrain_gpt.py --num-layers 2 --micro-batch-size",
        "find . -exec torchrun pretrain_gpt.py {} \\;", "bash <<E\ntorchrun x.py --num-layers 8\nE\n",
        "cat > go.sh <<E\ntorchrun x.py --num-layers 8\nE\nbash go.sh", "python -m pretrain_gpt --num-layers 8",
        "f() { torchrun x.py --num-layers 8; }; X=$(f)", "f() { torchrun x.py --num-layers 8; }; bash -c f",
        "X=$(torchrun x.py --num-layers 8)", "cat <(python x.py --num-layers 8)",
        "command_not_found_handle() { M=8; }; nothing"));

class Usual : public ::testing::TestWithParam<const char*> {};

TEST_P(Usual, MayBeSure) {
  for (const ShellUnusual& one : unusual_in(GetParam()))
    ADD_FAILURE() << one.at << ": " << one.what << "\n" << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    Each, Usual,
    ::testing::Values(
        "#!/bin/bash\nset -euo pipefail\ncd \"$(dirname \"$0\")\"\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n",
        "while [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --mbs) MBS=$2; shift 2 ;;\n    *) shift ;;\n  esac\ndone\n",
        "MBS=${1:-1}\nGBS=${2:-${GLOBAL_BATCH:-64}}\nDIR=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n",
        "if [ -z \"$TP\" ]; then TP=8; fi\n[[ $TP -gt 1 ]] && SP=\"--sequence-parallel\"\n",
        "ARGS=(\n  --num-layers 12 \\\n  --bf16\n)\ntorchrun \"${DIST[@]}\" pretrain.py \"${ARGS[@]}\" 2>&1 | tee "
        "logs/x.log\n",
        "mkdir -p logs 2>/dev/null || true\necho start > logs/start\nsource /usr/local/Ascend/set_env.sh\n",
        "trap 'kill $PID' EXIT INT TERM\ncleanup() { rm -f x; }\ntrap cleanup EXIT\n",
        "eval \"$(conda shell.bash hook)\"\nN=$(nvidia-smi -L | wc -l)\nWORLD=$((N * NODES))\n",
        "cat > hosts <<EOF\nhost1 slots=8\nEOF\nnohup python pretrain.py --num-layers 2 > log.txt 2>&1 &\nwait\n",
        "for i in 1 2; do sleep 1; done\nread -r A B <<< \"x y\"\nread -p \"go? \" -n 1 ANSWER\n",
        "launch() {\n  local mbs=$1\n  torchrun pretrain.py --micro-batch-size $mbs\n}\nlaunch 2\n",
        "CUDA_VISIBLE_DEVICES=0 $LAUNCHER pretrain.py --num-layers 2\nexec torchrun pretrain.py \"$@\"\n",
        "LINE=\"${X:-a}\"\r\nB=2\r\ntorchrun x.py --num-layers $B\r\n"));

}  // namespace
}  // namespace tidemark::formats
