"""Steps that are planned by one build of the package and trained by another: scripts/test_pytorch_sanitized.

    python planned_steps.py plan FOLDER     plans the suite's models and saves the plans there
    python planned_steps.py train FOLDER    trains from these plans: bit for bit as without a session

A planner below a sanitizer takes minutes for what takes seconds; the session, its copies and its hooks do not.
"""

import contextlib
import pathlib
import sys
import threading

import conftest  # noqa: F401  one thread of PyTorch, and Tidemark's allocator
import tidemark
import torch
from models import MODELS
from random_plans import swapped
from training import gradients_in_flight, same, train

SEEDS = range(2)
RATES = [0, 10**8]  # bytes a second; 0: as memory is


def plan(folder):
    for name, build in MODELS.items():
        graph = tidemark.capture(*build(), measured=True)
        for seed in SEEDS:
            swapped(graph, seed).save(folder / f"{name}.{seed}.plan.json")


def gradients_behind(build, context):
    """Backward after the session has ended, and in a thread of its own."""
    model, inputs, loss_fn = build
    torch.manual_seed(3)
    with context:
        loss = loss_fn(model(*inputs))
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return [p.grad for p in model.parameters() if p.grad is not None]


def trains_alike(build, path, rate):
    """The name of the first way of training that differs, or nothing."""

    def context(model):
        return tidemark.session(str(path), model, copy_bytes_per_s=rate)

    def fresh(way, is_planned):
        built = build()
        return way(built, context(built[0]) if is_planned else contextlib.nullcontext())

    ways = {
        "steps, with evaluation": lambda planned: train(build, context if planned else None, evaluate=True),
        "micro-batches": lambda planned: train(build, context if planned else None, micro_batches=2),
        "micro-batches in flight": lambda planned: fresh(gradients_in_flight, planned),
        "backward behind the session": lambda planned: fresh(gradients_behind, planned),
    }
    return next((name for name, way in ways.items() if not same(way(True), way(False))), None)


def main():
    verb, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if verb == "plan":
        return plan(folder)
    trained = 0
    for name, build in MODELS.items():
        for seed in SEEDS:
            wrong = trains_alike(build, folder / f"{name}.{seed}.plan.json", RATES[seed])
            if wrong:
                sys.exit(f"{name}, plan {seed}: {wrong} differ from training without a session")
            trained += 1
    print(f"{trained} plans trained in four ways each, bit for bit as without a session")


if __name__ == "__main__":
    main()
