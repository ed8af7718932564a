"""One training step as a Graph, from a run on fake tensors.

Every kernel passes through a dispatch mode below autograd. While it runs, nothing holds what autograd saves: packing a
tensor notes its storage and keeps nothing, unpacking hands out a fake of the same geometry. When a storage dies in such
a run is therefore when the framework itself, local variables included, lets go of it; from then on it is the plan's.

Thread rule: capture runs forward and backward in the calling thread and changes the model meanwhile.
"""

import contextlib
import dataclasses
import functools
import time
import weakref

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices as _foreach_devices
from torch.utils._python_dispatch import TorchDispatchMode

from . import allocator, kernels, logs, measure
from .bounds import DataDependent, Routed, Rows
from .changed_views import ChangedViews
from .cost import DeviceRates, cost_ns, default_rates
from .errors import CaptureError
from .frames import ModuleFrames, in_backward
from .geometry import replace_tensors, storage_of
from .graph import HostLink
from .grouping import build_graph
from .held_over import hold_over
from .in_place import NodeEnds, changes_own, fills_zeros, put_in_place
from .left_behind import replace_fakes
from .one_step import call_model, run_pipeline, run_step
from .stand_in import FakeTensors, fake_model, fingerprint
from .uncompiled import uncompiled


@dataclasses.dataclass
class SeenStorage:
    name: str
    bytes: int
    role: str
    module: str
    born: int  # call that wrote it first, -1: there before
    died: int | None = None  # last call before it was gone
    ref: StorageWeakRef | None = None


@dataclasses.dataclass
class SeenCall:
    func: object
    site: object
    reads: list
    writes: list
    outputs: tuple
    phase: str
    module: str
    cost: int
    micro_batch: int
    node: object = None  # of autograd's graph, in backward
    in_place: bool = False
    description: tuple | None = None  # for measuring
    transient_bytes: int = 0
    would_be_in_place: bool = False  # see in_place.py
    requests: list | None = None  # measure.KernelRequest, where it was measured
    is_opaque: bool = False  # see kernels.is_opaque()
    to_host: bool = False  # see kernels.copies_to_host()


@dataclasses.dataclass
class SeenSave:
    site: object
    storage: int
    bytes: int
    after: int  # calls so far
    is_leaf: bool  # which autograd has whether it is saved or not: a session does not hear of its being asked for
    uses: list = dataclasses.field(default_factory=list)  # calls so far at each unpacking


