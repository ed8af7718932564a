"""One process of one cell of the matrix: trained without a plan, then again by one. Prints what came of it as JSON.

    python cell.py ENGINE TASK MODE PERCENT [RANK WORLD STORE]
"""

import gc
import json
import pathlib
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import conftest  # noqa: F401  one thread of PyTorch, and Tidemark's allocator

# ruff: isort: split
import tidemark
import torch
from jobs import JOBS, PROCESSES, RUNS, link
from tidemark import InfeasibleError, TidemarkError

FIRST, STEPS = 2, 6  # the step that is recorded, behind the optimizer's first; steps in all


class EngineError(Exception):
    """The engine does not do this without Tidemark either."""


def main():
    warnings.simplefilter("default")
    engine, task, mode, percent = sys.argv[1:5]
    rank, world = 0, 1
    if engine in PROCESSES:
        import torch.distributed as dist

        rank, world, store = int(sys.argv[5]), int(sys.argv[6]), sys.argv[7]
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    try:
        found = tried(engine, task, mode, int(percent), rank, world)
    except EngineError as error:
        found = {"failed": str(error)}
    except TidemarkError as error:
        if "\n" in str(error):
            raise
        found = {"refused": f"Tidemark: {error}"}
    print("\n" + json.dumps(found))
    if engine in PROCESSES:
        dist.destroy_process_group()


def tried(engine, task, mode, percent, rank, world):
    way = _run if engine in RUNS else _job
    return way((RUNS | JOBS)[engine], task, mode, percent, rank, world)


def made(kind, task, mode, rank, world):
    torch.manual_seed(0)
    job = kind(task, mode, rank, world)
    torch.manual_seed(rank)
    return job


def _unplanned(train):
    """What the engine makes of the task without Tidemark."""
    try:
        return train()
    except Exception as error:  # noqa: BLE001  whatever it is, it is the engine's
        raise EngineError(f"the engine: {type(error).__name__}: {' '.join(str(error).split())[:160]}") from error


def _run(kind, task, mode, percent, rank, world):
    with tempfile.TemporaryDirectory() as folder:

        def learnt(budget):
            return made(kind, task, mode, rank, world).learnt(budget, folder)

        plain, _ = _unplanned(lambda: learnt(None))
        gc.collect()
        seen, session, percent = _smallest(percent, learnt)
        return _figures(seen == plain, session, percent)


def _smallest(percent, train):
    """Of `train(budget)`, at the share of what is needed or, where that does not fit, at the smallest that does."""
    try:
        return *train(f"{percent}%"), percent
    except InfeasibleError as error:
        if not error.smallest_bytes:
            raise
        budget = error.smallest_bytes
    gc.collect()
    return *train(budget), None


def _job(kind, task, mode, percent, rank, world):
    def train():
        job = made(kind, task, mode, rank, world)
        return [job.step(n) for n in range(STEPS)]

    plain = _unplanned(train)
    gc.collect()
    job = made(kind, task, mode, rank, world)
    seen = [job.step(n) for n in range(FIRST)]
    begun = FIRST
    if hasattr(job, "fit"):
        session, percent = _fitted(job, percent)
    else:
        with tidemark.record(job.model, host_link=link()) as recording:
            seen.append(job.step(begun))
        begun += 1
        session, percent = _smallest(percent, lambda budget: (tidemark.session(recording.plan(budget), job.model),))
    with session:
        seen += [job.step(n) for n in range(begun, STEPS)]
    return _figures(seen == plain, session, percent)


def _fitted(job, percent):
    return _smallest(percent, lambda budget: (job.fit(budget),))


def _figures(is_alike, session, percent):
    report, done = session.report(), session.counters
    return {
        "alike": is_alike,
        "percent": percent,
        "predicted": report.predicted_peak_bytes,
        "measured": report.measured_peak_bytes,
        "keep_all": session.plan.graph.keep_all_peak_bytes(),
        "budget": report.budget_bytes,
        "reserved": report.measured_reserved_bytes,
        "acted": done.recomputed + done.swapped,
        "off_plan": done.off_plan,
        "paths": session.paths,
    }


if __name__ == "__main__":
    main()
