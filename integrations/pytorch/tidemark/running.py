"""Runs a training loop by a plan: per tensor, whatever the loop looks like around it.

    with tidemark.session(plan, model):
        for batch in data: ...                      # as ever

Where the plan rebuilds or swaps storages, an engine in C++ (csrc/session_engine.h) counts kernels below autograd by
module call, as capture did, and records those that will be recomputed. Departures (another shape of the forward, a step
that only evaluates, a module that is not called) leave the tensors concerned where they are, with one warning. Bits are
never at stake: what is rebuilt is made by the same kernels from the same bytes.

Thread rule: one session in a process, in the thread that runs forward and backward.
"""

import contextlib
import dataclasses
import functools
import operator
import os
import threading
import warnings
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import allocator, library, logs
from .backward_calls import around_backward
from .compiled_code import CompiledCode
from .engine import check_device, make_batches, make_engine, make_steps, may_spill, serves_requests
from .errors import SessionError, TidemarkError
from .frames import OUTSIDE, ModuleFrames
from .load_history import LoadStep
from .load_limits import find, load_limits
from .live_recording import LiveRecording
from .memory_report import Report
from .plan_changes import PlanChanges
from .planning import Plan
from .recorded_step import may_plan_again, plan_with
from .sizes import parse_bytes
from .stand_in import fingerprint
from .torch_internals import in_backward, pop_saved_tensors_hooks, push_saved_tensors_hooks
from .tensor_parts import WrapperHooks, is_wrapper

_active = None
_RECORDED_STEPS = 3  # tries


@dataclasses.dataclass(frozen=True)
class Counters:
    """`recomputed`: operations; `swapped`: copies to host memory; `off_plan`: kept, restored or recomputed where the
    plan says otherwise; `copies`: all that the session's streams have carried, and what was waited
    for."""

    recomputed: int = 0
    swapped: int = 0
    off_plan: int = 0
    micro_batches: int = 0
    copies: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, seen, report):
        if report is None:
            return cls(off_plan=seen.off_plan, micro_batches=seen.micro_batches)
        return cls(
            report["rebuilt"],
            report["copies_out"],
            seen.off_plan + report["departures"],
            seen.micro_batches,
            report,
        )