class Recorder(TorchDispatchMode):
    """What happened, call by call. Storage numbers are in order of first sight."""

    def __init__(self, fake_mode, fakes, frames, data, rates, describes):
        super().__init__()
        self.fake_mode = fake_mode
        self.fakes = fakes
        self.frames = frames
        self.data = data
        self.rates = rates
        self.describes = describes
        self.phase = "forward"
        self.calls = []
        self.storages = []
        self.saves = []
        self.node_ends = NodeEnds()
        self.changed_views = ChangedViews()
        self._ids = {}
        self._live = []
        self._stand_ins = []
        self._paused = False

    def know(self, tensor, name, role):
        """A storage that is there before the step."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._ids:
            return
        self._add(storage, SeenStorage(name, storage.nbytes(), role, "", -1))

    def _add(self, storage, seen):
        seen.ref = StorageWeakRef(storage)  # also keeps the number from being used again
        self._ids[storage._cdata] = len(self.storages)
        self.storages.append(seen)
        return len(self.storages) - 1

    def id_of(self, tensor):
        storage = storage_of(tensor)
        found = self._ids.get(storage._cdata)
        if found is None:  # made outside: a constant
            found = self._add(storage, SeenStorage(f"constant.{len(self.storages)}", storage.nbytes(), "input", "", -1))
        return found

    def bury(self):
        """Notes which storages have gone since the last call."""
        alive = []
        for s in self._live:
            seen = self.storages[s]
            if seen.ref.expired():
                seen.died = len(self.calls) - 1
            else:
                alive.append(s)
        self._live = alive

    @contextlib.contextmanager
    def paused(self):
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = self._faked(args), self._faked(kwargs or {})
        if kernels.is_read(func):
            top = self.frames.top
            forward = self.phase == "forward" and not in_backward()
            return self.data.number(args[0], forward, (self.frames.micro_batch, top.path, top.call))
        if self._paused or kernels.is_query(func) or kernels.is_view(func):
            return func(*args, **kwargs)
        self.changed_views.settle()
        self.bury()
        backward = in_backward()
        phase = "backward" if backward else self.phase
        site = self.frames.next_call() if phase == "forward" else None
        module = self.frames.top.path if phase == "forward" else ""
        is_opaque = kernels.is_opaque(func)
        # Of a collective others would have to take part.
        describes = self.describes and not is_opaque and not kernels.is_collective(func)
        description = measure.describe(func, args, kwargs) if describes else None
        node = self._node() if backward else None
        would_be_in_place = backward and self._would_be_in_place(func, args, node)
        shown = kernels.without_side_effects(func, args)
        reads = list(dict.fromkeys(self.id_of(t) for t in (*kernels.tensors(shown), *kernels.tensors(kwargs))))
        out = self.data.answer(func, args, kwargs, module)
        if out is None:
            out = self._call(func, args, kwargs, module)
        mutated = kernels.mutated(func, args, kwargs)
        if phase == "forward":
            self.changed_views.note(mutated)
        writes = list(dict.fromkeys(self.id_of(t) for t in mutated))
        outputs, on_host = [], kernels.host_outputs(func)
        for tensor in kernels.tensors(out):
            storage = storage_of(tensor)
            if storage._cdata in self._ids:
                outputs.append(None)
                continue
            seen = SeenStorage(
                self._storage_name(func, module, phase), storage.nbytes(), self._role(phase), module, len(self.calls)
            )
            if len(outputs) in on_host:  # no memory of the device, and there for whoever asks
                seen.bytes, seen.role, seen.born = 0, "input", -1
                self._add(storage, seen)
                outputs.append(None)
                continue
            outputs.append(self._add(storage, seen))
            self._live.append(outputs[-1])
        in_place = bool(writes)
        writes += [o for o in outputs if o is not None]
        self.calls.append(
            SeenCall(
                func,
                site,
                reads,
                writes,
                tuple(outputs),
                phase,
                module,
                cost_ns(func, args, kwargs, out, self.rates),
                self.frames.micro_batch,
                node,
                in_place,
                description,
                would_be_in_place=would_be_in_place,
                is_opaque=is_opaque,
                to_host=kernels.copies_to_host(func, args, kwargs),
            )
        )
        return out

    def _faked(self, value):
        """A loss function may close over real targets."""
        if all(isinstance(t, FakeTensor) for t in kernels.tensors(value)):
            return value
        return replace_tensors(value, lambda t: t if isinstance(t, FakeTensor) else self.fakes.of(t))

    @staticmethod
    def _call(func, args, kwargs, module):
        if kernels.is_process_group_call(func):
            return _as_if_communicated(func, args)
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise CaptureError(
                f"module {module!r} calls {func}, whose result's size depends on data; that cannot be captured"
            ) from error

    def _would_be_in_place(self, func, args, node):
        if self.node_ends.adds_up(func, args) or changes_own(func, args, node):
            return True
        first = args[0] if args else None
        return isinstance(first, torch.Tensor) and fills_zeros(func, self.id_of(first), self, node)

    @staticmethod
    def _node():
        node = torch._C._current_autograd_node()
        return None if node is None else (node.name(), node._sequence_nr())

    @staticmethod
    def _role(phase):
        return {"forward": "activation", "backward": "temporary", "optimizer": "temporary"}[phase]

    def _storage_name(self, func, module, phase):
        place = module or phase
        return f"{place}.{func._overloadpacket.__name__}.{len(self.storages)}"

    def pack(self, tensor):
        """Keeps nothing of the tensor but its geometry."""
        with self.paused():
            tensor = self._faked(tensor)
            storage = self.id_of(tensor)
            is_leaf = tensor.is_leaf and tensor.requires_grad
            bytes_ = tensor.untyped_storage().nbytes()
            save = SeenSave(self.frames.next_save(), storage, bytes_, len(self.calls), is_leaf)
            self.saves.append(save)
            return save, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device

    def unpack(self, packed):
        save, size, stride, offset, dtype, device = packed
        if not save.is_leaf:
            save.uses.append(len(self.calls))
        with self.paused(), self.fake_mode, torch.no_grad():
            base = torch.empty(save.bytes, dtype=torch.uint8, device=device)
            storage = base.untyped_storage()
            self._ids[storage._cdata] = save.storage
            self._stand_ins.append(StorageWeakRef(storage))
            return torch.empty(0, dtype=dtype, device=device).set_(storage, offset, size, stride)

    def mark_role(self, tensor, role, name):
        seen = self.storages[self.id_of(tensor)]
        if seen.role in ("activation", "temporary"):
            seen.role = role
            seen.name = name


def _as_if_communicated(func, args):
    """What a call of a process group returns, its first argument and a handle, without the others' taking part."""
    from torch._C._distributed_c10d import _create_work_from_future

    future = torch.futures.Future()
    future.set_result(kernels.tensors(args[0]))
    handle = _create_work_from_future(future).boxed()
    return handle if len(func._schema.returns) == 1 else (args[0], handle)


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
    host_link=None,
    holds_output=True,
    name=None,
):
    """Records one training step of `model` without running it.

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
    host_link     how quick copies to host memory are, a HostLink: plans may swap. By default measured or modelled as
                  all else, but on the CPU, whose memory is the host's, nothing is swapped unless a link is given.
    holds_output  the loop has the model's output until the next step has made another, as `output = model(x)` does;
                  False: only until the loss is made of it, as in `loss = loss_fn(model(x))`.

    Returns a Graph. Raises CaptureError where the step depends on data that `bounds` does not give.
    """
    _check_arguments(model, loss_fn, optimizer, bounds, micro_batches, chunks, order, rates, host_link)
    began = time.monotonic()
    device = next((p.device.type for p in model.parameters()), "cpu")
    device = "cpu" if device == "meta" else device
    rates = rates or default_rates(device)
    step = _Step(model, inputs, loss_fn, optimizer, micro_batches, chunks, order, device, holds_output)
    recorder = step.record(DataDependent(bounds), rates, measured)
    if measured:
        _measure(recorder.calls, device)
    graph = build_graph(recorder, name or type(model).__name__, fingerprint(model), device, micro_batches * chunks)
    for variant in DataDependent.variants(bounds):
        _bound(graph, step.record(DataDependent(bounds, variant), rates, False), variant)
    graph.loads = [bound.load(pattern) for pattern, bound in (bounds or {}).items()]
    graph.chunks = chunks
    graph.knows_requests = bool(measured) and allocator.serves(device) and not any(c.is_opaque for c in recorder.calls)
    hold_over(graph)
    graph.host_link = host_link
    if host_link is None and device != "cpu":
        graph.host_link = measure.host_link(device) if measured else HostLink()
    graph.model = weakref.ref(model)
    logs.captured(graph, time.monotonic() - began)
    return graph


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


