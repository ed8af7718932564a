"""Phases of a training loop as a session sees them: forward, and backward and the optimizer, in which kernels need not be
seen. The session's engine is off the stack of modes meanwhile, and the allocator is told what is asked for in which."""

import contextlib
import functools
import weakref

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import allocator, library
from .backward_calls import around_backward, is_within_forward
from .torch_internals import forget_failed_backward


class LoopPhases:
    """`run`: the PlanFollower whose loop it is; it drops this behind the loop."""

    def __init__(self, run):
        self._run = run
        self._lifts, self._phase = [], ("none", True)
        self._captured_phases = {op.phase for op in run.plan.graph.ops}
        self._stepped = set()  # ids of parameters that an optimizer has stepped
        self._own = weakref.WeakKeyDictionary()  # optimizers: whether they step the model

    def watch(self, undo):
        undo.callback(register_optimizer_step_pre_hook(self._lift_optimizer).remove)
        undo.callback(register_optimizer_step_post_hook(self._lower_optimizer).remove)
        undo.enter_context(around_backward(self._unseen))
        undo.callback(self.lower_all)

    def has_stepped(self):
        """Whether an optimizer of the model's has, in this session."""
        return any(self._own.values())

    def begin_forward(self):
        self._set_phase("forward")

    @contextlib.contextmanager
    def aside(self):
        run, names = self._run, library.engine()
        steps, engine = run.steps, run.engine
        here = run.place.is_here()
        before = engine.expect(names.Kernels.unfollowed) if here else None
        steps.expect_requests(names.REQUESTS_TRANSIENT)
        try:
            yield
        finally:
            if here:
                engine.expect(before)
            self._expect_requests(*self._phase)

    def _set_phase(self, name, planned=True):
        """`planned`: what is asked of the allocator in it was captured."""
        self._expect_requests(name, planned)
        self._phase = name, planned
        if self._run.memory.is_limited:
            allocator.set_phase(name)

    def _expect_requests(self, phase, planned):
        requests = library.engine()
        is_planned = planned and phase != "none" and self._run.live is None
        self._run.steps.expect_requests(requests.REQUESTS_PLANNED if is_planned else requests.REQUESTS_OTHER)

    def _lift(self, phase, planned=True, is_within=False):
        """May nest: an optimizer that steps in a hook of backward, a checkpoint that runs backward in backward.
        `planned`: see _set_phase(); what is not is sorted by kernel. `is_within`: the phase before goes on behind it."""
        run = self._run
        on_top = run.engine.is_on_top()  # else another mode is in between, or it is lifted
        kernels = library.engine().Kernels
        before = run.engine.expect(kernels.unfollowed if planned else kernels.make_state)
        lifted = on_top and planned and not (run.is_recording and phase in self._captured_phases)
        if lifted:
            run.engine.pop()
        self._lifts.append((lifted, before, self._phase, is_within))
        self._set_phase(phase, planned)

    def _lift_optimizer(self, optimizer, *_):
        """A step that makes state is not the captured one."""
        run = self._run
        if run.place.is_here():
            self._lift("optimizer", planned=not self._may_make_state(optimizer))
            if run.live is not None:
                run.live.begin_optimizer(optimizer)

    def _may_make_state(self, optimizer):
        """Where a parameter is stepped for the first time, as one that another path has brought in."""
        given = (p for group in optimizer.param_groups for p in group["params"])
        fresh = [p for p in given if p.grad is not None and id(p) not in self._stepped]
        self._stepped.update(map(id, fresh))
        return any(p not in optimizer.state for p in fresh)

    def _lower_optimizer(self, optimizer, *_):
        run = self._run
        if not run.place.is_here():
            return
        self._lower()
        if run.live is not None:
            run.live.end_optimizer(optimizer)
        if optimizer not in self._own:
            ours = {id(p) for p in run.model.parameters()}
            self._own[optimizer] = any(id(p) in ours for group in optimizer.param_groups for p in group["params"])
        if self._own[optimizer]:
            run.begin_again()

    def _lower(self):
        if not self._lifts:
            return
        lifted, kernels, phase, is_within = self._lifts.pop()
        self._run.engine.expect(kernels)
        if lifted:
            self._run.engine.push()
        self._set_phase(*(phase if self._lifts or is_within else ("none", True)))

    def lower_all(self):
        """An optimizer that failed has not lowered what it lifted."""
        if not self._run.place.is_this_process():
            self._lifts = []
        while self._lifts:
            self._lower()

    def _unseen(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            run = self._run
            if not run.place.is_here():
                return function(*args, **kwargs)
            run.loads.has_backward, run.frames.is_open = True, False
            self._lift("backward", is_within=is_within_forward(run.frames, kwargs))
            recorded = contextlib.nullcontext() if run.live is None else run.live.backward(args, kwargs)
            try:
                with recorded:
                    return function(*args, **kwargs)
            except BaseException:
                forget_failed_backward()
                raise
            finally:
                self._lower()

        return wrapped
