"""A training step fitted to a budget in one call: captured, planned, and ready to run.

    with tidemark.fit(model, batch, loss, optimizer, "60%") as session:
        ...  # the training loop, as ever

The ways in of training frameworks (huggingface.py, lightning.py, accelerate.py) find out what their loop calls the model
with and what it makes of the output, and come here.

Thread rule: that of capture and of sessions: the thread that runs forward and backward.
"""

import inspect
from collections.abc import Mapping

import torch

from . import allocator, logs
from .budgets import budget_bytes
from .capturing import capture
from .errors import CaptureError, TidemarkError
from .geometry import storage_of
from .held_elsewhere import held_elsewhere
from .planning import plan
from .running import Session
from .sizes import format_bytes, parse_bytes
from .wrappers import called_model, check_context, forward_within, inner_model, inner_optimizer, within


def fit(
    model,
    batch,
    loss=None,
    optimizer=None,
    budget=None,
    *,
    reserve=None,
    autocast=None,
    time_limit=None,
    progress=None,
    **capturing,
):
    """A session, not yet begun, that trains `model` within `budget`. Losses and gradients do not change by a bit.

    model     a module, also within DistributedDataParallel or torch.compile. On a CPU Tidemark's allocator is installed
              if it is not; what was made before it does not count to the limit.
    batch     arguments of the model, those of the largest batch to come: a tuple, a dict, or one tensor.
    loss      takes the model's output and returns the loss; by default the output is the loss.
    optimizer the one that will step; None: the step ends with backward.
    budget    bytes, a size such as "24GiB", a share such as "60%" of what keeping everything takes, or, on an accelerator,
              None: what is free, and what this process has.
    reserve   bytes of the budget that are left to others; by default as many as this process holds of the device beside
              the model, the optimizer's state and the batch. A share is of what the step takes alone.
    autocast  what the loop has around forward and loss, torch.autocast("cuda", torch.bfloat16) say, or a function that
              makes it.
    time_limit, progress  of the search for a plan, as in tidemark.plan().
    capturing further arguments of tidemark.capture(). Without `bounds` or `measured` the step is recorded: it runs once on
              the batch. With `bounds` it is measured, unless `rates` say what kernels cost.

    Raises CaptureError, InfeasibleError with the smallest budget that would do, and BadValueError.
    """
    called, model, optimizer = called_model(model), inner_model(model), inner_optimizer(optimizer)
    batch = dict(batch) if isinstance(batch, Mapping) else batch
    _check(model, batch, optimizer)
    check_context(autocast)
    _serve(model)
    with forward_within(model, autocast):
        graph = capture(model, batch, within(autocast, loss), optimizer=optimizer, called=called, **_how(capturing))
    elsewhere_bytes, graph.gaps_bytes = held_elsewhere(model, optimizer, batch)
    reserve_bytes = elsewhere_bytes if reserve is None else reserve and parse_bytes(reserve)
    budget = budget_bytes(budget, graph, reserve_bytes)
    return Session(plan(graph, budget, reserve=reserve_bytes, time_limit=time_limit, progress=progress), model)


def _how(capturing):
    """The step is recorded unless what is asked for is of a capture on fake tensors."""
    if "measured" in capturing:
        return capturing
    if "bounds" in capturing:
        return {"measured": "rates" not in capturing} | capturing
    return {"recorded": True} | capturing


def _serve(model):
    """On a CPU the budget is a limit where Tidemark's allocator serves; where it cannot, training goes on without."""
    if allocator.installed() or any(p.device.type != "cpu" for p in model.parameters()):
        return
    storages = {storage_of(p)._cdata: storage_of(p).nbytes() for p in model.parameters()}
    try:
        allocator.install()
    except TidemarkError as error:
        logs.fitting.warning("the budget is planned for, and not a limit: %s", error)
        return
    logs.fitting.warning(
        "the CPU allocator serves from here on: %s of parameters came before it and are outside of the limit; call "
        "tidemark.allocator.install() before the model is built",
        format_bytes(sum(storages.values())),
    )


def _check(model, batch, optimizer):
    """What a step cannot be captured with, said before it is tried. What is not even a model, capture refuses."""
    if not isinstance(model, torch.nn.Module):
        return
    _check_batch(model, batch)
    _check_device(model)
    if isinstance(optimizer, torch.optim.Optimizer):
        _check_optimizer(model, optimizer)


def _check_batch(model, batch):
    positional = batch if isinstance(batch, (tuple, list)) else (batch,)
    args, kwargs = ((), batch) if isinstance(batch, dict) else (positional, {})
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = ", ".join(map(repr, batch)) if isinstance(batch, dict) else f"{len(args)} by position"
        raise CaptureError(
            f"{type(model).__name__}.forward{signature} cannot be called with the batch ({error}); the batch has "
            f"{given}, and right would be a tuple of its arguments in order, or a dict of them by name"
        ) from None


def _check_device(model):
    places = {}
    for path, parameter in model.named_parameters():
        places.setdefault(str(parameter.device), path)
    if len(places) > 1:
        where = " and ".join(f"{path!r} on {place}" for place, path in places.items())
        raise CaptureError(
            f"{type(model).__name__} has parameters on several devices ({where}), and a step is planned for one; "
            f'right would be model.to("{next(iter(places))}")'
        )


def _check_optimizer(model, optimizer):
    ours = {id(p) for p in model.parameters()}
    if not any(id(p) in ours for group in optimizer.param_groups for p in group["params"]):
        kind, name = type(optimizer).__name__, type(model).__name__
        raise CaptureError(
            f"{kind} steps no parameter of this {name}, so it is another model's; right would be "
            f"{kind}(model.parameters()), made after the model has its place and form"
        )
