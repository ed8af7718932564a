"""One training step as a Graph: on fake tensors, which runs nothing, or recorded from one that runs.

Thread rule: capture runs forward and backward in the calling thread and changes the model meanwhile.
"""

import time
import weakref

import torch

from . import allocator, kernels, logs, measure
from .bounds import DataDependent, Routed, Rows
from .captured_step import CapturedStep
from .cost import DeviceRates, default_rates
from .errors import CaptureError
from .fake_step import record_on_fakes
from .graph import HostLink
from .grouping import build_graph
from .held_over import hold_over
from .real_step import record_for_real
from .running import refuse_within
from .stand_in import fingerprint


def capture(
    model,
    inputs,
    loss_fn=None,
    *,
    optimizer=None,
    bounds=None,
    micro_batches=1,
    chunks=1,
    order=None,
    rates=None,
    measured=False,
    recorded=False,
    host_link=None,
    holds_output=True,
    name=None,
    called=None,
):
    """Records one training step of `model`, without running it unless `recorded`.

    inputs        arguments of the model: a tuple, a dict, or one tensor. Real or meta; values are not read.
    loss_fn       takes the model's output and returns the loss; by default the output is the loss.
    optimizer     the one that will step, or nothing: the step ends with backward.
    bounds        answers to what only data can say, by module path: see bounds.Routed and bounds.Rows.
    micro_batches forward and backward are run so often, gradients add up.
    chunks, order for pipelines. `order` is what this process does in a step: ("forward", i, chunk) and
                  ("backward", i, chunk). The model is called with the chunk as one more argument, and its inputs,
                  outputs that are no loss and their gradients come and go as in a pipeline; `loss_fn` is given the
                  chunk as well and returns what is not a loss as it is.
    rates         what the device can do: costs are modelled from it. By default two cores of a processor, or half an
                  A100 where the model is on an accelerator.
    measured      costs and workspaces are measured instead, on this machine, one distinct kernel call at a time.
    recorded      the step runs once, on these inputs: kernels, sizes, branches, times and workspaces are as they come. What
                  autograd saves is in host memory meanwhile. The model is left as it was, random generators too.
    host_link     how quick copies to host memory are, a HostLink: plans may swap. By default measured or modelled as
                  all else, but on the CPU, whose memory is the host's, nothing is swapped unless a link is given.
    holds_output  the loop has the model's output until the next step has made another, as `output = model(x)` does;
                  False: only until the loss is made of it, as in `loss = loss_fn(model(x))`.
    called        what torch.compile(model) returned, where the loop calls that; `recorded` then runs it.

    Returns a Graph. Raises CaptureError where the step depends on data that `bounds` does not give.
    """
    _check_arguments(model, loss_fn, optimizer, bounds, micro_batches, chunks, order, rates, host_link)
    _check_called(model, called)
    if measured and rates is not None:
        raise CaptureError("costs are measured or modelled from rates, and both are asked for; give rates without measured=True")
    if measured and recorded:
        raise CaptureError("a recorded step is measured as it runs; give recorded=True without measured=True")
    began = time.monotonic()
    device = _device_of(model)
    called = model if called is None else called
    step = CapturedStep(
        model, inputs, loss_fn, optimizer, micro_batches, chunks, order, device, holds_output, called
    )
    compiled = []
    if recorded:
        refuse_within("a step cannot be recorded")
        _check_recordable(model, inputs, bounds)
        log, compiled = record_for_real(step, DataDependent(None), rates)
    else:
        log = record_on_fakes(step, DataDependent(bounds), rates or default_rates(device), measured)
        if measured:
            _measure(log.calls, device)
    graph = build_graph(log, name or type(model).__name__, fingerprint(model), device, micro_batches * chunks)
    for variant in DataDependent.variants(bounds):
        _bound(graph, record_on_fakes(step, DataDependent(bounds, variant), rates or default_rates(device), False), variant)
    graph.loads = [bound.load(pattern) for pattern, bound in (bounds or {}).items()]
    graph.chunks, graph.compiled = chunks, compiled
    graph.knows_requests = allocator.serves(device) and (recorded or measured and not any(c.is_opaque for c in log.calls))
    hold_over(graph)
    graph.host_link = host_link
    if host_link is None and device != "cpu":
        graph.host_link = measure.host_link(device) if measured or recorded else HostLink()
    graph.model = weakref.ref(model)
    logs.captured(graph, time.monotonic() - began)
    return graph


