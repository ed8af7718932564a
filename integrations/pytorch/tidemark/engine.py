"""A plan as the session's engine follows it: per module call the kernels that are told of, and what autograd saves."""

import importlib
import os

import torch

from . import allocator, kernels, library
from .errors import SessionError
from .frames import OUTSIDE
from .held_over import is_remade

_NONE = -1
_LOSS_BYTES = 512


def check_device(device):
    """Streams and the allocator are those of the current device."""
    if device.type == "cpu":
        return
    if device.type not in ("cuda", "npu"):
        raise SessionError(f"a session runs on cpu, cuda and npu, and the model is on {device.type!r}")
    if device.type == "npu" and os.environ.get("TASK_QUEUE_ENABLE") != "0" and library.npu_shim() is None:
        raise SessionError(
            "torch_npu may queue launches, and a session's copies would come before kernels that were called earlier; "
            "install tidemark where torch_npu is, so that libtidemark_npu_shim.so is built (integrations/npu_shim), or set "
            "TASK_QUEUE_ENABLE=0 before torch_npu is imported"
        )
    current = getattr(torch, device.type).current_device()
    if device.index is not None and device.index != current:
        raise SessionError(
            f"the model is on {device}, and the current device is {device.type}:{current}; "
            f"torch.{device.type}.set_device({device.index}) before the session begins"
        )


def make_steps(plan, device, host_bytes, copy_bytes_per_s, record):
    """The session behind the C interface, opened on the plan's file. `device`: a torch.device."""
    graph = plan.graph
    parts = _parts(graph)
    serves = allocator.handle_of(graph.device) if serves_requests(graph) else None
    return library.engine().SessionSteps(
        plan.file,
        _with_index(device),
        parts,
        host_bytes,
        copy_bytes_per_s,
        _raw_stream(graph.device),
        record,
        serves.value if serves else 0,
        _requests(graph) if serves else [],
        sorted(graph.swappable()) if may_spill(plan) else [],
        _submit_queued(graph.device),
    )


def _parts(graph):
    """The micro-batch of each operation. What a loop makes of nothing of the model's behind one forward, for the next, is of
    the next."""
    parts, first_reader, of_loop = [op.micro_batch for op in graph.ops], {}, _of_loop(graph)
    for i, op in reversed(list(enumerate(graph.ops))):
        if op.phase != "forward":
            continue
        if i in of_loop:
            parts[i] = next((first_reader[s] for s in op.writes if s in first_reader), parts[i])
        first_reader |= dict.fromkeys(op.reads, parts[i])
    return parts


def _of_loop(graph):
    """Operations of the forward outside of modules that read nothing that came of one."""
    found, of_model = set(), set()
    for i, op in enumerate(graph.ops):
        if op.phase == "forward" and of_model.isdisjoint(op.reads) and all(call.site.path == OUTSIDE for call in op.calls):
            found.add(i)
        else:
            of_model.update(op.writes)
    return found


def may_spill(plan):
    """Whether what autograd saves may go to host memory where memory runs out, also what the plan keeps."""
    return allocator.serves(plan.graph.device) and not plan.keeps_all


def serves_requests(graph):
    """Whether what the step asks for can be served where the plan has it."""
    return graph.knows_requests and allocator.serves(graph.device)


def _requests(graph):
    """(operation, storage, bytes, least bytes, offset, is remade, is within); see tidemark_request."""
    found = []
    for i, op in enumerate(graph.ops):
        if op.calls and all(_is_apart(graph, op, call) for call in op.calls):
            continue
        for request in op.requests:
            made = None if request.storage is None else graph.storages[request.storage]
            varies = made is not None and made.bound_bytes is not None
            remade = made is not None and is_remade(made)
            number = request.within if made is None else request.storage
            storage, is_within = (_NONE, False) if number is None else (number, made is None)
            found.append((i, storage, request.bytes, 1 if varies else 0, request.offset, remade, is_within))
    return found


def _with_index(device):
    if device.type == "cpu" or device.index is not None:
        return str(device)
    return f"{device.type}:{getattr(torch, device.type).current_device()}"


def _raw_stream(device):
    """The vendor's handle of the current stream, by device index; a CPU has none."""
    if device == "cpu":
        return None
    if device == "cuda":
        return torch._C._cuda_getCurrentRawStream
    home = importlib.import_module("torch_npu")._C
    at_once = getattr(home, "_npu_getCurrentRawStreamNoWait", None)  # what is queued is submitted where that matters
    return at_once or home._npu_getCurrentRawStream


def _submit_queued(device):
    """Address of the function that submits what the framework has queued; 0: it queues nothing."""
    shim = library.npu_shim() if device == "npu" else None
    return 0 if shim is None else library.address(shim, "tidemark_npu_shim_submit_queued")


def make_engine(plan, steps, on_departure, counters):
    batches = make_batches(plan.graph, steps)
    return library.engine().SessionEngine(batches, steps, kernels.traits, on_departure, counters)


def make_batches(graph, steps):
    """What is planned of each micro-batch."""
    batches = [library.engine().PlannedBatch() for _ in range(graph.micro_batches)]
    for number, places in enumerate(_calls(graph, steps)):
        for place, calls in places.items():
            batches[number].add_calls(place, calls)
    for number, places in enumerate(_saves(graph, steps)):
        for place, saves in places.items():
            batches[number].add_saves(place, saves)
    return batches


def _calls(graph, steps):
    batches = [{} for _ in range(graph.micro_batches)]
    for i, op in enumerate(graph.ops):
        if op.phase != "forward":
            continue
        for n, call in enumerate(op.calls):
            outputs = [o if o is not None and steps.is_managed(o) else _NONE for o in call.outputs]
            if all(o == _NONE for o in outputs):
                outputs = []
            rebuilt = steps.is_rebuilt(i)
            reads = [s for s in (*op.reads, *op.writes) if steps.is_managed(s)] if rebuilt else []
            planned = (call.func, i, n == 0, rebuilt, _is_apart(graph, op, call), outputs, reads)
            _put(batches[op.micro_batch].setdefault((call.site.path, call.site.call), []), call.site.ordinal, planned)
    return batches


def _is_apart(graph, op, call):
    """Losses: loops hold them for long, and their memory with them, which the next plan needs as a whole."""
    if op.phase != "forward" or call.site.path != OUTSIDE:
        return False
    made = call.outputs
    return bool(made) and all(o is not None and graph.storages[o].bytes <= _LOSS_BYTES for o in made)


def _saves(graph, steps):
    batches = [{} for _ in range(graph.micro_batches)]
    for save in graph.saves:
        use = min(save.uses, default=_NONE)
        until = save.until[0] if len(save.uses) == 1 else _NONE  # asked for more than once: the session keeps it
        storage = save.storage if save.storage is not None and steps.is_managed(save.storage) else _NONE
        places = batches[save.site.micro_batch].setdefault((save.site.path, save.site.call), [])
        _put(places, save.site.ordinal, (storage, use, until))
    return batches


def _put(places, ordinal, value):
    while len(places) <= ordinal:
        places.append(None)
    places[ordinal] = value
