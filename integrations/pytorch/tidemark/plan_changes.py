"""Plans for larger loads that a session asks for, and what has become of them.

Thread rule: for the thread that runs the session, at its step boundaries.
"""

import warnings

from .load_history import LoadHistory, growing
from .recorded_step import may_plan_again
from .replanning import Replanning

_SWITCHES = 8  # step boundaries at which a plan that is there may be taken up


class PlanChanges:
    """Of one session, or of a decorated function's in turn. `is_open`: whether any is to be asked for."""

    def __init__(self, is_open):
        self.ready = None  # a Plan that is to be followed
        self.followed = 0
        self._history = LoadHistory()
        self._chunk_rows = {}  # by pattern
        self._is_open = is_open
        self._running = None
        self._switches = 0

    def looks_at(self, plan):
        """Whether it is to be told of the steps by `plan`."""
        return self._is_open and bool(growing(plan.graph.loads))

    def add(self, step):
        self._history.add(step)

    def advance(self, plan):
        """Between steps by `plan`: takes what has been made meanwhile, and asks where it is time. Waits for nothing."""
        if self.ready is not None:
            self._switches -= 1
            if self._switches < 0:
                self._give_up()
        elif self._running is not None:
            self._take(self._running.poll())
        elif wanted := self._history.wanted(plan.graph.loads):
            self._ask(plan, wanted)

    def chunk_rows(self, load):
        """Rows of one part to a chunk: those of the first plan. A layer in chunks has all that a part's rows need at
        once, where a plan for more of them may have that in turn."""
        return self._chunk_rows.setdefault(load.pattern, max(load.planned, 1))

    def follow(self):
        """The one that was ready is followed from now on."""
        self.ready = None
        self.followed += 1
        self._history.forget()

    def fail(self, error):
        """No more is asked for."""
        self.ready = None
        self._is_open = False
        self._warn(f"planning for larger loads failed ({error})")

    def cancel(self):
        """Returns at once; a plan that is being made ends by itself."""
        if self._running is not None:
            self._running.cancel()
        self._running = self.ready = None

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
            self.ready, self._switches = outcome.plan, _SWITCHES
        elif outcome.too_many:
            loads = ", ".join(f"{rows} rows of one part of {pattern}" for pattern, rows in outcome.too_many.items())
            self._warn(f"most steps have loads above the planned ones, and no plan for {loads} fits the budget")

    def _give_up(self):
        self.ready = None
        self._is_open = False
        self._warn(
            "a plan for larger loads finds no memory between steps, as the loop holds tensors that the steps before "
            "made (outputs, losses or gradients)"
        )

    @staticmethod
    def _warn(text):
        warnings.warn(f"tidemark: {text}; the plan is kept", stacklevel=2)
