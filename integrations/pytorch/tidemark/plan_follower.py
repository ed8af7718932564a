"""A plan as it is followed through a training loop: what a session does step by step, where the loop has to be watched.
Another plan may take the place of the first between steps: one that knows what the step asks of the allocator, or is for
larger loads or for another path (plan_changes.py).

Thread rule: the thread that the session was begun in.
"""

import warnings

from . import allocator, library
from .compiled_code import CompiledCode
from .engine import make_batches, make_engine, make_steps
from .errors import SessionError, TidemarkError
from .frames import OUTSIDE, ModuleFrames
from .live_recording import LiveRecording
from .loop_phases import LoopPhases
from .recorded_step import may_plan_again, plan_with
from .saved_hooks import SavedHooks
from .session_counters import Counters
from .step_loads import StepLoads
from .torch_internals import in_backward

_RECORDED_STEPS = 3  # tries
_HOLDERS = {OUTSIDE: None, "": "the model"}  # else the module's path


class PlanFollower:
    """Of one session. `place`, `memory`: its SessionPlace and SessionMemory; `changes`: PlanChanges; `host_memory`: most
    pinned bytes and a copy's bytes a second; `record`: path of a log, or ""."""

    def __init__(self, plan, model, device, place, memory, changes, host_memory, record):
        self.plan, self.model = plan, model
        self.place, self.memory, self.changes = place, memory, changes
        self.loads = StepLoads(model, changes)
        self.seen = library.engine().Counters()
        self._device, self._host_memory, self._record = device, host_memory, record
        self._hooks = SavedHooks(model, place)
        self.engine = self.frames = self.phases = None  # while the loop is watched
        self.steps = None  # from then on
        self._ended = []  # reports of plans before
        self._tries = 0  # left, of recording a step
        self.is_recording = False
        self.live = None  # LiveRecording, while a step is recorded
        self.recorded = 0  # steps of which a recording began
        self._is_to_record_path = False
        self.marked = None  # the micro-batch that the loop says comes
        self._warned = False

    @property
    def counters(self):
        """What was done, since the session began."""
        return Counters.of(self.seen, [*self._ended, self.steps.report()] if self.steps else [])

    @property
    def is_watching(self):
        """Or was, behind the session: the loop is left alone where a plan keeps everything and serves nothing."""
        return self.steps is not None

    def _copies(self):
        return self.counters.copies

    def records_a_step(self):
        """Whether it does now, or may at the next step's begin: see _learn() and _begin_recording()."""
        if self._tries or self.live is not None or self._is_to_record_path:
            return True
        return self.changes.may_record(self.plan, tuple(self.loads.departed))

    def watch(self, undo):
        """From here on the loop is followed, until `undo` is closed."""
        self._micro_batches, self._next_batch = self.plan.graph.micro_batches, 0
        self._ends_first = self.plan.graph.batches_that_end_first()
        self._ended = []  # reports of plans before
        self._tries = _RECORDED_STEPS if self.is_to_record() else 0
        self.is_recording = False
        self.steps = self._make_steps(self.plan)
        self.loads.count_anew(self._copies)
        allocator.ask_sessions_for_room()
        self.engine = make_engine(self.plan, self.steps, self._depart, self.seen)
        undo.callback(self._leave_engine)
        self.frames = ModuleFrames(self.model, self._begin, self._enter_frame, self.engine.frame, self._fail_forward)
        undo.enter_context(self.frames)
        undo.enter_context(CompiledCode(self.model, self.frames, self.plan.graph.compiled))
        if not self.plan.keeps_all or self._tries:  # what is planned again may save less
            self._hooks.push(self.engine, self.plan.graph)
        undo.callback(self._hooks.pop)
        self.engine.push()
        undo.callback(self.engine.pop)
        self.phases = LoopPhases(self)
        self.phases.watch(undo)

    def _make_steps(self, plan):
        return make_steps(plan, self._device, *self._host_memory, self._record)

    def _leave_engine(self):
        if self.live is not None:
            self._hooks.leave(self.live.close())
            self.live = None
        elif self.place.is_here():
            self.loads.end_step(self.plan, self._copies)
        if self.memory.is_limited:
            allocator.count_to(None)
            allocator.set_phase("none")
        try:
            self.engine.close()
        finally:
            self.engine = self.frames = self.phases = None

    # Forward

    def _begin(self):
        self.phases.lower_all()
        if not self.place.is_this_process():
            raise SessionError("the session was begun in another process; begin one in each process after the fork")
        number = (self._next_number() if self.marked is None else self.marked) % self._micro_batches
        self._next_batch = number + 1
        self.frames.micro_batch = number
        is_first = self.engine.begins_step(number)
        if not (is_first and self._change_plan(number)):
            self.engine.begin(number)
            if is_first and self._is_to_record_path:
                self._is_to_record_path = False
                self._begin_recording()
        if self.live is not None:
            self.live.begin_forward()
        self.phases.begin_forward()

    def _change_plan(self, number):
        """Between steps. Whether the micro-batch has begun, by another plan."""
        if self._tries:
            self._learn()
            self.loads.count_anew(self._copies)
            return False
        if self.live is not None:
            self._end_recording()
        else:
            self._put_hooks_back()
            self.loads.end_step(self.plan, self._copies)
        plan = self.changes.next_plan(self.plan)
        if plan is None or not self._begin_with(plan, number):
            is_wanted = self.changes.is_to_record(self.plan)
            self._is_to_record_path = is_wanted and self._hooks.are_on_top() and self.engine.is_on_top()
            return False
        self.changes.follow()
        return True

    # Steps that are recorded, as their path is not known

    def _begin_recording(self):
        self._hooks.pop()
        self.engine.pop()
        self.recorded += 1
        self.live = LiveRecording(self.model, self.frames, self._device.type)

    def _end_recording(self):
        live, self.live = self.live, None
        live.end()
        self._hooks.leave(live.close(self.engine.push))
        self._put_hooks_back()
        self.loads.count_anew(self._copies)
        like = self.plan.graph
        graph = None if live.has_made_state() else live.graph(like.name, like.device, like.micro_batches)
        has_optimizer = like.steps_parameters() or self.phases.has_stepped()
        if graph is not None and has_optimizer and not graph.steps_parameters():
            graph = None  # the optimizer was passed over, as where gradients overflow
        if graph is not None:
            graph.chunks, graph.host_link, graph.loads, graph.model = like.chunks, like.host_link, like.loads, like.model
            graph.compiled, graph.gaps_bytes = like.compiled, like.gaps_bytes
            graph.knows_requests = allocator.serves(like.device)
        self.changes.take_recording(self.plan, graph, live.failure)

    def _put_hooks_back(self):
        """Not on top of the loop's own, which would be popped in their place."""
        if not self.plan.keeps_all and not self._hooks.are_pushed and self._hooks.are_on_top():
            self._hooks.push(self.engine, self.plan.graph)

    def _next_number(self):
        """A forward without a backward, as of a validation or of a loss that the loop throws away, is none of the
        step's: its number is that of the next."""
        if self._next_batch == 0:
            return 0
        last = self._next_batch - 1
        return last if self.engine.is_abandoned(last in self._ends_first) else self._next_batch

    def begin_again(self):
        """The next forward is the first of a step: the last one failed, or the optimizer has stepped. Within backward an
        optimizer may step for every micro-batch, which says nothing."""
        if not in_backward():
            self._next_batch = 0

    def _fail_forward(self):
        if self.live is not None:
            self.live.fail_forward()
        self.begin_again()

    # Requests of a step whose capture did not measure them

    def is_to_record(self):
        graph = self.plan.graph
        is_known = graph.knows_requests or self._record  # a log is of one plan
        return allocator.serves(graph.device) and not is_known and may_plan_again(self.plan)

    def _learn(self):
        """Between steps: one is recorded, and the plan made again with what it asked for. The step that makes an
        optimizer's state is not the captured one, so a second is."""
        if self.is_recording:
            self._tries -= 1
            again = plan_with(self.plan, self.engine.end_record())
            self.is_recording = False
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
            self.engine.begin_record(allocator.handle_of(self.plan.graph.device).value)
            self.recorded += 1
            self.is_recording = True

    # Another plan

    def _begin_with(self, plan, number):
        """Begins the step by `plan`. False: not begun, as the memory for it is not to be had; the plan before has it as
        ever. That is so where the loop still holds what stands there, which was made in the step before."""
        if not self._hooks.are_pushed and not plan.keeps_all:
            if not self._hooks.are_on_top():
                return False  # others would be taken off in the place of the session's
            self._hooks.push(self.engine, plan.graph)
        try:
            steps = self._make_steps(plan)
        except TidemarkError as error:
            self.changes.fail(error)
            self._hooks.spare(self.plan)
            return False
        before, is_served = self.plan, self.steps.report()["planned_bytes"] > 0
        reserved = allocator.statistics(self._device.type).reserved_bytes if is_served else 0
        self._follow(plan, steps)
        self.engine.begin(number)
        if not is_served or self._has_taken_over(reserved):
            return True
        try:
            again = self._make_steps(before)
        except TidemarkError as error:
            self.changes.fail(error)
            return True  # with memory that the allocator finds elsewhere
        self._follow(before, again)
        self._ended.pop()  # of a step that was none
        self.seen.micro_batches -= 1
        return False

    def _has_taken_over(self, reserved_bytes):
        """Whether the plan that is followed has the memory of the one before, and no more beside it.
        `reserved_bytes`: by the allocator, before."""
        planned = self.steps.report()["planned_bytes"]
        if planned == 0 or self.memory.is_limited:
            return planned > 0
        more = allocator.statistics(self._device.type).reserved_bytes - reserved_bytes
        return more <= planned // 2

    def _follow(self, plan, steps):
        """`steps`: those of the plan."""
        self.engine.follow(make_batches(plan.graph, steps), steps)
        self._ended.append(self.steps.report())
        self.plan, self.steps = plan, steps
        self._hooks.spare(self.plan)

    def _enter_frame(self, frame, path):
        if self.live is None:
            self.engine.enter(frame)
        if self.memory.is_limited:  # who holds the memory is said by module
            allocator.count_to(_HOLDERS.get(path, path))

    def _depart(self, path, call, what):
        self.loads.departed.append((path, call, what))
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"tidemark: in module {path or 'root'!r}, call {call + 1}, {what}; what it saves is kept",
                stacklevel=2,
            )