@dataclasses.dataclass(frozen=True)
class _Step:
    """What is to be recorded."""

    model: object
    inputs: object
    loss_fn: object
    optimizer: object
    micro_batches: int
    chunks: int
    order: list | None
    device: str
    holds_output: bool

    def record(self, data, rates, describes):
        """Runs the step on fakes once; nothing of it stays in the model."""
        fake_mode = FakeTensorMode()
        fakes = FakeTensors(fake_mode, self.device)
        begun = set()
        frames = ModuleFrames(self.model, on_begin=lambda: _begin_once(begun, frames.micro_batch))
        warm_up = Recorder(fake_mode, fakes, frames, data.anew(), rates, False)
        recorder = Recorder(fake_mode, fakes, frames, data, rates, describes)
        rng = torch.random.get_rng_state()
        try:
            with uncompiled(), fake_model(self.model, fakes), fake_mode:
                inputs = [fakes.of_tree(self.inputs) for _ in range(self.micro_batches)]
                with frames, warm_up:
                    self._call_once(inputs[0], begun)
                optimizer = _fake_optimizer(self.optimizer, fakes, recorder, self.device)
                _know_residents(recorder, self.model, inputs, optimizer)
                with frames, recorder, _gradients_are_backward(recorder):
                    if self.order is None:
                        run_step(recorder, self.model, inputs, self.loss_fn, optimizer, self.holds_output)
                    else:
                        run_pipeline(
                            recorder, self.model, inputs[0], self.loss_fn, optimizer, self.chunks, self.order
                        )
            del inputs, optimizer
        finally:
            torch.random.set_rng_state(rng)
            for seen in (warm_up, recorder):
                seen.fakes = None
            del fakes
            for seen in (warm_up, recorder):
                replace_fakes(seen, self._memory())
        put_in_place(recorder)
        return recorder

    def _call_once(self, inputs, begun):
        """What the program makes at the first call of the model is there when the step begins."""
        for chunk in range(self.chunks):
            begun.clear()
            call_model(self.model, inputs if self.order is None else (*inputs, chunk))
        begun.clear()

    def _memory(self):
        """Where the model lies; None where that is no memory."""
        device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        return None if device.type == "meta" else device


