"""Breaks plans of random captured steps and asks two verifiers that share no code: core/verify (verify_plans) and the
judge (judge_plan.py). They must agree on every mutant, but for one reason: where residencies or copies have other names and
the same bytes move as before, the judge, who follows bytes, finds the plan unchanged.

  captured_mutants_test.py --tidemark PROGRAM --verifier PROGRAM [--count N] [--seed S]

Without --count (or TIDEMARK_MUTANTS) COUNT_IN_SUITE mutants.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

from judge_plan import judge, ranks_of
from mutants_test import Runner, Tally, mutants
from mutate_plan import CAPTURED_KINDS

UNIT = 512
COUNT_IN_SUITE = 500
STEPS = 10  # half of them with a link
TIGHTNESS = (10, 35, 60)  # per cent of the way from the least that is known to be needed to keeping all
LINK = {"out_bytes_per_second": 16e9, "in_bytes_per_second": 16e9, "latency_ns": 20}


class CapturedTally(Tally):
    COLUMNS = ("mutants", "wrong", "verifier", "reader", "missed", "harmless", "harmless, refused", "copy renamed")


class StepWriter:
    """A training step of a few layers: weights that the optimizer changes in place, activations read on the way back."""

    def __init__(self, seed, has_link):
        self.random, self.has_link = random.Random(seed), has_link
        self.storages, self.ops = [], []

    def storage(self, name, **more):
        row = {"name": name, "bytes": UNIT * self.random.randint(1, 12), **more}
        if not self.has_link and not more.get("until_end") and self.random.random() < 0.6:
            row.update(page_out_cost=self.random.randint(1, 60), page_in_cost=self.random.randint(1, 60))
        self.storages.append(row)
        return len(self.storages) - 1

    def op(self, name, reads, writes, **more):
        if self.random.random() < 0.3:
            more["transient_bytes"] = UNIT * self.random.randint(1, 4)
        if "recompute" not in more:
            more["recompute"] = self.random.choices(("pure", "random", "collective", "routing", "never"), (12, 3, 2, 1, 1))[0]
        if self.random.random() < 0.15:
            more["told"] = False
        self.ops.append({"name": name, "cost": self.random.randint(20, 400), "reads": reads, "writes": writes, **more})

    def write(self):
        draw, layers = self.random.random, self.random.randint(3, 6)
        weights = [self.storage(f"weight{i}", until_end=True, swappable=self.has_link and draw() < 0.5) for i in range(layers)]
        inputs = self.storage("input")
        if draw() < 0.5:
            self.storage("untouched", until_end=True, swappable=False)
        outputs = []
        for i in range(layers):
            before = outputs[-1] if outputs else inputs
            extra = [self.random.choice(outputs)] if outputs and draw() < 0.3 else []
            outputs.append(self.storage(f"out{i}", until_end=draw() < 0.1))
            self.op(f"f{i}", [before, weights[i], *extra], [outputs[i]])
        gradient, sums = self.storage("loss"), []
        self.op("loss", [outputs[-1]], [gradient])
        for i in reversed(range(layers)):
            before = outputs[i - 1] if i else inputs
            sums.append(self.storage(f"sum{i}"))
            self.op(f"w{i}", [before, gradient], [sums[-1]], phase="backward")
            if draw() < 0.4:  # accumulated in place
                self.op(f"a{i}", [gradient, sums[-1]], [sums[-1]], phase="backward")
            now = self.storage(f"grad{i}")
            self.op(f"b{i}", [gradient, weights[i], outputs[i]], [now], phase="backward")
            gradient = now
        for weight, total in zip(reversed(weights), sums):
            self.op("update", [weight, total], [weight], phase="optimizer")
        for storage in self.random.sample(self.storages, 3):
            storage["pinned_until"] = self.random.randrange(len(self.ops))
        step = {"tidemark_graph": 1, "cost_unit": "ns", "storages": self.storages, "ops": self.ops}
        return {**step, "link": LINK} if self.has_link else step


def plan(program, folder, step, budget, more):
    path, out = os.path.join(folder, "step.json"), os.path.join(folder, "plan.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(step, file)
    done = subprocess.run([program, "plan", "--graph", path, "--budget", f"{budget}B", "--out", out, "--format", "json",
                           "--group-recompute", "--effort", "0.05", *more], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{path}, {budget} B: {done.stderr}")
    with open(out, encoding="utf-8") as file:
        return json.loads(done.stdout), json.load(file)


def make_plans(program, folder, seed):
    for number in range(STEPS):
        has_link = number % 2 == 1
        step = StepWriter(seed * 1000 + number, has_link).write()
        policy = ["--policy", "greedy"] if number % 4 == 2 else []
        captured = plan(program, folder, step, 1 << 40, policy)[0]["captured"]
        least, most = captured["lower_bound_bytes"], captured["keep_all_peak_bytes"]
        for percent in TIGHTNESS:
            answer, made = plan(program, folder, step, least + (most - least) * percent // 100, policy)
            if answer["fits"]:
                yield f"step {number}{' with a link' if has_link else ''}, {percent} %", made
                break


def check_sound(plans, verifier):
    """Verifiers that find fault with sound plans would prove nothing, and so would plans that keep everything."""
    kinds = collections.Counter()
    for name, sound in plans:
        answer, wrong = verifier.carry_out(sound), judge(ranks_of(sound))
        if answer or wrong:
            raise SystemExit(f"plan of {name} is sound, but: core/verify: {answer}; judge: {wrong}")
        kinds.update(task.kind for rank in ranks_of(sound) for task in rank.tasks)
    print(f"{len(plans)} plans: {kinds[0]} ops, {kinds[1]} recomputes, {kinds[2]} swaps out, {kinds[3]} swaps in")
    return len(plans) >= STEPS // 2 and min(kinds[1], kinds[2], kinds[3]) >= len(plans)


def is_telling(tally, count):
    """Most mutants are wrong, some are not, and where there are many, every kind has shown what it breaks."""
    every = count < COUNT_IN_SUITE or all(tally.rows[kind]["wrong"] for kind in CAPTURED_KINDS)
    return every and tally.total("wrong") * 2 >= count and tally.total("harmless") > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--verifier", required=True)
    parser.add_argument("--count", type=int, default=int(os.environ.get("TIDEMARK_MUTANTS", COUNT_IN_SUITE)))
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plans = list(make_plans(arguments.tidemark, folder, arguments.seed))
        verifier, tally, misses, false_alarms = Runner(arguments.verifier, folder), CapturedTally(), 0, 0
        telling = check_sound(plans, verifier)
        for name, kind, done, wrong, renamed, mutant in mutants(plans, arguments.count, arguments.seed, CAPTURED_KINDS):
            answer = verifier.carry_out(mutant)
            found = "verifier" if "broken" in answer else "reader" if answer else None
            tally.add(kind, wrong, found, renamed)
            if wrong and not found:
                misses += 1
                print(f"missed: {name}, {kind}, {done}: {wrong}")
            elif found and not wrong and not renamed:
                false_alarms += 1
                print(f"false alarm: {name}, {kind}, {done}: {answer}")
        ended = verifier.close()
    tally.show()
    print(f"{misses} of {tally.total('wrong')} wrong mutants missed; {tally.total('harmless, refused')} of {tally.total('harmless')} "
          f"harmless ones refused, {tally.total('copy renamed')} of them since the same bytes have other names")
    if misses or false_alarms or ended or not (telling and is_telling(tally, arguments.count)):
        print(f"FAILED: {misses} misses, {false_alarms} false alarms, {tally.total('wrong')} wrong of {arguments.count}, "
              f"verify_plans ended with {ended}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
