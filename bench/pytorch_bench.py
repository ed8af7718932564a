"""One decoder, one budget, several ways to stay within it: peak and step time of each, in one run on the CPU.

    .cache/pytorch-*/bin/python bench/pytorch_bench.py [--rounds N] [--steps N]

Every way is measured in the same process on Tidemark's CPU allocator: the peak is the largest sum of live blocks in a
step, the time is processor time of the process and its threads (the machine may be shared), the best step of N rounds
taken in turn. Ours is planned for the measured peaks of the others. Exit 1 where the losses are not all the same.

PyTorch's ways and where they do not apply here:
- activation_memory_budget is an option of torch.compile's partitioner: it needs a compiled joint graph, which data-
  dependent routing breaks into pieces, and a C++ compiler at run time for the CPU. Here the eager form is measured, a
  selective checkpoint policy that keeps matrix products.
- save_on_cpu copies to the CPU, where the tensors are already: on the CPU it keeps everything. Shown for its time.
"""

import argparse
import contextlib
import functools
import gc
import pathlib
import sys
import time

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

import model as example  # noqa: E402
import tidemark  # noqa: E402
from tidemark import allocator  # noqa: E402

CONFIG = example.Config(hidden=256, layers=4, heads=8, kv_rank=96, query_rank=128, dense_hidden=512)
BATCH, LENGTH = 16, 128
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default)


def keep_products(_context, func, *_args, **_kwargs):
    return CheckpointPolicy.MUST_SAVE if func in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_layers(model, **options):
    for layer in [*model.layers, model.second_layer]:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False, **options)


def selective():
    return create_selective_checkpoint_contexts(keep_products)


WAYS = {
    "nothing": lambda model: contextlib.nullcontext(),
    "full checkpointing": lambda model: checkpoint_layers(model) or contextlib.nullcontext(),
    "selective checkpointing": lambda model: checkpoint_layers(model, context_fn=selective) or contextlib.nullcontext(),
    "save_on_cpu": lambda model: torch.autograd.graph.save_on_cpu(),
}


class Run:
    """A model on its way through training; step() may be called in turn with those of others."""

    def __init__(self, way):
        torch.manual_seed(0)
        self.model = example.Decoder(CONFIG)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens = torch.randint(0, CONFIG.vocabulary, (BATCH, LENGTH))
        self.context = way(self.model)

    def step(self):
        loss = example.loss_of(self.model(self.tokens), self.tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def measure(way, steps):
    """(peak bytes, processor seconds of the best step, losses), first step left out."""
    gc.collect()
    before = allocator.statistics().allocated_bytes
    run, seconds, losses = Run(way), [], []
    with run.context:
        losses.append(run.step())
        allocator.reset_peaks()
        for _ in range(steps):
            begin = time.process_time()
            losses.append(run.step())
            seconds.append(time.process_time() - begin)
    return allocator.statistics().allocated_peak_bytes - before, min(seconds), losses


def capture():
    run = Run(WAYS["nothing"])
    return tidemark.capture(
        run.model,
        (run.tokens,),
        lambda out: example.loss_of(out, run.tokens),
        optimizer=run.optimizer,
        bounds=example.routed_rows(CONFIG, BATCH, LENGTH),
        measured=True,
    )


def plan_for(graph, peak_bytes):
    """A plan whose blocks sum up to so much at most: the allocator's own share comes on top."""
    budget = tidemark.planning._with_share(peak_bytes)
    plan = tidemark.plan(graph, budget)
    plan.budget_bytes = 0  # as the others: measured, not limited
    return plan


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    allocator.install()
    graph = capture()
    found = {}

    def note(name, way):
        peak, seconds, losses = measure(way, arguments.steps)
        known = found.get(name)
        found[name] = (peak, min(seconds, known[1]) if known else seconds, losses)

    for name, way in WAYS.items():
        note(name, way)
    ours = {}
    for name in ("nothing", "selective checkpointing", "full checkpointing"):
        peak = found[name][0] if name != "nothing" else graph.keep_all_peak_bytes()
        plan = plan_for(graph, peak)
        planned = f"{plan.added_cost_percent:.1f} % more kernel time planned"
        ours[f"tidemark, peak of {name} ({planned})"] = lambda model, plan=plan: tidemark.session(plan, model)
    for round_ in range(arguments.rounds):
        for name, way in {**WAYS, **ours}.items():
            note(name, way)

    reference = found["nothing"]
    print("| | peak MiB | step ms | against nothing | losses |\n|---|---|---|---|---|")
    for name, (peak, seconds, losses) in found.items():
        same = "equal" if losses == reference[2] else "DIFFERENT"
        extra = 100 * (seconds / reference[1] - 1)
        print(f"| {name} | {peak / 2**20:.1f} | {1e3 * seconds:.1f} | {extra:+.1f} % | {same} |")
    return 0 if all(losses == reference[2] for _, _, losses in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