@contextlib.contextmanager
def _gradients_are_backward(recorder):
    """What torch.autograd.grad() calls itself, within forward too, is no work of the model's: a session does not look
    at it either."""
    before = {name: getattr(torch.autograd, name) for name in ("backward", "grad")}

    def as_backward(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            phase, recorder.phase = recorder.phase, "backward"
            try:
                return function(*args, **kwargs)
            finally:
                recorder.phase = phase

        return wrapped

    for name, function in before.items():
        setattr(torch.autograd, name, as_backward(function))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.autograd, name, function)


def _begin_once(begun, micro_batch):
    if micro_batch in begun:
        raise CaptureError(
            "the model is called a second time for one loss; capture a module around it whose forward makes all of "
            "the calls"
        )
    begun.add(micro_batch)


def _bound(graph, recorder, variant):
    """Takes over what storages need in a variant of what is expected."""
    if len(recorder.storages) != len(graph.storages) or len(recorder.calls) != sum(len(op.calls) for op in graph.ops):
        raise CaptureError(
            "with the most that `bounds` allow the model calls other kernels than with what is expected, so that no "
            "plan would serve both; give bounds without `most`"
        )
    for storage, seen in zip(graph.storages, recorder.storages, strict=True):
        if seen.bytes > max(storage.bytes, storage.bound_bytes or 0):
            storage.bound_bytes = seen.bytes
            storage.bound_variant = variant


def _measure(calls, device):
    bench = measure.Bench(device)
    for call in calls:
        found = None if call.description is None else bench.measure(call.func, call.description)
        if found is not None:
            call.cost, call.transient_bytes, call.requests = max(found[0], 1), found[1], found[2]


def _know_residents(recorder, model, inputs, optimizer):
    for path, parameter in model.named_parameters():
        recorder.know(parameter, path, "parameter")
    for path, buffer in model.named_buffers():
        recorder.know(buffer, path, "parameter")
    for batch in inputs:
        for i, tensor in enumerate(kernels.tensors(batch)):
            recorder.know(tensor, f"input.{i}", "input")
    if optimizer is not None:
        for i, state in enumerate(optimizer.state.values()):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    recorder.know(value, f"{key}.{i}", "optimizer_state")


def _kernels_of(group, device):
    """Where neither is asked for, PyTorch steps whole lists of parameters at once where the device can, but no fakes."""
    if group.get("foreach", False) is not None or group.get("fused") or group.get("differentiable"):
        return {}
    return {"foreach": device in _foreach_devices()}


def _fake_optimizer(optimizer, fakes, recorder, device):
    """The same optimizer over the fakes, its state there as after a first step."""
    if optimizer is None:
        return None
    groups = [
        {**g, **_kernels_of(g, device), "params": [fakes.of(p) for p in g["params"]]} for g in optimizer.param_groups
    ]
    try:
        fake = type(optimizer)(groups)
        for group in fake.param_groups:
            for p in group["params"]:
                p.grad = torch.empty_like(p) if p.requires_grad else None
        with _Scalars(recorder.data):
            fake.step()
    except (TypeError, AttributeError, KeyError, RuntimeError) as error:
        raise CaptureError(
            f"{type(optimizer).__name__} cannot be captured, as it is not made of parameter groups and stepped without "
            f"a closure ({error}); capture without it, and leave room for its state in the budget"
        ) from error
    for group in fake.param_groups:
        for p in group["params"]:
            p.grad = None
    return fake


class _Scalars(TorchDispatchMode):
    def __init__(self, data):
        super().__init__()
        self._data = data

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if kernels.is_read(func):
            return self._data.number(args[0], False, None)
        return func(*args, **(kwargs or {}))
