"""Plans for larger loads that a session asks for, and what has become of them.

Thread rule: for the thread that runs the session, at its step boundaries.
"""

import warnings

from . import logs
from .load_history import LoadHistory, growing
from .recorded_step import may_plan_again
from .replanning import Replanning

_SWITCHES = 8  # step boundaries at which a plan that is there may be taken up


class PlanChanges:
    """Of one session, or of a decorated function's in turn. `plan`: the first. `is_open`: whether any other is to be
    asked for."""

    def __init__(self, plan, is_open):
        self.followed = 0
        self._ready = None  # a Plan that is to be followed
        self._history = LoadHistory()
        self._chunk_rows = {load.pattern: max(load.planned, 1) for load in plan.graph.loads}
        self._is_open = is_open
        self._running = None
        self._switches = 0
        self._is_due = False  # a step has ended since it was last asked for a plan

    def looks_at(self, plan):
        """Whether it counts what steps by `plan` need: a plan for larger loads may come of it."""
        return self._is_open and bool(growing(plan.graph.loads))

    def end_step(self, plan, step):
        """A step by `plan` with a backward, a LoadStep, is over. Forwards that only evaluate are no steps: what they
        hold is no reason to give a plan up."""
        self._is_due = True
        if self.looks_at(plan):
            self._history.add(step)

    def next_plan(self, plan):
        """Between steps by `plan`: what has been made meanwhile, to be followed if its memory is to be had, or None. Asks
        for one where it is time. Waits for nothing."""
        if not self._is_due:
            return None
        self._is_due = False
        if self._ready is not None:
            self._switches -= 1
            if self._switches == 0:
                self._give_up()
        elif self._running is not None:
            self._take(self._running.poll())
        elif wanted := self._history.wanted(plan.graph.loads):
            self._ask(plan, wanted)
        return self._ready

    def chunk_rows(self, load):
        """Rows of one part to a chunk: those of the first plan. A layer in chunks has all that a part's rows need at
        once, where a plan for more of them may have that in turn."""
        return self._chunk_rows[load.pattern]

    def follow(self):
        """The one that was ready is followed from now on."""
        logs.replanned(self._ready)
        self._ready = None
        self.followed += 1
        self._history.forget()

    def fail(self, error):
        """No more is asked for."""
        self._ready = None
        self._is_open = False
        self._warn(f"planning for larger loads failed ({error})")

    def cancel(self):
        """Returns at once; a plan that is being made ends by itself."""
        if self._running is not None:
            self._running.cancel()
        self._running = self._ready = None

    def join(self):
        """Waits for the plan that is being made, if one is: for tests."""
        if self._running is not None:
            self._running.join()

    def _ask(self, plan, wanted):
        if not may_plan_again(plan):
            self._is_open = False
            return
        self._history.ask()
        try:
            self._running = Replanning(plan, wanted)
        except RuntimeError as error:  # there is no thread to be had
            self.fail(error)

    def _take(self, outcome):
        if outcome is None:
            return
        self._running = None
        if outcome.error is not None:
            self.fail(outcome.error)
            return
        self._history.limit(outcome.too_many)
        if outcome.plan is not None:
            self._ready, self._switches = outcome.plan, _SWITCHES
        elif outcome.too_many:
            loads = ", ".join(f"{rows} rows of one part of {pattern}" for pattern, rows in outcome.too_many.items())
            self._warn(f"most steps have loads above the planned ones, and no plan for {loads} fits the budget")

    def _give_up(self):
        self._ready = None
        self._is_open = False
        self._warn(
            "a plan for larger loads cannot be taken up between steps, as the loop holds tensors that the steps before "
            "made (outputs, losses or gradients) or hooks of its own on what is saved"
        )

    @staticmethod
    def _warn(text):
        warnings.warn(f"tidemark: {text}; the plan is kept", stacklevel=2)
