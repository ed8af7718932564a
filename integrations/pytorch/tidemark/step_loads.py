"""Loads above the planned ones: what layers are told of them, and what came of them in the step."""

from .engine import may_spill
from .load_history import LoadStep
from .load_limits import find, load_limits


class StepLoads:
    """Of one session over `model`, whose plans come and go."""

    def __init__(self, model, changes):
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._changes = changes
        self._limits = None
        self._chunked = self._chunks = 0
        self._costly_before = 0
        self._told = {}  # rows of one part in this step, by pattern of the load
        self.departed = []  # places, in this step
        self.has_backward = False  # in this step

    def limits(self, plan):
        """Up to which loads local rungs serve, predicted: a list of LoadLimit."""
        if self._limits is None or self._limits[0] is not plan:
            self._limits = plan, load_limits(plan, may_spill(plan))
        return self._limits[1]

    def rungs(self, copies):
        """`copies`: of the session's counters."""
        return {
            "room": copies.get("requests_guests", 0),
            "spill": copies.get("spilled", 0) + copies.get("dropped", 0),
            "chunks": self._chunked,
        }

    def chunks_for(self, module, rows, plan, counts):
        """`counts`: whether it is one of the step's own calls."""
        path = self._paths.get(id(module))
        limit = None if path is None else find(self.limits(plan), path)
        if limit is None:
            return 1
        if counts:
            self._told[limit.load.pattern] = max(rows, self._told.get(limit.load.pattern, 0))
        if rows <= limit.served:
            return 1
        return -(-rows // self._changes.chunk_rows(limit.load))

    def count_chunks(self, chunks):
        self._chunked += 1
        self._chunks += chunks

    def end_step(self, plan, copies):
        """Of the step that is over; one that only evaluates is none. `copies()`: of the session's counters."""
        if self.has_backward:
            costly = self._costly(copies) - self._costly_before
            self._changes.end_step(plan, LoadStep(self._told, costly, tuple(self.departed)))
        self.count_anew(copies)

    def count_anew(self, copies):
        self._told, self.departed, self.has_backward = {}, [], False
        self._costly_before = self._costly(copies)

    def _costly(self, copies):
        """So far: what was spilled or run in chunks."""
        if not self._changes.is_open:
            return 0
        rungs = self.rungs(copies())
        return rungs["spill"] + rungs["chunks"]
