"""What a session costs beside the kernels that it runs again: of a step, and of a kernel.

    .cache/pytorch-*/bin/python bench/pytorch_overhead.py [--rounds N] [--steps N] [--compiled] [--cuda] [--tiny]

A decoder with dense layers on Tidemark's CPU allocator, one thread, at two sizes: one whose kernels do work, and one of
layers so small that kernels cost next to nothing, so that what is done at every kernel is seen. In every round each way
takes a few steps; what is shown is the median over the rounds of a way's step against the step with nothing of the same
round, in processor time, since the machine may be shared.

- a watch that does nothing: PyTorch's boxed dispatch, which whatever looks at every kernel pays.
- keeps everything: a plan at a budget where nothing is to be saved; its session serves addresses.
- saves least: the plan at the largest budget found that recomputes something. The session is active, and what it runs
  again is next to nothing; what that costs, measured when it was captured, is taken off.

The least over the rounds is shown as well, which other load disturbs least. With --compiled every layer is compiled by
torch.compile, without a session too; the step is recorded, so that regions are planned as they run, where PyTorch has them
run compiled then. With --cuda the larger size is a GPU's and time is the clock, until the GPU is done. --tiny: a dry run of
the small size.

A kernel is one of forward: backward and the optimizer are not watched.
"""

import argparse
import contextlib
import dataclasses
import gc
import pathlib
import statistics
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "integrations" / "pytorch" / "examples" / "mla_moe"))

import model as example  # noqa: E402
import tidemark  # noqa: E402
from bench_device import BenchDevice  # noqa: E402
from tidemark import kernels, library, torch_internals  # noqa: E402
from tidemark.engine import make_steps  # noqa: E402
from tidemark.planning import plan_of, solve  # noqa: E402

LARGE = example.Config(hidden=256, layers=4, heads=8, kv_rank=96, query_rank=128, dense_hidden=512)
SMALL = example.Config(hidden=16, layers=4, heads=2, head=8, rope=4, kv_rank=8, query_rank=8, dense_hidden=32)
OF_GPU = example.Config(hidden=1024, layers=8, heads=16, head=64, rope=32, kv_rank=512, query_rank=768, dense_hidden=4096)
SMALL_SIZE = {"layers of 16, 1 x 64 tokens": (SMALL, (1, 64))}
SIZES = {"layers of 256, 16 x 128 tokens": (LARGE, (16, 128)), **SMALL_SIZE}
SIZES_OF_GPU = {"layers of 1024, 8 x 1024 tokens": (OF_GPU, (8, 1024)), **SMALL_SIZE}


@contextlib.contextmanager
def idle_watch(plan):
    """An engine that has ended sees every kernel and passes it on."""
    steps = make_steps(plan, torch.device(plan.graph.device), 0, 0, "")
    engine = library.engine().SessionEngine([], steps, kernels.traits, None, library.engine().Counters())
    engine.close()
    engine.push()
    try:
        yield
    finally:
        engine.pop()


def least_saving(graph):
    """The plan that recomputes something at the largest budget that was found, by bisection; no memory is limited."""
    text = graph.to_json()
    low, high, found = graph.keep_all_peak_bytes() // 2, graph.keep_all_peak_bytes(), None
    for _ in range(10):
        middle = (low + high) // 2
        answer, file = solve(text, middle, effort_percent=10)
        plan = plan_of(graph, 0, answer, file) if answer["fits"] else None
        if plan is None or not plan.keeps_all:
            low, found = middle, plan or found
        else:
            high = middle
    if found is None:
        raise SystemExit("no plan saves anything; take a larger step")
    return found


def recomputed_ns(plan):
    seen, cost = set(), 0
    for i in plan.schedule:
        cost += plan.graph.ops[i].cost if i in seen else 0
        seen.add(i)
    return cost


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    context: object
    recomputed_ns: int = 0
    seconds: list = dataclasses.field(default_factory=list)  # a step, by round


