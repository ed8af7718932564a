"""Tidemark in a Megatron-LM job: training within a memory budget, by one argument more.

    torchrun ... -m tidemark_megatron pretrain_gpt.py ... --tidemark-budget 60GiB

The script runs as it is, without the arguments that are Tidemark's. train_step() of megatron.training.training is what a step
is, and train() around it how long a session lasts; the schedule of the pipeline is Megatron-Core's own.
"""

import argparse
import contextlib
import functools
import importlib
import logging
import os
import runpy
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

BUDGET, PLAN = "--tidemark-budget", "--tidemark-plan"
TRAINING = "megatron.training.training"
_WAITS = 20  # steps without one of the optimizer, before that is said
_TRIES = 3  # of recording a step that is like those that follow


def refuse(why, option=PLAN):
    """One line on stderr and exit status 2, as for any argument that is wrong."""
    print(f"{os.path.basename(sys.argv[0])}: error: {option}: {why}", file=sys.stderr)
    raise SystemExit(2)


def add_arguments(parser):
    group = parser.add_argument_group("tidemark")
    group.add_argument(
        BUDGET,
        metavar="SIZE",
        help="Train within this much device memory, as 60GiB, or a share of what the step needs, as 80%%: a step is recorded "
        "and planned.",
    )
    group.add_argument(
        PLAN,
        metavar="FILE",
        help="Train by this plan of Tidemark's; {rank} and {stage} in it are the process's rank and pipeline stage. With "
        f"{BUDGET} the plan is written there, where there is none yet.",
    )


# The plan's file


def path_of(file, rank):
    """The plan of this process: {rank} in `file` is its rank, and {stage} its stage of the pipeline."""
    path = file.replace("{rank}", str(rank))
    return path.replace("{stage}", str(_stage())) if "{stage}" in path else path


def _check_braces(file):
    left = file.replace("{rank}", "").replace("{stage}", "")
    if "{" in left or "}" in left:
        refuse(f"{file!r}: in braces there may be {{rank}} or {{stage}}, and nothing else")


def _stage():
    from megatron.core import parallel_state

    return parallel_state.get_pipeline_model_parallel_rank()


def check_plan(budget, file, rank):
    """Before training, where the plan's file has to be there, or to be written by one process alone."""
    import tidemark

    if file is None:
        return
    _check_braces(file)
    if budget is not None and "{rank}" not in file and _from_launcher("WORLD_SIZE", 1) > 1:
        refuse(f"{file!r}: each process plans for itself, and writes a file of its own; right would be {{rank}} in its name")
    if budget is not None or "{stage}" in file:  # which is known once training begins
        return
    path = path_of(file, rank)
    try:
        tidemark.Plan.load(path)
    except (OSError, tidemark.TidemarkError) as error:
        refuse(_reason(path, error))


def _from_launcher(name, default):
    """A number that torchrun, say, has put into the environment."""
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        refuse(f"{text!r} in the environment; right would be a number from 0, as torchrun sets it", name)
    return int(text)


def _reason(path, error):
    said = " ".join(str(error).split())
    return said if path in said else f"{path}: {said}"


# The model


def module_of(model):
    """What is planned of the process: its chunk of the model without what Megatron wraps around it, or a list of its chunks
    where a virtual pipeline has several."""
    chunks = [_inner(chunk) for chunk in (model if isinstance(model, (list, tuple)) else [model])]
    return chunks[0] if len(chunks) == 1 else torch.nn.ModuleList(chunks)


def _inner(module):
    while hasattr(module, "module"):  # DistributedDataParallel, Float16Module
        module = module.module
    return module


# Training


