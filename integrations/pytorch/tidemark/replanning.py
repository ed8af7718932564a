"""A plan for larger loads, or for another path, made while training goes on.

The planner runs in a thread of its own, without Python's lock, and beside it oneTBB's. cancel() returns at once, and the
thread ends with the plan that it is at; where the process ends, that is soon (plan_watch.py). It is no daemon, because a
thread that the interpreter leaves behind in the planner would run while the library is taken down.

Thread rule: all but the thread's own function is for the thread that runs the session. The thread writes `outcome`
once, last, and takes no lock, so that a process forked meanwhile finds nothing held; there the plan is not made.
"""

import dataclasses
import threading

from .errors import InfeasibleError
from .load_history import raised
from .planning import plan_within

_EFFORT_PERCENT = 10  # training has the cores


@dataclasses.dataclass(frozen=True)
class Outcome:
    plan: object = None  # planning.Plan; None: none of those wanted fits
    too_many: dict = dataclasses.field(default_factory=dict)  # rows, by pattern, that do not fit: the least tried
    error: Exception | None = None
    graph: object = None  # of another path, which the plan is for


class Replanning:
    """`make(is_over)` answers an Outcome; `is_over()` says whether its plan is not wanted any more."""

    def __init__(self, make):
        self._make = make
        self._outcome = None
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name="tidemark-replanning")
        self._thread.start()

    def poll(self):
        """The Outcome, or None while there is none yet."""
        if self._outcome is None and not self._thread.is_alive():
            return self._outcome or Outcome()  # of a process forked meanwhile; or it has ended in between
        return self._outcome

    def join(self):
        """Waits for the thread."""
        self._thread.join()

    def cancel(self):
        """The thread ends with the plan that it is at. Returns at once."""
        self._is_cancelled = True

    def _run(self):
        try:
            self._outcome = self._make(self._is_over)
        except Exception as error:  # is said at a step boundary, in the session's thread
            self._outcome = Outcome(error=error)

    def _is_over(self):
        return self._is_cancelled or not threading.main_thread().is_alive()


def larger_plan(plan, wanted, is_over=lambda: False):
    """The Outcome: all that is wanted is tried first, then what lies in the middle between a plan that fits and one
    that does not. `is_over`: asked before each; then it ends with the best so far."""
    best, low, high = None, -1, len(wanted)  # of these positions the first fits, and the second does not
    number = high - 1
    while low < number < high and not is_over():
        try:
            best, low = plan_again(plan, wanted[number]), number
        except InfeasibleError:
            high = number
        number = (low + high) // 2
    return Outcome(best, wanted[high] if high < len(wanted) else {})


def plan_for_path(plan, graph, is_over=lambda: False):
    """The Outcome for a step that another path takes, to the same budget."""
    if is_over():
        return Outcome()
    try:
        made = plan_within(graph, plan.budget_bytes, plan.reserve_bytes, effort_percent=_EFFORT_PERCENT)
    except InfeasibleError:
        made = None
    return Outcome(made, graph=graph)


def plan_again(plan, rows):
    """A Plan for so many rows, by pattern, to the budget of `plan`. Raises InfeasibleError where nothing fits."""
    graph = raised(plan.graph, rows)
    return plan_within(graph, plan.budget_bytes, plan.reserve_bytes, effort_percent=_EFFORT_PERCENT)
