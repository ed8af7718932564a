"""Breaks plans, asks the judge which of them must go wrong, and has every one of those carried out with core/verify left
out (run_unverified): the race checker and the contents must find it. What the judge calls harmless must pass, but for one
reason: copies exchanged with others between the same addresses move the same bytes, so the judge, who follows bytes, finds
the plan unchanged; the run checks behind every copy for the storage that the copy is said to carry, and refuses.

  mutants_test.py --tidemark PROGRAM --runner PROGRAM [--count N] [--host] [--seed S] [--refused]

Without --count (or TIDEMARK_MUTANTS) COUNT_IN_SUITE mutants. --host carries each out on real memory, too; --refused
prints each that a run refuses for that reason.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

from judge_plan import SWAP_IN, SWAP_OUT, judge, ranks_of
from mutate_plan import KINDS, copy_of, program_of

GQA = "attention: {kind: gqa, heads: 8, kv_heads: 4, head_dim: 64}"
MLA = "attention: {kind: mla, heads: 8, q_lora_rank: 64, kv_lora_rank: 64, qk_rope_dim: 32, qk_nope_dim: 64, v_head_dim: 64}"
EXPERTS = "moe: {experts: 8, top_k: 2, width: 256, shared_width: 256}"

# Name, layers, lines of the model, parallel, policy, per cent of the activations of keep-all that the budget leaves.
PLANS = (
    ("keep", "{dense: 4}", (GQA,), "pipeline: 2, data: 2, micro_batch: 1, global_batch: 8", "keep-all", 100),
    ("dense", "{dense: 4}", (GQA,), "pipeline: 2, data: 2, micro_batch: 1, global_batch: 12", "optimal", 45),
    ("swap", "{dense: 6}", (GQA, "norm: sandwich"), "data: 2, micro_batch: 1, global_batch: 8", "published-recipe-attention-swap", 75),
    ("mla", "{dense: 1, moe: 3}", (MLA, EXPERTS), "pipeline: 2, expert: 2, data: 2, micro_batch: 1, global_batch: 8", "optimal", 50),
    ("greedy", "{moe: 4}", (GQA, EXPERTS), "tensor: 2, sequence_parallel: true, pipeline: 2, virtual_pipeline: 2, expert: 2, data: 2, "
     "micro_batch: 1, global_batch: 8, overlap_forward_backward: true", "greedy", 60),
    ("full", "{dense: 2, moe: 2}", (MLA, EXPERTS), "expert: 2, data: 2, micro_batch: 1, global_batch: 4", "full-recompute", 100),
    ("offload", "{dense: 6}", (GQA,), "pipeline: 2, data: 2, micro_batch: 1, global_batch: 8, distributed_optimizer: false", "optimal", -10),
)
COUNT_IN_SUITE = 800  # well within a minute of processor time


def job_text(layers, lines, parallel):
    model = ["name: small", "hidden: 512", "vocabulary: 4096", "sequence: 2048", f"layers: {layers}", "dense_width: 1024", *lines]
    return "model:\n" + "".join(f"  {line}\n" for line in model) + f"parallel: {{{parallel}}}\ndevice: ascend-910b-64g\n"


def tidemark(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def make_plan(program, folder, name, layers, lines, parallel, policy, percent):
    job, out = os.path.join(folder, name + ".yaml"), os.path.join(folder, name + ".json")
    with open(job, "w", encoding="utf-8") as file:
        file.write(job_text(layers, lines, parallel))
    kept = json.loads(tidemark(program, "plan", job, "--policy", "keep-all", "--format", "json"))["ranks"]
    budget = max(r["reserve_bytes"] + r["static_bytes"] + r["activation_peak_bytes"] * percent // 100 for r in kept)
    tidemark(program, "plan", job, "--policy", policy, "--budget", f"{budget}B", "--quiet", "--out", out)
    with open(out, encoding="utf-8") as file:
        return json.load(file)


class Runner:
    """run_unverified or verify_plans, asked for one plan after the other."""

    def __init__(self, program, folder, host=False):
        self.program, self.path = program, os.path.join(folder, "mutant.json")
        self.process = subprocess.Popen([program] + ["--host"] * host, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def carry_out(self, plan):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(plan, file)
        self.process.stdin.write(self.path + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.program} died of {self.path}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def found_by(answer):
    """What finds it: the first of these; None: nothing does."""
    if "refused" in answer:
        return "reader"
    if "failed" in answer:
        return "run ends"
    if answer["races"] > 0:
        return "races"
    if answer["mismatches"] > 0:
        return "contents"
    if answer.get("host_mismatches", 0) > 0 or "host_failed" in answer:
        return "host"
    return None


class Tally:
    COLUMNS = ("mutants", "wrong", "races", "contents", "run ends", "reader", "host", "missed", "harmless", "harmless, refused",
               "copy renamed")

    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)

    def add(self, kind, wrong, found, renamed):
        row = self.rows[kind]
        row["mutants"] += 1
        row["wrong" if wrong else "harmless"] += 1
        if wrong:
            row[found or "missed"] += 1
        elif found:
            row["harmless, refused"] += 1
            row["copy renamed"] += renamed

    def total(self, column):
        return sum(row[column] for row in self.rows.values())

    def show(self):
        print(f"{'':20}" + "".join(f"{c:>19}" if len(c) > 9 else f"{c:>10}" for c in self.COLUMNS))
        for kind, row in [*self.rows.items(), ("total", {c: self.total(c) for c in self.COLUMNS})]:
            print(f"{kind:20}" + "".join(f"{row[c]:>19}" if len(c) > 9 else f"{row[c]:>10}" for c in self.COLUMNS))


def moves_of(rank):
    """Per task what it waits for and the bytes it touches; of ops also what they are, which of copies is but a name."""
    def of(task):
        if task.kind in (SWAP_OUT, SWAP_IN):
            places = (rank.residencies[r] for r, _ in task.touches)
            return [(p.space, p.arena, p.offset, p.bytes, kind) for p, (_, kind) in zip(places, task.touches)]
        return task.op_template, task.site, task.op, task.touches, task.message
    return [(task.kind, task.lane, task.waits, of(task)) for task in rank.tasks]


def mutants(plans, count, seed, kinds_of=KINDS):
    """Plan's name, kind, what was done, the judge's word, whether copies have other names only, the plan as it is then."""
    source, kinds, made, tried = random.Random(seed), list(kinds_of), 0, 0
    while made < count and tried < 20 * count:
        name, plan = plans[tried // len(kinds) % len(plans)]
        kind = kinds[tried % len(kinds)]
        tried += 1
        ranks = ranks_of(plan)
        at = source.randrange(len(ranks))
        before, ranks[at] = ranks[at], copy_of(ranks[at])
        done = kinds_of[kind](ranks[at], source)
        if done is None:
            continue
        made += 1
        changed = dict(plan["ranks"][at], program=program_of(ranks[at], plan["ranks"][at]["program"]))
        broken = dict(plan, ranks=plan["ranks"][:at] + [changed] + plan["ranks"][at + 1:])
        renamed = moves_of(before) == moves_of(ranks[at])
        yield name, kind, f"rank {ranks[at].number}: {done}", judge(ranks, ranks[at]), renamed, broken


def is_telling(tally, count):
    """Most mutants are wrong, some are not, and where there are many, every kind has shown what it breaks."""
    every = count < COUNT_IN_SUITE or all(tally.rows[kind]["wrong"] for kind in KINDS)
    return every and tally.total("wrong") * 2 >= count and tally.total("harmless") > 0


def check_sound(plans, runner):
    """A judge or a run that finds fault with sound plans would prove nothing."""
    for name, plan in plans:
        wrong = judge(ranks_of(plan))
        answer = runner.carry_out(plan)
        if wrong or found_by(answer):
            raise SystemExit(f"plan {name} is sound, but: {wrong}; {answer}")
        kinds = collections.Counter(task.kind for rank in ranks_of(plan) for task in rank.tasks)
        print(f"plan {name}: {len(plan['ranks'])} ranks, {kinds[0]} ops, {kinds[1]} recomputes, {kinds[2]} swaps out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--count", type=int, default=int(os.environ.get("TIDEMARK_MUTANTS", COUNT_IN_SUITE)))
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--refused", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plans = [(row[0], make_plan(arguments.tidemark, folder, *row)) for row in PLANS]
        runner, tally, misses, false_alarms = Runner(arguments.runner, folder, arguments.host), Tally(), 0, 0
        check_sound(plans, runner)
        for name, kind, done, wrong, renamed, plan in mutants(plans, arguments.count, arguments.seed):
            answer = runner.carry_out(plan)
            found = found_by(answer)
            tally.add(kind, wrong, found, renamed)
            if wrong and not found:
                misses += 1
                print(f"missed: {name}, {kind}, {done}: {wrong}")
            elif found and not wrong:
                false_alarms += not renamed
                if arguments.refused or not renamed:
                    says = "harmless, refused" if renamed else "false alarm"
                    print(f"{says}: {name}, {kind}, {done}: {found}: {answer.get('first') or answer.get('refused')}")
        ended = runner.close()
    tally.show()
    print(f"{tally.total('missed')} of {tally.total('wrong')} wrong mutants missed; {tally.total('harmless, refused')} of "
          f"{tally.total('harmless')} harmless ones refused, {tally.total('copy renamed')} of them since a copy that moves the same "
          f"bytes has another's name, {false_alarms} without that reason (0 allowed)")
    if misses or false_alarms or ended or not is_telling(tally, arguments.count):
        print(f"FAILED: {misses} misses, {false_alarms} false alarms, {tally.total('wrong')} wrong of {arguments.count}, run_unverified ended with {ended}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