class Training:
    """Of one call of train(). By a plan's file it has a session from the start; by a budget the first step makes the
    optimizer's state, the second is recorded, and from the third on there is a session.

    `budget`, `plan`: as on the command line, or None. `rank`: of the process. `host_link`: as of tidemark.record().
    """

    def __init__(self, model, budget=None, plan=None, rank=0, host_link=None):
        self.session = None
        self._module = module_of(model)
        self._budget, self._path, self._host_link = budget, plan and path_of(plan, rank), host_link
        self._has_stepped = False
        self._waited = 0  # steps
        self._tries = _TRIES
        self._undo = contextlib.ExitStack()

    def __enter__(self):
        if self._path is not None and (self._budget is None or os.path.exists(self._path)):
            self._begin(self._path)
        return self

    def __exit__(self, *error):
        self._undo.close()
        if self.session is not None:
            logging.getLogger("tidemark").info("%s", self.session.report())

    def step(self, train_step):
        """What train_step() returns."""
        if self.session is not None or self._budget is None:
            return train_step()
        with _optimizer_steps() as steps:
            if not self._has_stepped:
                result = train_step()
                self._has_stepped = bool(steps)
                self._waited += 1
                if not self._has_stepped and self._waited == _WAITS:
                    logging.getLogger("tidemark").warning(
                        "%s waits for the first step of a torch.optim.Optimizer, and none has come in %d steps", BUDGET, _WAITS
                    )
                return result
            return self._record(train_step, steps)

    def _record(self, train_step, steps):
        """A step whose gradients overflow has no optimizer's step; another is recorded then."""
        import tidemark

        recording = tidemark.record(self._module, host_link=self._host_link)
        result = None
        try:
            with recording:
                result = train_step()
        except tidemark.CaptureError as error:  # behind the step
            self._tries -= 1
            if not self._tries:
                refuse(f"no step can be recorded: {error}", BUDGET)
        else:
            if steps:
                self._begin(self._planned(recording))
        return result

    def _planned(self, recording):
        import tidemark

        try:
            plan = recording.plan(self._budget)
            if self._path is not None:
                plan.save(self._path)
        except (OSError, tidemark.TidemarkError) as error:
            refuse(" ".join(str(error).split()), BUDGET)
        return plan

    def _begin(self, plan):
        import tidemark

        try:
            self.session = self._undo.enter_context(tidemark.session(plan, self._module))
        except (OSError, tidemark.TidemarkError) as error:
            refuse(_reason(plan, error) if isinstance(plan, str) else error)


@contextlib.contextmanager
def _optimizer_steps():
    """The optimizers that step inside, as often as they do."""
    steps = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: steps.append(optimizer))
    try:
        yield steps
    finally:
        handle.remove()


class Wrappers:
    """Of train() and train_step(). `make(model)`: the Training of a call of train(). The methods' names are MindSpeed's for what
    is put around a function."""

    def __init__(self, make):
        self._make = make
        self.training = None

    def train_wrapper(self, train):
        @functools.wraps(train)
        def wrapped(forward_step_func, model, *args, **kwargs):
            with self._make(model) as self.training:
                return train(forward_step_func, model, *args, **kwargs)

        return wrapped

    def train_step_wrapper(self, train_step):
        @functools.wraps(train_step)
        def wrapped(*args, **kwargs):
            return self.training.step(functools.partial(train_step, *args, **kwargs))

        return wrapped


@contextlib.contextmanager
def applied(make):
    """Inside, Megatron-LM trains so. See Wrappers."""
    module = importlib.import_module(TRAINING)
    wrappers = Wrappers(make)
    before = {name: getattr(module, name) for name in ("train", "train_step")}
    for name, function in before.items():
        setattr(module, name, getattr(wrappers, f"{name}_wrapper")(function))
    try:
        yield wrappers
    finally:
        for name, function in before.items():
            setattr(module, name, function)


# The launcher


def main(argv=None):
    parser = argparse.ArgumentParser("tidemark_megatron", allow_abbrev=False)
    parser.add_argument("script", help="as pretrain_gpt.py; it gets all other arguments")
    add_arguments(parser)
    options, others = parser.parse_known_args(argv)
    budget, plan = options.tidemark_budget, options.tidemark_plan
    if budget is None and plan is None:
        parser.error(f"give {BUDGET} SIZE or {PLAN} FILE; without either the script runs by itself")
    rank = _from_launcher("RANK", 0)
    check_plan(budget, plan, rank)
    _serve()
    sys.argv = [options.script, *others]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    with applied(lambda model: Training(model, budget, plan, rank)):
        runpy.run_path(options.script, run_name="__main__")


def _serve():
    """Before the device is first used."""
    import tidemark

    if torch.cuda.is_available():
        torch.cuda.memory.change_current_allocator(tidemark.allocator.cuda())
    else:
        tidemark.allocator.install()


if __name__ == "__main__":
    main()