class Session:
    def __init__(self, plan, model=None, host_bytes=0, copy_bytes_per_s=0, record=None, replan=True):
        if isinstance(plan, (str, os.PathLike)):
            plan = Plan.load(plan)
        if not isinstance(plan, Plan):
            raise SessionError(
                f"a {type(plan).__name__} is no plan; give what tidemark.plan() returned, or the path of a plan.json"
            )
        model = model if model is not None else plan.model()
        if model is None:
            raise SessionError(
                "the model the plan was made for is gone; give the model to tidemark.session(plan, model)"
            )
        if not isinstance(model, torch.nn.Module):
            raise SessionError(f"a {type(model).__name__} is no model; give the torch.nn.Module the plan was made for")
        if fingerprint(model) != plan.graph.fingerprint:
            raise SessionError(
                f"the plan is for {plan.graph.name}, and the parameters of this {type(model).__name__} are others; "
                f"capture and plan this model"
            )
        device = next((p.device for p in model.parameters()), torch.device(plan.graph.device))
        if device.type != plan.graph.device:
            raise SessionError(f"the plan is for {plan.graph.device!r} and the model is on {device.type!r}")
        self.plan = plan
        self.model = model
        self._device = device
        self._seen = library.engine().Counters()
        self._host_memory = host_bytes and parse_bytes(host_bytes), copy_bytes_per_s
        self._record = "" if record is None else os.fspath(record)
        self._steps = None
        self._tries = 0  # left, of recording a step
        self._hooks = None
        self._limit = None
        self._is_measured = False
        self._measured = None
        self._pid = self._thread = None
        self._undo = contextlib.ExitStack()
        self.marked = None
        self._warned = False
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._chunked = self._chunks = 0
        self._limits = None
        self._live = None  # LiveRecording, while a step is recorded
        self._is_to_record_path = False
        self._departed = []  # places, in this step
        self._told = {}  # rows of one part in this step, by pattern of the load
        self._has_backward = False  # in this step
        self._costly_before = 0
        self._changes = PlanChanges(plan, replan and not self._record)  # a log is of one plan
        self._keeps_changes = False  # they go on in the next call of a decorated function

    def __reduce__(self):
        raise SessionError("a session is of its process and its model; Plan.save() writes what another can begin with")

    def __enter__(self):
        global _active
        if _active is not None and _active._pid != os.getpid():
            _active._leave()  # it is the parent's
        if _active is not None:
            raise SessionError("a session is active already; leave it before the next begins")
        self._pid, self._thread = os.getpid(), threading.get_ident()
        check_device(self._device)
        self._is_measured = allocator.serves(self._device.type)
        with contextlib.ExitStack() as undo:
            self._limit = self._limit_memory()
            undo.callback(self._restore_limit)
            if self._is_measured:
                allocator.reset_peaks(self._device)
            if not self.plan.keeps_all or serves_requests(self.plan.graph) or self._is_to_record():
                self._watch(undo)
            undo.callback(self._take_measure)
            self._undo = undo.pop_all()
        _active = self
        logs.began(self)
        return self

    def __exit__(self, *error):
        if self._pid == os.getpid() and self._thread != threading.get_ident():
            raise SessionError("a session is left in another thread than it was begun in; leave it where it was begun")
        self._leave()

    def _leave(self):
        """All of it is undone, whatever part of that fails."""
        global _active
        if not self._keeps_changes:
            self._changes.cancel()
        try:
            self._undo.close()
        finally:
            if _active is self:
                _active = None
        if self._pid == os.getpid():
            logs.ended(self, self.counters, self._measured and self._measured["allocated_peak_bytes"])

    def _watch(self, undo):
        self._micro_batches, self._next_batch = self.plan.graph.micro_batches, 0
        self._ends_first = self.plan.graph.batches_that_end_first()
        self._lifts, self._phase = [], ("none", True)
        self._captured_phases = {op.phase for op in self.plan.graph.ops}
        self._stepped = set()  # optimizers
        self._own = weakref.WeakKeyDictionary()  # optimizers: whether they step the model
        self._ended = []  # reports of plans before
        self._tries = _RECORDED_STEPS if self._is_to_record() else 0
        self._is_recording = False
        self._steps = self._make_steps(self.plan)
        self._count_anew()
        allocator.ask_sessions_for_room()
        self._engine = make_engine(self.plan, self._steps, self._depart, self._seen)
        undo.callback(self._leave_engine)
        self._frames = ModuleFrames(self.model, self._begin, self._enter_frame, self._engine.frame, self._begin_again)
        undo.enter_context(self._frames)
        undo.enter_context(CompiledCode(self.model, self._frames, self.plan.graph.compiled))
        if not self.plan.keeps_all or self._tries:  # what is planned again may save less
            self._push_hooks()
        undo.callback(self._pop_hooks)
        self._engine.push()
        undo.callback(self._engine.pop)
        self._watch_the_loop(undo)
        undo.callback(self._lower_all)

    def _push_hooks(self):
        hooks = self._engine
        if any(is_wrapper(p) for p in self.model.parameters()):
            hooks = WrapperHooks(self._engine.pack, self._engine.unpack)
        self._hooks = hooks.pack, hooks.unpack
        push_saved_tensors_hooks(*self._hooks)

    def _pop_hooks(self):
        if self._hooks and self._thread == threading.get_ident():  # a child may have been forked in another
            pop_saved_tensors_hooks()
        self._hooks = None

    def _spare_hooks(self):
        """Of a plan that keeps everything, if none were pushed on top of them."""
        if self._hooks is None:
            return
        if self.plan.keeps_all and library.engine().top_pack_hook() is self._hooks[0]:
            self._pop_hooks()

    def _make_steps(self, plan):
        return make_steps(plan, self._device, *self._host_memory, self._record)

    def _leave_engine(self):
        if self._live is not None:
            self._live.close()
            self._live = None
        elif self._is_here():
            self._note_loads()
        if self._limit is not None:
            allocator.count_to(None)
            allocator.set_phase("none")
        try:
            self._engine.close()
        finally:
            self._engine = self._frames = None

    @property
    def counters(self):
        """What was done, since the session began."""
        return Counters.of(self._seen, _joined([*self._ended, self._steps.report()]) if self._steps else None)

    def _limit_memory(self):
        """The budget becomes a limit of the CPU's memory where Tidemark serves it. Returns the limit before."""
        if self._device.type != "cpu" or not self._is_measured:
            return None
        before = allocator.statistics().limit_bytes
        if self.plan.budget_bytes:
            allocator.empty_cache()
            allocator.set_limit(self.plan.budget_bytes)
        return before

    def _restore_limit(self):
        if self._limit is not None:
            allocator.set_limit(self._limit)

    def _take_measure(self):
        if self._is_measured:
            self._measured = self._measure()

    def _measure(self):
        """What is allocated in which phase is known of the CPU, and only where the session is told of the loop."""
        phases = None if self._steps is None or self._limit is None else allocator.phases_at_peak()
        return allocator.statistics(self._device).as_dict() | {"phases": phases}

    def report(self):
        """Predicted against measured, since the session began (or reset_peaks()); see Report."""
        if not self._is_measured:
            measured = None
        elif _active is self:
            measured = self._measure()
        else:
            measured = self._measured
        return Report.of(self.plan, self.model, measured, self.counters, self.load_limits(), self.rungs(), self.replans, self.paths)

    def picture(self, path=None, by="role", measured=None):
        """See tidemark.picture()."""
        from .picturing import picture

        return picture(self, path, by=by, measured=measured)

    def records_a_step(self):
        """Whether it does now, or will at the next step's begin: see _learn()."""
        return bool(self._tries)

    def __call__(self, function):
        """As a decorator: every call of the function is a session."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            session = Session(self.plan, self.model, *self._host_memory, self._record)
            session._changes, session._keeps_changes = self._changes, True
            with session:
                try:
                    return function(*args, **kwargs)
                finally:
                    self.plan = session.plan  # what it has learnt

        return wrapped

    # Loads above the planned ones

    def load_limits(self):
        """Up to which loads local rungs serve, predicted: a list of LoadLimit."""
        if self._limits is None or self._limits[0] is not self.plan:
            self._limits = self.plan, load_limits(self.plan, may_spill(self.plan))
        return self._limits[1]

    def rungs(self):
        """What was done for loads above the planned ones, so far: requests served from memory that stands empty by the
        plan, storages that gave up device memory, and calls of layers in chunks."""
        of = self.counters.copies
        return {
            "room": of.get("requests_guests", 0),
            "spill": of.get("spilled", 0) + of.get("dropped", 0),
            "chunks": self._chunked,
        }

    def chunks_for(self, module, rows):
        """See tidemark.chunks_for()."""
        path = self._paths.get(id(module))
        limit = None if path is None else find(self.load_limits(), path)
        if limit is None:
            return 1
        if self._is_here():
            self._told[limit.load.pattern] = max(rows, self._told.get(limit.load.pattern, 0))
        if rows <= limit.served:
            return 1
        return -(-rows // self._changes.chunk_rows(limit.load))

    def count_chunks(self, chunks):
        self._chunked += 1
        self._chunks += chunks

    def leave_plan(self):
        if self._steps is not None and self._is_here() and torch.is_grad_enabled():
            self._engine.leave_plan()

    @contextlib.contextmanager
    def aside(self):
        if self._steps is None or self._pid != os.getpid():
            yield
            return
        steps, names = self._steps, library.engine()
        here = self._is_here()
        before = self._engine.expect(names.Kernels.unfollowed) if here else None
        steps.expect_requests(names.REQUESTS_TRANSIENT)
        try:
            yield
        finally:
            if here:
                self._engine.expect(before)
            self._expect_requests(*self._phase)

    # Forward

    def _begin(self):
        self._lower_all()
        if os.getpid() != self._pid:
            raise SessionError("the session was begun in another process; begin one in each process after the fork")
        number = (self._next_number() if self.marked is None else self.marked) % self._micro_batches
        self._next_batch = number + 1
        self._frames.micro_batch = number
        is_first = self._engine.begins_step(number)
        if not (is_first and self._change_plan(number)):
            self._engine.begin(number)
            if is_first and self._is_to_record_path:
                self._is_to_record_path = False
                self._begin_recording()
        if self._live is not None:
            self._live.begin_forward()
        self._set_phase("forward")

    def _change_plan(self, number):
        """Between steps. Whether the micro-batch has begun, by another plan."""
        if self._tries:
            self._learn()
            self._count_anew()
            return False
        if self._live is not None:
            self._changes.take_recording(self.plan, self._end_recording())
        else:
            self._note_loads()
        plan = self._changes.next_plan(self.plan)
        if plan is None or not self._begin_with(plan, number):
            self._is_to_record_path = self._changes.is_to_record(self.plan) and self._is_alone()
            return False
        self._changes.follow()
        return True

    # Steps that are recorded, as their path is not known

    def _is_alone(self):
        """Whether no other hooks are on top of the session's, which would be taken off in their place."""
        top = library.engine().top_pack_hook()
        return top is None if self._hooks is None else top is self._hooks[0]

    def _begin_recording(self):
        self._pop_hooks()
        self._engine.pop()
        self._live = LiveRecording(self.model, self._frames, self._device.type)

    def _end_recording(self):
        """The Graph of the step, or None."""
        live, self._live = self._live, None
        live.end()
        live.close()
        self._engine.push()
        if not self.plan.keeps_all or self._tries:
            self._push_hooks()
        self._count_anew()
        like = self.plan.graph
        graph = None if live.has_made_state() else live.graph(like.name, like.device, like.micro_batches)
        if graph is not None:
            graph.chunks, graph.host_link, graph.loads, graph.model = like.chunks, like.host_link, like.loads, like.model
            graph.compiled = like.compiled
            graph.knows_requests = allocator.serves(like.device)
        return graph

    def _next_number(self):
        """A forward without a backward, as of a validation or of a loss that the loop throws away, is none of the
        step's: its number is that of the next."""
        if self._next_batch == 0:
            return 0
        last = self._next_batch - 1
        return last if self._engine.is_abandoned(last in self._ends_first) else self._next_batch

    def _begin_again(self):
        """The next forward is the first of a step: the last one failed, or the optimizer has stepped. Within backward an
        optimizer may step for every micro-batch, which says nothing."""
        if not in_backward():
            self._next_batch = 0

    # Requests of a step whose capture did not measure them

    def _is_to_record(self):
        graph = self.plan.graph
        is_known = graph.knows_requests or self._record  # a log is of one plan
        return allocator.serves(graph.device) and not is_known and may_plan_again(self.plan)

    def _learn(self):
        """Between steps: one is recorded, and the plan made again with what it asked for. The step that makes an
        optimizer's state is not the captured one, so a second is."""
        if self._is_recording:
            self._tries -= 1
            again = plan_with(self.plan, self._engine.end_record())
            self._is_recording = False
            if again is not None:
                self._tries = 0
                self._follow(again, self._make_steps(again))
            elif not self._tries:
                warnings.warn(
                    "tidemark: the steps ran otherwise than captured, or do not fit with their workspaces; what they ask "
                    "for is not served where the plan has it (tidemark.capture(measured=True) measures it beforehand)",
                    stacklevel=2,
                )
        if self._tries:
            self._engine.begin_record(allocator.handle_of(self.plan.graph.device).value)
            self._is_recording = True

    # Plans for larger loads

    @property
    def replans(self):
        """How often another plan, for larger loads, was taken up."""
        return self._changes.followed

    @property
    def paths(self):
        """How often a plan for another path of the loop, or for batches that have become larger, was taken up."""
        return self._changes.paths_followed

    def _note_loads(self):
        """Of the step that is over; one that only evaluates is none."""
        if self._has_backward:
            self._changes.end_step(self.plan, LoadStep(self._told, self._costly() - self._costly_before, tuple(self._departed)))
        self._count_anew()

    def _costly(self):
        """So far: what was spilled or run in chunks."""
        if not self._changes.is_open:
            return 0
        rungs = self.rungs()
        return rungs["spill"] + rungs["chunks"]

    def _count_anew(self):
        self._told, self._departed, self._has_backward, self._costly_before = {}, [], False, self._costly()

    def _begin_with(self, plan, number):
        """Begins the step by `plan`. False: not begun, as the memory for it is not to be had; the plan before has it as
        ever. That is so where the loop still holds what stands there, which was made in the step before."""
        if self._hooks is None and not plan.keeps_all:
            if library.engine().top_pack_hook() is not None:
                return False  # others would be taken off in the place of the session's
            self._push_hooks()
        try:
            steps = self._make_steps(plan)
        except TidemarkError as error:
            self._changes.fail(error)
            self._spare_hooks()
            return False
        before, is_served = self.plan, self._steps.report()["planned_bytes"] > 0
        reserved = allocator.statistics(self._device.type).reserved_bytes if is_served else 0
        self._follow(plan, steps)
        self._engine.begin(number)
        if not is_served or self._has_taken_over(reserved):
            return True
        try:
            again = self._make_steps(before)
        except TidemarkError as error:
            self._changes.fail(error)
            return True  # with memory that the allocator finds elsewhere
        self._follow(before, again)
        self._ended.pop()  # of a step that was none
        self._seen.micro_batches -= 1
        return False

    def _has_taken_over(self, reserved_bytes):
        """Whether the plan that is followed has the memory of the one before, and no more beside it.
        `reserved_bytes`: by the allocator, before."""
        planned = self._steps.report()["planned_bytes"]
        if planned == 0 or self._limit is not None:
            return planned > 0
        more = allocator.statistics(self._device.type).reserved_bytes - reserved_bytes
        return more <= planned // 2

    def _follow(self, plan, steps):
        """`steps`: those of the plan."""
        self._engine.follow(make_batches(plan.graph, steps), steps)
        self._ended.append(self._steps.report())
        self.plan, self._steps = plan, steps
        self._spare_hooks()

    def _enter_frame(self, frame):
        if self._live is None:
            self._engine.enter(frame)
        if self._limit is not None:  # who holds the memory is said by module
            allocator.count_to({OUTSIDE: None, "": "the model"}.get(frame.path, frame.path))

    def _depart(self, path, call, what):
        self._departed.append((path, call, what))
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"tidemark: in module {path or 'root'!r}, call {call + 1}, {what}; what it saves is kept",
                stacklevel=2,
            )

    # While backward or the optimizer runs, kernels need not be seen

    def _set_phase(self, name, planned=True):
        """`planned`: what is asked of the allocator in it was captured."""
        self._expect_requests(name, planned)
        self._phase = name, planned
        if self._limit is not None:
            allocator.set_phase(name)

    def _expect_requests(self, phase, planned):
        requests = library.engine()
        is_planned = planned and phase != "none" and self._live is None
        self._steps.expect_requests(requests.REQUESTS_PLANNED if is_planned else requests.REQUESTS_OTHER)

    def _lift(self, phase, planned=True):
        """May nest: an optimizer that steps in a hook of backward, a checkpoint that runs backward in backward.
        `planned`: see _set_phase(); what is not is sorted by kernel."""
        on_top = self._engine.is_on_top()  # else another mode is in between, or it is lifted
        kernels = library.engine().Kernels
        before = self._engine.expect(kernels.unfollowed if planned else kernels.make_state)
        lifted = on_top and planned and not (self._is_recording and phase in self._captured_phases)
        if lifted:
            self._engine.pop()
        self._lifts.append((lifted, before, self._phase))
        self._set_phase(phase, planned)

    def _lift_optimizer(self, optimizer, *_):
        """A step that makes the optimizer's state is not the captured one."""
        if self._is_here():
            self._lift("optimizer", planned=bool(optimizer.state) or id(optimizer) in self._stepped)
            self._stepped.add(id(optimizer))
            if self._live is not None:
                self._live.begin_optimizer(optimizer)

    def _lower_optimizer(self, optimizer, *_):
        if not self._is_here():
            return
        self._lower()
        if self._live is not None:
            self._live.end_optimizer(optimizer)
        if optimizer not in self._own:
            ours = {id(p) for p in self.model.parameters()}
            self._own[optimizer] = any(id(p) in ours for group in optimizer.param_groups for p in group["params"])
        if self._own[optimizer]:
            self._begin_again()

    def _lower(self):
        if not self._lifts:
            return
        lifted, kernels, phase = self._lifts.pop()
        self._engine.expect(kernels)
        if lifted:
            self._engine.push()
        self._set_phase(*(phase if self._lifts else ("none", True)))

    def _lower_all(self):
        """An optimizer that failed has not lowered what it lifted."""
        if self._pid != os.getpid():
            self._lifts = []
        while self._lifts:
            self._lower()

    def _watch_the_loop(self, undo):
        undo.callback(register_optimizer_step_pre_hook(self._lift_optimizer).remove)
        undo.callback(register_optimizer_step_post_hook(self._lower_optimizer).remove)
        undo.enter_context(around_backward(self._unseen))

    def _unseen(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            if not self._is_here():
                return function(*args, **kwargs)
            self._has_backward, self._frames.is_open = True, False
            self._lift("backward")
            recorded = contextlib.nullcontext() if self._live is None else self._live.backward(args, kwargs)
            try:
                with recorded:
                    return function(*args, **kwargs)
            finally:
                self._lower()

        return wrapped

    def _is_here(self):
        """In the session's own thread, and before its end, which what was imported meanwhile outlives."""
        return _active is self and self._thread == threading.get_ident()


class micro_batch:
    """Says which micro-batch, and which chunk of the model, the forwards inside belong to, for loops that do not run
    them in order:

    with tidemark.micro_batch(i, chunk): loss = model(...)
    """

    def __init__(self, index, chunk=0):
        self._index = _number(index, "micro-batch")
        self._chunk = _number(chunk, "chunk")

    def __enter__(self):
        self._session = _active
        if self._session is not None:
            chunks = self._session.plan.graph.chunks
            if not 0 <= self._chunk < chunks:
                raise SessionError(f"chunk {self._chunk} of a step captured with {chunks}")
            self._before = self._session.marked
            self._session.marked = self._index * chunks + self._chunk

    def __exit__(self, *_):
        if self._session is not None:
            self._session.marked = self._before


def _number(value, what):
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise SessionError(f"{value!r} is no number of a {what}; they are counted from 0")
    return number


def _joined(reports):
    """Counts add up; what is said of now, and what is a largest, is that of the latest."""
    joined = dict(reports[-1])
    for key in joined.keys() - _OF_THE_LATEST:
        joined[key] = sum(report[key] for report in reports)
    return joined


_OF_THE_LATEST = {
    "copy_streams",
    "pinned_bytes",
    "pinned_peak_bytes",
    "pinned_shortfalls",
    "steps_open",
    "planned_bytes",
}


def active():
    """The session of this process that is active, or None."""
    return _active if _active is not None and _active._pid == os.getpid() else None


def report():
    """Of the session that is active."""
    if _active is None:
        raise SessionError("no session is active; ask the session itself: its report() answers afterwards too")
    return _active.report()


def session(plan, model=None, host_bytes=0, copy_bytes_per_s=0, record=None, replan=True):
    """A context manager, and a decorator, that applies `plan`: a Plan, or the path of its file. `host_bytes`: most pinned
    host memory to swap to; by default what the plan says. `copy_bytes_per_s`: on a CPU, copies are no quicker than that,
    to try a plan for a link. `record`: path of a file for a log of what the session was told and did, replaced when the
    session begins; none where nothing is to be followed (docs/pytorch.md). `replan`: where loads are above the
    planned ones in half of the steps, a plan for larger ones is made in a thread beside training and, once it is there,
    followed from the next step on. Thread rule: that of this module. See Session."""
    return Session(plan, model, host_bytes, copy_bytes_per_s, record, replan)