def ways_of(graph, model, is_compiled):
    keeps = tidemark.plan(graph, 4 * graph.keep_all_peak_bytes() + 2**30)
    ways = [Way("nothing", contextlib.nullcontext)]
    if not is_compiled:
        ways.append(Way("a watch that does nothing", lambda: idle_watch(keeps)))
    ways.append(Way("keeps everything", lambda: tidemark.session(keeps, model)))
    if not is_compiled:
        saves = least_saving(graph)
        name = f"saves least: {len(saves.schedule) - len(graph.ops)} run again"
        ways.append(Way(name, lambda: tidemark.session(saves, model), recomputed_ns(saves)))
    return ways


def bench(device, config, size, rounds, steps, is_compiled):
    torch.manual_seed(0)
    tokens = torch.randint(0, config.vocabulary, size)
    model = example.Decoder(dataclasses.replace(config, first_dense=config.layers))
    model.second_layer = example.Layer(config, dense=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        example.loss_of(model(tokens), tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    if is_compiled:
        for layer in model.modules():
            if isinstance(layer, example.Layer):
                layer.compile()
    step()  # makes the optimizer's state, and compiles
    how = {"recorded": True} if is_compiled else {"measured": True}
    graph = tidemark.capture(
        model, (tokens,), lambda out: example.loss_of(out, tokens), optimizer=optimizer, holds_output=False, **how
    )
    ways = ways_of(graph, model, is_compiled)
    for i in range(rounds):
        for way in ways if i % 2 == 0 else reversed(ways):
            gc.collect()
            with way.context():
                step()
                begin = device.now()
                for _ in range(steps):
                    step()
                way.seconds.append((device.now() - begin) / steps)
    regions = sum(op.name.startswith("tidemark.region") for op in graph.ops)
    watched = sum(len(op.calls) for op in graph.ops if op.phase == "forward")
    of_regions = f", {regions} compiled regions among them" if is_compiled else ""
    print(f"\n{watched} kernels of forward, {sum(len(op.calls) for op in graph.ops)} in all{of_regions}\n")
    show(ways, watched)


def show(ways, watched):
    plain = ways[0].seconds
    print("| | step ms | against nothing | least ms | against nothing | more, us a kernel of forward |\n|---|--:|--:|--:|--:|--:|")
    for way in ways:
        more = statistics.median(b - a for a, b in zip(plain, way.seconds, strict=True)) - way.recomputed_ns / 1e9
        least = (min(way.seconds) - way.recomputed_ns / 1e9) / min(plain) - 1
        shares = f"{100 * more / statistics.median(plain):+.2f} %", f"{100 * least:+.2f} %", f"{1e6 * more / watched:.2f}"
        of_median, of_least, each = shares if way is not ways[0] else ("", "", "")
        times = f"{1e3 * statistics.median(way.seconds):.2f} | {of_median} | {1e3 * min(way.seconds):.2f}"
        print(f"| {way.name} | {times} | {of_least} | {each} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3, help="of the large size in a round; of the small one 20 times that")
    parser.add_argument("--compiled", action="store_true", help="layers are compiled by torch.compile")
    parser.add_argument("--cuda", action="store_true", help="on the current GPU")
    parser.add_argument("--tiny", action="store_true", help="the small size alone, its steps not 20 times as many")
    arguments = parser.parse_args()
    device = BenchDevice("cuda" if arguments.cuda else "cpu")
    print(device)
    if arguments.compiled and not torch_internals.runs_compiled_under_modes:
        print(f"PyTorch {torch.__version__} runs nothing compiled while a step is recorded: there is nothing to measure")
        return 0
    sizes = SMALL_SIZE if arguments.tiny else SIZES_OF_GPU if device.is_gpu else SIZES
    for name, (config, size) in sizes.items():
        print(f"\n{name}", end="")
        steps = arguments.steps * (20 if config is SMALL and not arguments.tiny else 1)
        bench(device, config, size, arguments.rounds, steps, arguments.compiled)
    return 0


if __name__ == "__main__":
    sys.exit(main())
