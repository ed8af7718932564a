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
import functools
import numbers
import os

import torch

from . import logs, picture_page
from .engine import check_device, serves_requests
from .errors import SessionError
from .memory_report import Report
from .plan_changes import PlanChanges
from .plan_follower import PlanFollower
from .planning import Plan
from .session_memory import SessionMemory
from .session_place import SessionPlace
from .sizes import format_bytes, parse_bytes
from .stand_in import fingerprint

_active = None


class Session:
    def __init__(self, plan, model=None, host_bytes=0, copy_bytes_per_s=0, record=None, replan=True, changes=None):
        """`changes`: PlanChanges of sessions before, which go on in this one and behind it."""
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
        if not _is_rate(copy_bytes_per_s):
            raise SessionError(f"copy_bytes_per_s is {copy_bytes_per_s!r}; right would be bytes a second, or 0: as memory is")
        self.model = model
        self._device = device
        self._host_memory = host_bytes and parse_bytes(host_bytes), int(copy_bytes_per_s)
        self._record = "" if record is None else os.fspath(record)
        self._keeps_changes = changes is not None  # they go on in the next call of a decorated function
        self._changes = changes
        if changes is None:
            self._changes = PlanChanges(plan, replan and not self._record)  # a log is of one plan
        self._place = SessionPlace()
        self._memory = SessionMemory(device)
        self._follower = PlanFollower(
            plan, model, device, self._place, self._memory, self._changes, self._host_memory, self._record
        )
        self._undo = contextlib.ExitStack()

    @property
    def plan(self):
        """The one that is followed now."""
        return self._follower.plan

    def __reduce__(self):
        raise SessionError("a session is of its process and its model; Plan.save() writes what another can begin with")

    def __enter__(self):
        global _active
        if _active is not None and not _active._place.is_this_process():
            _active._leave()  # it is the parent's
        if _active is not None:
            raise SessionError("a session is active already; leave it before the next begins")
        self._place.settle()
        check_device(self._device)
        follower = self._follower
        with contextlib.ExitStack() as undo:
            self._memory.begin(self.plan.budget_bytes, undo)
            if not self.plan.keeps_all or serves_requests(self.plan.graph) or follower.is_to_record():
                follower.watch(undo)
            undo.callback(self._end_memory)
            self._undo = undo.pop_all()
        _active = self
        self._place.is_open = True
        logs.began(self)
        return self

    def __exit__(self, _, error, __):
        if isinstance(error, torch.OutOfMemoryError) and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(self._why_out_of_memory())
        if self._place.is_this_process() and not self._place.is_this_thread():
            raise SessionError("a session is left in another thread than it was begun in; leave it where it was begun")
        self._leave()

    def _why_out_of_memory(self):
        counters = self.counters
        said = f"tidemark: the plan has {format_bytes(self.plan.peak_bytes)} of {format_bytes(self.plan.budget_bytes)}"
        if serves_requests(self.plan.graph) and counters.copies.get("planned_bytes") == 0:
            return (
                f"{said}, and memory in one piece for it was not to be had beside what stands there, which may be scattered; "
                f"record the step in this process, for a plan that knows the gaps, or give a larger budget"
            )
        if counters.off_plan == 0:
            return f"{said}, and no step departed from it; leave more to what the loop holds besides (reserve=), or to the budget"
        return (
            f"{said}, and steps departed from it {counters.off_plan} times, as where a batch is larger or another branch is "
            f"taken; capture the largest batch and the usual branch, or give a larger budget"
        )

    def _leave(self):
        """All of it is undone, whatever part of that fails."""
        global _active
        if not self._keeps_changes:
            self._changes.cancel()
        try:
            self._undo.close()
        finally:
            self._place.is_open = False
            if _active is self:
                _active = None
        if self._place.is_this_process():
            logs.ended(self, self.counters, self._memory.peak_bytes)

    def _end_memory(self):
        self._memory.end(knows_phases=self._follower.is_watching)

    @property
    def counters(self):
        """What was done, since the session began."""
        return self._follower.counters

    def report(self):
        """Predicted against measured, since the session began (or reset_peaks()); see Report."""
        measured = self._memory.measured(_active is self, knows_phases=self._follower.is_watching)
        return Report.of(self.plan, self.model, measured, self.counters, self.load_limits(), self.rungs(), self.replans, self.paths)

    def picture(self, path=None, by="role", measured=None):
        """See tidemark.picture()."""
        return picture_page.of_plan(self.plan, by, measured, self.report().measured_peak_bytes).saved(path)

    def records_a_step(self):
        """Whether it does now, or may at the next step's begin."""
        return self._follower.records_a_step()

    @property
    def recorded_steps(self):
        """Of which a recording began, so far."""
        return self._follower.recorded

    def __call__(self, function):
        """As a decorator: every call of the function is a session."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            session = Session(self.plan, self.model, *self._host_memory, self._record, changes=self._changes)
            with session:
                try:
                    return function(*args, **kwargs)
                finally:
                    self._follower.plan = session.plan  # what it has learnt

        return wrapped

    # Plans for larger loads, and for other paths

    @property
    def replans(self):
        """How often another plan, for larger loads, was taken up."""
        return self._changes.followed

    @property
    def paths(self):
        """How often a plan for another path of the loop, or for batches that have become larger, was taken up."""
        return self._changes.paths_followed

    # Loads above the planned ones

    def load_limits(self):
        """Up to which loads local rungs serve, predicted: a list of LoadLimit."""
        return self._follower.loads.limits(self.plan)

    def rungs(self):
        """What was done for loads above the planned ones, so far: requests served from memory that stands empty by the
        plan, storages that gave up device memory, and calls of layers in chunks."""
        return self._follower.loads.rungs(self.counters.copies)

    def chunks_for(self, module, rows):
        """See tidemark.chunks_for()."""
        return self._follower.loads.chunks_for(module, rows, self.plan, counts=self._place.is_here())

    def count_chunks(self, chunks):
        self._follower.loads.count_chunks(chunks)

    def leave_plan(self):
        if self._follower.is_watching and self._place.is_here() and torch.is_grad_enabled():
            self._follower.engine.leave_plan()

    def aside(self):
        if self._follower.is_watching and self._place.is_this_process():
            return self._follower.phases.aside()
        return contextlib.nullcontext()

    # Micro-batches

    @property
    def marked(self):
        """The one that the loop says comes, among those of all chunks, or None."""
        return self._follower.marked

    @marked.setter
    def marked(self, number):
        self._follower.marked = number


def active():
    """The session of this process that is active, or None."""
    return _active if _active is not None and _active._place.is_this_process() else None


def refuse_within(what):
    """Where a session is active in this thread: both would see the same kernels."""
    if _active is not None and _active._place.is_here():
        raise SessionError(f"{what} within an active session, which sees the same kernels; leave the session before")


def report():
    """Of the session that is active."""
    if _active is None:
        raise SessionError("no session is active; ask the session itself: its report() answers afterwards too")
    return _active.report()


def _is_rate(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 <= value <= 2**60


def session(plan, model=None, host_bytes=0, copy_bytes_per_s=0, record=None, replan=True):
    """A context manager, and a decorator, that applies `plan`: a Plan, or the path of its file. `host_bytes`: most pinned
    host memory to swap to; by default what the plan says. `copy_bytes_per_s`: on a CPU, copies are no quicker than that,
    to try a plan for a link. `record`: path of a file for a log of what the session was told and did, replaced when the
    session begins; none where nothing is to be followed (docs/pytorch.md). `replan`: where loads are above the
    planned ones in half of the steps, a plan for larger ones is made in a thread beside training and, once it is there,
    followed from the next step on. Thread rule: that of this module. See Session."""
    return Session(plan, model, host_bytes, copy_bytes_per_s, record, replan)
