"""A step of any loop, recorded while it trains: for engines that call the model themselves, as schedules of pipelines and
trainers do.

    with tidemark.record(model) as recording:
        schedule.step(x)
        optimizer.step()
        optimizer.zero_grad()
    plan = tidemark.plan(recording.graph(), "24GiB")

Thread rule: that of capture.
"""

import contextlib
import functools
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import allocator, logs, measure
from .backward_calls import around_backward
from .budgets import budget_bytes
from .compiled_code import CompiledCode
from .errors import CaptureError
from .frames import ModuleFrames
from .graph import HostLink
from .held_elsewhere import beside_storages
from .live_recording import LiveRecording
from .planning import plan
from .running import refuse_within
from .sizes import parse_bytes


class record:
    """What runs inside is one step of `model`, which trains as ever; what autograd saves is in host memory meanwhile, so
    that it is slower. Each call of the model is a micro-batch. The step that makes an optimizer's state, the first, is
    not like those that follow: record the second.

    host_link  as in capture().
    name       of the graph, for messages; by default the model's class.
    """

    def __init__(self, model, *, host_link=None, name=None):
        if not isinstance(model, torch.nn.Module):
            raise CaptureError(f"a {type(model).__name__} is no model; give a torch.nn.Module")
        if host_link is not None and not isinstance(host_link, HostLink):
            raise CaptureError(f"host_link is of type {type(host_link).__name__}; right would be HostLink")
        self._model = model
        self._host_link = host_link
        self._name = name or type(model).__name__
        self._device = next((p.device.type for p in model.parameters()), "cpu")
        self._undo = None
        self._live = None
        self._batches = 0
        self._graph = None

    def __enter__(self):
        if self._live is not None:
            raise CaptureError("a recording is of one step; make another with tidemark.record(model)")
        refuse_within("a step cannot be recorded")
        self._frames = ModuleFrames(self._model, self._begin, on_failure=lambda: self._live.fail_forward())
        self._code = CompiledCode(self._model, self._frames)
        with contextlib.ExitStack() as undo:
            undo.enter_context(self._frames)
            undo.enter_context(self._code)
            self._live = LiveRecording(self._model, self._frames, self._device)
            undo.callback(self._live.close)
            undo.callback(register_optimizer_step_pre_hook(lambda o, *_: self._live.begin_optimizer(o)).remove)
            undo.callback(register_optimizer_step_post_hook(lambda o, *_: self._live.end_optimizer(o)).remove)
            undo.enter_context(around_backward(self._as_backward))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind, *_):
        try:
            self._live.end()
        finally:
            self._undo.close()
        if kind is None:
            self._elsewhere_bytes, gaps_bytes = beside_storages(*self._live.held_storages(), torch.device(self._device))
            self._graph = self._made()
            self._graph.gaps_bytes = gaps_bytes

    def graph(self):
        """The Graph of the step, for plan(). Raises CaptureError where it is not to be had."""
        if self._graph is None:
            raise CaptureError("there is no recording yet; ask for the graph behind the with block that has a step in it")
        return self._graph

    def plan(self, budget=None, *, reserve=None, **planning):
        """The Plan of the step within `budget`, as tidemark.fit() takes it. `reserve`: bytes of it that are left to others; by
        default what the process holds of the device beside what the step has seen. Further arguments are those of
        tidemark.plan()."""
        graph = self.graph()
        reserve_bytes = self._elsewhere_bytes if reserve is None else reserve and parse_bytes(reserve)
        return plan(graph, budget_bytes(budget, graph, reserve_bytes), reserve=reserve_bytes, **planning)

    def _made(self):
        if self._live.has_made_state():
            raise CaptureError(
                f"the optimizer of {self._name} made its state in the step, as in the first one; train a step before it, "
                f"and record the second"
            )
        if self._live.has_failed:
            raise CaptureError(f"the step of {self._name} failed in part; record one that runs as a whole")
        if self._live.goes_on:
            raise CaptureError(
                f"a forward of {self._name} came behind an optimizer's step, and a planned step ends with that; record one step, "
                f"and where a loop steps several optimizers in turn, as for a GAN, step one of several groups behind both losses"
            )
        graph = self._live.graph(self._name, self._device, max(self._batches, 1))
        if self._live.failure is not None:
            raise CaptureError(f"the step cannot be recorded: {self._live.failure}") from self._live.failure
        if graph is None:
            raise CaptureError(
                f"no forward and backward of {self._name} came in the step; record around both, with the module whose "
                f"forward is called"
            )
        graph.compiled = self._code.met
        graph.host_link = self._host_link
        if self._host_link is None and self._device != "cpu":
            graph.host_link = measure.host_link(self._device)
        graph.knows_requests = allocator.serves(self._device)
        graph.model = weakref.ref(self._model)
        logs.recorded(graph)
        return graph

    def _begin(self):
        self._frames.micro_batch = self._batches
        self._batches += 1
        self._live.begin_forward()

    def _as_backward(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self._live.backward(args, kwargs):
                return function(*args, **kwargs)

        return wrapped
