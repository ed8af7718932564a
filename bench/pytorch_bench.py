"""One decoder, one budget, several ways to keep to it: peak and step time of each, in one run.

    .cache/pytorch-*/bin/python bench/pytorch_bench.py [--rounds N] [--dense] [--cuda]

Every way is measured in the same process on Tidemark's allocator. The peak is the largest sum of live blocks in a step.
On the CPU time is processor time of the process and its threads, with --cuda what passes until the GPU is done; all ways
take one step in turn, round by round, and what is compared is the median over the rounds of a way's step against the
step with nothing of the same round, as the machine may be shared. Ours is planned for the measured peaks of the others,
with --cuda with copies to host memory beside recomputation. Exit 1 where eager losses are not all the same.

By default the decoder is the worked example with its mixtures of experts:
- activation_memory_budget is an option of torch.compile's partitioner, which divides one graph of forward and backward.
  Data-dependent routing leaves no such graph: see --dense. Here the eager form is measured, a selective checkpoint
  policy that keeps matrix products.
- save_on_cpu copies to the CPU, where the tensors are already: on the CPU it keeps everything. Shown for its time.

--dense: the same decoder with dense layers throughout, which torch.compile takes as one graph (inductor, which needs a
C++ compiler), against activation_memory_budget. Compiled kernels differ from eager ones and so do the last bits of
losses; ours runs the eager kernels.

At the peak of nothing the plan keeps everything: that row is the overhead of a session.
"""

import argparse
import contextlib
import dataclasses
import functools
import gc
import operator
import pathlib
import statistics
import sys
import time
import types

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

import model as example  # noqa: E402
import tidemark  # noqa: E402
from tidemark import allocator  # noqa: E402

ON_CUDA = "--cuda" in sys.argv
DEVICE = "cuda" if ON_CUDA else "cpu"
if ON_CUDA:  # kernels of milliseconds
    CONFIG = example.Config(1024, 1024, 8, 16, 64, 32, 768, 512, 8, 2, 1024, 1, 4096)
    BATCH, LENGTH = 8, 1024
else:
    CONFIG = example.Config(hidden=256, layers=4, heads=8, kv_rank=96, query_rank=128, dense_hidden=512)
    BATCH, LENGTH = 16, 128
DENSE_CONFIG = dataclasses.replace(CONFIG, first_dense=CONFIG.layers)
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default)


def keep_products(_context, func, *_args, **_kwargs):
    return CheckpointPolicy.MUST_SAVE if func in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_layers(model, **options):
    for layer in [*model.layers, model.second_layer]:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False, **options)
    return contextlib.nullcontext


def selective():
    return create_selective_checkpoint_contexts(keep_products)


def compiled(share):
    """torch.compile with this share of the activation memory that it would keep otherwise; read at the first step."""

    def way(model):
        torch._functorch.config.activation_memory_budget = share
        forward = type(model).forward
        code = forward.__code__.replace(co_name=f"forward_{share}")  # what is compiled is remembered by code
        own = types.FunctionType(code, forward.__globals__)
        model.forward = torch.compile(types.MethodType(own, model), fullgraph=True)
        return contextlib.nullcontext

    return way


# What to do to a model; returns what makes the context of a step.
WAYS = {
    "nothing": lambda model: contextlib.nullcontext,
    "full checkpointing": checkpoint_layers,
    "selective checkpointing": lambda model: checkpoint_layers(model, context_fn=selective),
    "save_on_cpu": lambda model: functools.partial(torch.autograd.graph.save_on_cpu, pin_memory=ON_CUDA),
}
COMPILED = {f"torch.compile, activation_memory_budget {share}": compiled(share) for share in (1.0, 0.5, 0.2)}
DENSE_WAYS = {"nothing": WAYS["nothing"], "full checkpointing": WAYS["full checkpointing"], **COMPILED}


def now():
    """Seconds, of what is done by then."""
    if not ON_CUDA:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


class Run:
    """A model on its way through training; step() may be called in turn with those of others."""

    dense = False

    def __init__(self, way):
        gc.collect()
        others = tidemark.memory_allocated(DEVICE)
        torch.manual_seed(0)
        self.model = example.Decoder(DENSE_CONFIG if self.dense else CONFIG)
        if self.dense:
            self.model.second_layer = example.Layer(CONFIG, dense=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens = torch.randint(0, CONFIG.vocabulary, (BATCH, LENGTH))
        self.context = way(self.model)
        self.losses, self.seconds = [], []
        self.step()
        self.step()
        self.peak_bytes = tidemark.max_memory_allocated(DEVICE) - others
        self.seconds.clear()

    def step(self):
        with self.context():
            tidemark.reset_peak_memory_stats(DEVICE)
            begin = now()
            loss = example.loss_of(self.model(self.tokens), self.tokens)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.losses.append(loss.item())
            del loss
            self.seconds.append(now() - begin)


def capture():
    run = Run(WAYS["nothing"])
    return tidemark.capture(
        run.model,
        (run.tokens,),
        lambda out: example.loss_of(out, run.tokens),
        optimizer=run.optimizer,
        bounds=example.routed_rows(CONFIG, BATCH, LENGTH),
        measured=True,
        holds_output=False,
    )


def plan_for(graph, peak_bytes):
    """A plan whose blocks sum up to so much at most: the allocator's own share comes on top. Where none is found, the
    one with the least that is known to do."""
    budget = tidemark.planning.with_share(peak_bytes)
    try:
        plan = tidemark.plan(graph, budget)
    except tidemark.InfeasibleError as error:
        plan = tidemark.plan(graph, error.smallest_bytes)
    plan.budget_bytes = 0  # as the others: measured, not limited
    return plan


def add_ours(runs, graph):
    everything = graph.keep_all_peak_bytes()
    for name, run in list(runs.items()):
        if name != "nothing" and run.peak_bytes > 0.99 * everything:
            continue  # as nothing
        plan = plan_for(graph, everything if name == "nothing" else run.peak_bytes)
        planned = f"{plan.added_cost_percent:.1f} % more kernel time planned, {len(plan.swaps)} swaps"
        label = f"Tidemark, peak of {name} ({planned})"
        runs[label] = Run(lambda model, plan=plan: lambda: tidemark.session(plan, model))


def show(runs):
    """Returns whether all losses of eager ways are the same."""
    nothing = runs["nothing"]
    print("| | peak MiB | best step ms | against nothing | losses |\n|---|---|---|---|---|")
    for name, run in runs.items():
        same = "equal" if run.losses == nothing.losses else "other kernels" if name in COMPILED else "DIFFERENT"
        extra = 100 * (statistics.median(map(operator.truediv, run.seconds, nothing.seconds)) - 1)
        print(f"| {name} | {run.peak_bytes / 2**20:.1f} | {1e3 * min(run.seconds):.0f} | {extra:+.1f} % | {same} |")
    return all(run.losses == nothing.losses for name, run in runs.items() if name not in COMPILED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--dense", action="store_true", help="without experts, against activation_memory_budget")
    parser.add_argument("--cuda", action="store_true", help="on the current GPU, with a larger decoder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if ON_CUDA:
        torch.cuda.memory.change_current_allocator(allocator.cuda())
        torch.set_default_device(DEVICE)
        torch.use_deterministic_algorithms(True)  # losses are compared
    else:
        allocator.install()
    Run.dense = arguments.dense
    graph = capture()
    runs = {name: Run(way) for name, way in (DENSE_WAYS if arguments.dense else WAYS).items()}
    add_ours(runs, graph)
    for _ in range(arguments.rounds):
        for run in runs.values():
            run.step()
    return 0 if show(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
