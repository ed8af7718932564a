"""Plans for larger loads and for other paths that a session asks for, and what has become of them.

Thread rule: for the thread that runs the session, at its step boundaries.
"""

import warnings

from . import logs
from .load_history import LoadHistory, growing
from .paths import Paths
from .recorded_step import may_plan_again
from .replanning import Replanning, larger_plan, plan_for_path

_SWITCHES = 8  # step boundaries at which a plan that is there may be taken up
_MOST_RECORDINGS = 4  # in turn, until one is of a whole step


class PlanChanges:
    """Of one session, or of a decorated function's in turn. `plan`: the first. `is_open`: whether any other is to be
    asked for."""

    def __init__(self, plan, is_open):
        self.followed = 0  # for larger loads
        self.paths_followed = 0
        self._ready = None  # a Plan that is to be followed
        self._is_path = False  # that plan's: of another path, or of batches that have become larger
        self._paths = Paths(plan)
        self._is_to_record = False
        self._recordings = 0  # in turn
        self._has_warned = False  # that one failed
        self._departures = ()  # of the step that a recording is for
        self._history = LoadHistory()
        self._chunk_rows = {load.pattern: max(load.planned, 1) for load in plan.graph.loads}
        self._is_open = is_open
        self._running = None
        self._switches = 0
        self._is_due = False  # a step has ended since it was last asked for a plan

    @property
    def is_open(self):
        return self._is_open

    def looks_at(self, plan):
        """Whether it counts what steps by `plan` need: a plan for larger loads may come of it."""
        return self._is_open and bool(growing(plan.graph.loads))

    def end_step(self, plan, step):
        """A step by `plan` with a backward, a LoadStep, is over. Forwards that only evaluate are no steps: what they
        hold is no reason to give a plan up."""
        self._is_due = True
        if self.looks_at(plan):
            self._history.add(step)
        if not self._is_open or self._running is not None or self._ready is not None:
            return
        is_costly = step.costly > 0 and not growing(plan.graph.loads)
        known, self._is_to_record = self._paths.end_step(plan, step.departures, is_costly)
        self._departures, self._recordings = step.departures, 0
        if known is not None:
            self._make_ready(known, is_path=True)

    def is_to_record(self, plan):
        """Whether the step that begins is to be recorded. To be asked once a step, behind next_plan()."""
        asked, self._is_to_record = self._is_to_record, False
        return asked and may_plan_again(plan)

    def may_record(self, plan, departures):
        """Whether the next step may be recorded, behind one that departed so, or spilled."""
        if not self._is_open or self._running is not None or self._ready is not None or not may_plan_again(plan):
            return False
        return self._is_to_record or bool(departures)

    def take_recording(self, plan, graph, failure=None):
        """Of the step that has ended, which was followed by `plan` beside; None: it was no whole step, another is to be
        recorded, or the recorder failed."""
        self._is_due = True
        self._recordings += 1
        if graph is None:
            self._is_to_record = failure is None and self._recordings < _MOST_RECORDINGS
            if failure is not None and not self._has_warned:
                self._has_warned = True
                self._warn(
                    f"a step that departs from the plan cannot be recorded ({failure}), and its path is not planned"
                )
            return
        known, is_to_plan = self._paths.wanted(plan, self._departures, graph)
        if known is not None:
            self._make_ready(known, is_path=True)
        elif is_to_plan:
            self._run(lambda is_over: plan_for_path(plan, graph, is_over))

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
        logs.replanned(self._ready, self._is_path)
        self._ready = None
        if self._is_path:
            self.paths_followed += 1
        else:
            self.followed += 1
        self._history.forget()

    def fail(self, error):
        """No more is asked for."""
        self._ready = None
        self._is_open = False
        self._warn(f"planning again failed ({error})")

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
        self._run(lambda is_over: larger_plan(plan, wanted, is_over))

    def _run(self, make):
        try:
            self._running = Replanning(make)
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
        if outcome.graph is not None:
            self._paths.add(outcome.graph, outcome.plan)
        if outcome.plan is not None:
            self._make_ready(outcome.plan, outcome.graph is not None)
        elif outcome.graph is not None:
            self._warn(
                "steps depart from the plan, and no plan for the path that they take fits the budget; what they save may "
                "go to host memory"
            )
        elif outcome.too_many:
            loads = ", ".join(f"{rows} rows of one part of {pattern}" for pattern, rows in outcome.too_many.items())
            self._warn(f"most steps have loads above the planned ones, and no plan for {loads} fits the budget")

    def _make_ready(self, plan, is_path):
        self._ready, self._is_path, self._switches = plan, is_path, _SWITCHES

    def _give_up(self):
        self._ready = None
        self._is_open = False
        self._warn(
            "another plan cannot be taken up between steps, as the loop holds tensors that the steps before "
            "made (outputs, losses or gradients) or hooks of its own on what is saved"
        )

    @staticmethod
    def _warn(text):
        warnings.warn(f"tidemark: {text}; the plan is kept", stacklevel=2)
