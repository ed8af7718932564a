"""Runs a training loop by a plan: per tensor, whatever the loop looks like around it.

    with tidemark.session(plan, model):
        for batch in data: ...                      # as ever

Where the plan rebuilds storages, a dispatch mode below autograd counts kernels by module call, as capture did, and
records those that will run again. Departures (another shape of the forward, a step that only evaluates, a module that
is not called) leave the tensors concerned where they are, with one warning. Bits are never at stake: what is rebuilt is
made by the same kernels from the same bytes.

Thread rule: one session in a process, in the thread that runs forward and backward.
"""

import functools
import os
import warnings

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from . import allocator, kernels
from .errors import SessionError
from .frames import OUTSIDE, ModuleFrames, in_backward
from .host_memory import HostMemory
from .memory_report import Report
from .rebuild import record
from .schedule import compile_plan
from .stand_in import fingerprint
from .step_state import KeptTensor, StepState

_active = None


class Counters:
    """What a session did, since it began."""

    def __init__(self):
        self.recomputed = 0
        self.swapped = 0
        self.off_plan = 0  # rebuilt or kept where the plan says otherwise
        self.micro_batches = 0


class Session:
    def __init__(self, plan, model=None, host=None):
        model = model if model is not None else plan.model()
        if model is None:
            raise SessionError(
                "the model the plan was made for is gone; give the model to tidemark.session(plan, model)"
            )
        if fingerprint(model) != plan.graph.fingerprint:
            raise SessionError(
                f"the plan is for {plan.graph.name}, and the parameters of this {type(model).__name__} are others; "
                f"capture and plan this model"
            )
        device = next((p.device.type for p in model.parameters()), plan.graph.device)
        if device != plan.graph.device:
            raise SessionError(f"the plan is for {plan.graph.device!r} and the model is on {device!r}")
        self.plan = plan
        self.model = model
        self.counters = Counters()
        self._host = host
        self._limit = None
        self._measured = None
        self._pid = None
        self.marked = None
        self._warned = False

    def __enter__(self):
        global _active
        if _active is not None:
            raise SessionError("a session is active already; leave it before the next begins")
        self._pid = os.getpid()
        _active = self
        self._limit = self._limit_memory()
        if self.plan.keeps_all:
            return self
        self._own_host = self._host is None
        self._host = self._host or HostMemory()
        self._batches = compile_plan(self.plan)
        self._next_batch = 0
        self._state = None
        self._lifts = []
        self._frames = ModuleFrames(self.model, self._begin, self._count_to if self._limit is not None else None)
        self._frames.__enter__()
        torch._C._autograd._push_saved_tensors_default_hooks(self._pack, self._unpack)
        self._mode = _Mode(self)
        self._mode.__enter__()
        self._watch_the_loop()
        return self

    def __exit__(self, *error):
        global _active
        _active = None
        if self._limit is not None:
            self._measured = allocator.statistics().as_dict()
            allocator.set_limit(self._limit)
        if self.plan.keeps_all:
            return
        self._leave_the_loop()
        self._lower_all()
        self._mode.__exit__(*error)
        torch._C._autograd._pop_saved_tensors_default_hooks()
        self._frames.__exit__()
        if self._limit is not None:
            allocator.count_to(None)
        self._state = None
        self._host.finish()
        if self._own_host:
            self._host.close()
            self._host = None

    def _limit_memory(self):
        """The budget becomes a limit where Tidemark's allocator serves the device. Returns the limit before."""
        if self.plan.graph.device != "cpu" or not allocator.installed():
            return None
        before = allocator.statistics().limit_bytes
        if self.plan.budget_bytes:
            allocator.empty_cache()
            allocator.set_limit(self.plan.budget_bytes)
        allocator.reset_peaks()
        return before

    def report(self):
        """Predicted against measured, since the session began (or reset_peaks()); see Report."""
        if self._limit is None:
            measured = None
        elif _active is self:
            measured = allocator.statistics().as_dict()
        else:
            measured = self._measured
        return Report.of(self.plan, self.model, measured, self.counters)

    def __call__(self, function):
        """As a decorator: every call of the function is a session."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with Session(self.plan, self.model, self._host):
                return function(*args, **kwargs)

        return wrapped

    # Forward

    def _begin(self):
        self._lower_all()
        if os.getpid() != self._pid:
            raise SessionError("the session was begun in another process; begin one in each process after the fork")
        number = self._next_batch if self.marked is None else self.marked
        number %= len(self._batches)
        self._next_batch = number + 1
        self._frames.micro_batch = number
        self._state = StepState(self._batches[number], self._host, self.counters)
        self.counters.micro_batches += 1

    @staticmethod
    def _count_to(path):
        """Who holds the memory is said by module."""
        allocator.count_to({OUTSIDE: None, "": "the model"}.get(path, path))

    def _depart(self, frame, what):
        frame.departed = True
        self.counters.off_plan += 1
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"tidemark: in module {frame.path or 'root'!r}, call {frame.call + 1}, {what}; what it saves is kept",
                stacklevel=2,
            )

    def _planned_call(self, frame, func):
        """What the plan says of the kernel about to be called, or None: not on the plan."""
        calls = self._state.batch.calls.get((frame.path, frame.call), ())
        n, frame.calls = frame.calls, frame.calls + 1
        if frame.departed:
            return None
        if n >= len(calls) and frame.path == OUTSIDE:
            return None  # behind the loss: backward begins, metrics are taken
        if n >= len(calls) or calls[n] is None:
            self._depart(frame, f"{func} was not captured")
            return None
        if calls[n].func != kernels.name(func):
            self._depart(frame, f"{func} is called where {calls[n].func} was captured")
            return None
        return calls[n]

    def forward_call(self, func, args, kwargs):
        state = self._state
        planned = self._planned_call(self._frames.top, func)
        if kernels.kind(func) == kernels.CHANGES:
            for tensor in kernels.mutated(func, args, kwargs):
                state.before_change(tensor, planned is not None)
        if planned is None:
            return func(*args, **kwargs)
        if planned.due:
            state.advance_to(planned.op)
        if planned.recorded:
            if planned.first:
                state.recorded[planned.op] = []
            state.recorded[planned.op].append(record(func, args, kwargs, planned.outputs, state.storage_of))
        out = func(*args, **kwargs)
        if any(o is not None for o in planned.outputs):
            for storage, tensor in zip(planned.outputs, kernels.tensors(out)):
                if storage is not None:
                    state.take(storage, tensor)
                    state.makers[storage] = planned.op
        return out

    # Saved tensors

    def _pack(self, tensor):
        frame, state = self._frames.top, self._state
        n, frame.saves = frame.saves, frame.saves + 1
        if tensor.is_leaf and tensor.requires_grad:
            return tensor
        if state is not None and not in_backward() and not frame.departed:
            storage = state.storage_of(tensor)
            saves = state.batch.saves.get((frame.path, frame.call), ())
            if storage is not None and n < len(saves) and saves[n] is not None and saves[n].storage == storage:
                return state.save(tensor, saves[n])
            if n < len(saves) and saves[n] is not None and saves[n].storage is None:
                return KeptTensor(tensor, state if saves[n].use is not None else None, saves[n].use)
        return KeptTensor(tensor)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        state = packed.state
        if state is None:
            return packed.get()
        with self._mode.paused():
            if isinstance(packed, KeptTensor):
                state.advance_to(packed.use)
                out = packed.get()
            else:
                out = state.unpack(packed)
        if state is self._state:
            self._state = None  # from now on it lives as long as what autograd saved
        return out

    # While backward or the optimizer runs, kernels need not pass through Python

    def _lift(self):
        """May nest: an optimizer that steps in a hook of backward, a checkpoint that runs backward in backward."""
        lifted = _get_current_dispatch_mode() is self._mode
        if lifted:
            self._mode.__exit__(None, None, None)
        self._lifts.append(lifted)

    def _lower(self):
        if self._lifts and self._lifts.pop():
            self._mode.__enter__()

    def _lower_all(self):
        """An optimizer that failed has not lowered what it lifted."""
        while self._lifts:
            self._lower()

    def _watch_the_loop(self):
        self._hooks = [
            register_optimizer_step_pre_hook(lambda *_: self._lift()),
            register_optimizer_step_post_hook(lambda *_: self._lower()),
        ]
        self._engine = {name: getattr(torch.autograd, name) for name in ("backward", "grad")}
        for name, function in self._engine.items():
            setattr(torch.autograd, name, self._without_mode(function))

    def _without_mode(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            self._lift()
            try:
                return function(*args, **kwargs)
            finally:
                self._lower()

        return wrapped

    def _leave_the_loop(self):
        for name, function in self._engine.items():
            setattr(torch.autograd, name, function)
        for hook in self._hooks:
            hook.remove()


class _Mode(TorchDispatchMode):
    """Passes every kernel on, and tells the session before those that count."""

    def __init__(self, session):
        super().__init__()
        self._session = session
        self._pauses = 0

    def paused(self):
        return _Pause(self)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        session = self._session
        if session._host.leaving and kernels.kind(func) == kernels.CHANGES:
            for tensor in kernels.mutated(func, args, kwargs):
                session._host.settle(tensor)
        if self._pauses or session._state is None or kernels.kind(func) == kernels.PASSES:
            return func(*args, **kwargs)
        if in_backward():
            return func(*args, **kwargs)
        if not torch.is_grad_enabled() and session._frames.top.path == OUTSIDE:
            return func(*args, **kwargs)  # evaluation; inside a module it is the forward of an autograd function
        return session.forward_call(func, args, kwargs)


class _Pause:
    __slots__ = ("_mode",)

    def __init__(self, mode):
        self._mode = mode

    def __enter__(self):
        self._mode._pauses += 1

    def __exit__(self, *_):
        self._mode._pauses -= 1


class micro_batch:
    """Says which micro-batch, and which chunk of the model, the forwards inside belong to, for loops that do not run
    them in order:

    with tidemark.micro_batch(i, chunk): loss = model(...)
    """

    def __init__(self, index, chunk=0):
        self._index = index
        self._chunk = chunk

    def __enter__(self):
        self._session = _active
        if self._session is not None:
            chunks = self._session.plan.graph.chunks
            if not 0 <= self._chunk < chunks:
                raise SessionError(f"chunk {self._chunk} of a step captured with {chunks}")
            self._session.marked = self._index * chunks + self._chunk

    def __exit__(self, *_):
        if self._session is not None:
            self._session.marked = None


def report():
    """Of the session that is active."""
    if _active is None:
        raise SessionError("no session is active; ask the session itself: its report() answers afterwards too")
    return _active.report()


def session(plan, model=None, host=None):
    """A context manager, and a decorator, that applies `plan`. `host`: a HostMemory to swap to, which is left open; by
    default one of its own. See Session."""
    return Session(plan, model, host)