def _device_of(model):
    device = next((p.device.type for p in model.parameters()), "cpu")
    return "cpu" if device == "meta" else device


def _check_recordable(model, inputs, bounds):
    if bounds:
        raise CaptureError("a recorded step has the sizes that come; give bounds to a capture without recorded=True")
    for tensor in (*model.parameters(), *model.buffers(), *kernels.tensors(inputs)):
        if tensor.is_meta:
            raise CaptureError(
                f"a tensor of shape {tuple(tensor.shape)} is on the meta device, and a recorded step runs; capture "
                f"without recorded=True, or give real tensors"
            )


def _check_arguments(model, loss_fn, optimizer, bounds, micro_batches, chunks, order, rates, host_link):
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"a {type(model).__name__} is no model; give a torch.nn.Module, of several one around them")
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise CaptureError(f"module {path!r} is TorchScript, which cannot be captured; give the module it was made of")
    if not torch.is_grad_enabled():
        raise CaptureError("gradients are switched off here, as by torch.no_grad(); capture where they are on")
    if loss_fn is not None and not callable(loss_fn):
        raise CaptureError(f"loss_fn is of type {type(loss_fn).__name__}; give a function of the model's output")
    for what, number in (("micro_batches", micro_batches), ("chunks", chunks)):
        if not isinstance(number, int) or number < 1:
            raise CaptureError(f"{what} is {number!r}; right would be a whole number, 1 at least")
    for what, value, kinds in (
        ("optimizer", optimizer, (torch.optim.Optimizer, type(None))),
        ("bounds", bounds, (dict, type(None))),
        ("rates", rates, (DeviceRates, type(None))),
        ("host_link", host_link, (HostLink, type(None))),
    ):
        if not isinstance(value, kinds):
            kind = (kinds[0] if isinstance(kinds, tuple) else kinds).__name__
            raise CaptureError(f"{what} is of type {type(value).__name__}; right would be {kind}")
    for pattern, bound in (bounds or {}).items():
        if not isinstance(pattern, str) or not isinstance(bound, (Routed, Rows)):
            raise CaptureError(
                f"bounds has {pattern!r}: {bound!r}; right would be the path of a module and tidemark.Routed or "
                f"tidemark.Rows"
            )
    if order is not None:
        _check_order(order, micro_batches, chunks)


def _check_called(model, called):
    if called is not None and called is not model and getattr(called, "_orig_mod", None) is not model:
        raise CaptureError(f"called is a {type(called).__name__}; right would be what torch.compile(model) returned")


def _check_order(order, micro_batches, chunks):
    open_ = set()
    for step in order:
        if not isinstance(step, (tuple, list)) or len(step) != 3 or step[0] not in ("forward", "backward"):
            raise CaptureError(f'order has {step!r}; right would be ("forward", micro-batch, chunk) or ("backward", ...)')
        kind, *place = step
        if place[0] not in range(micro_batches) or place[1] not in range(chunks):
            raise CaptureError(f"order has {step!r}, and there are {micro_batches} micro-batches and {chunks} chunks")
        if (kind == "backward") != (tuple(place) in open_):
            raise CaptureError(f"order has {step!r}; each backward follows its own forward, once")
        open_ ^= {tuple(place)}


def _bound(graph, log, variant):
    """Takes over what storages need in a variant of what is expected."""
    if len(log.storages) != len(graph.storages) or len(log.calls) != sum(len(op.calls) for op in graph.ops):
        raise CaptureError(
            "with the most that `bounds` allow the model calls other kernels than with what is expected, so that no "
            "plan would serve both; give bounds without `most`"
        )
    for storage, seen in zip(graph.storages, log.storages, strict=True):
        if seen.bytes > max(storage.bytes, storage.bound_bytes or 0):
            storage.bound_bytes = seen.bytes
            storage.bound_variant = variant


def _measure(calls, device):
    bench = measure.Bench(device)
    for call in calls:
        found = None if call.description is None else bench.measure(call.func, call.description)
        if found is not None:
            call.cost, call.transient_bytes, call.requests = max(found[0], 1), found[1], found[2]
