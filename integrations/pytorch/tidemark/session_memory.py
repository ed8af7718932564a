"""The budget as a limit of the memory that Tidemark serves, and what a session has taken of it."""

import gc

from . import allocator


class SessionMemory:
    """Of one session, on `device`. Where Tidemark does not serve the device nothing is limited and nothing measured."""

    def __init__(self, device):
        self._device = device
        self._limit = None
        self._is_measured = False
        self._measured = None

    @property
    def is_limited(self):
        """By what Tidemark serves of the CPU's memory; it then is told of modules and of phases."""
        return self._limit is not None

    def begin(self, budget_bytes, undo):
        self._is_measured = allocator.serves(self._device.type)
        self._limit = self._limit_memory(budget_bytes)
        undo.callback(self._restore_limit)
        if self._is_measured:
            allocator.reset_peaks(self._device)

    def end(self, knows_phases):
        """The last measure is that of now."""
        if self._is_measured:
            self._measured = self._measure(knows_phases)

    def measured(self, is_active, knows_phases):
        """Statistics of now or, behind the session, of its end; None where the device is not served."""
        if not self._is_measured:
            return None
        return self._measure(knows_phases) if is_active else self._measured

    @property
    def peak_bytes(self):
        """Behind the session."""
        return self._measured and self._measured["allocated_peak_bytes"]

    def _limit_memory(self, budget_bytes):
        """Returns the limit before."""
        if self._device.type != "cpu" or not self._is_measured:
            return None
        before = allocator.statistics().limit_bytes
        if budget_bytes:
            allocator.empty_cache()
            if allocator.statistics().reserved_bytes > budget_bytes:  # what steps before have left in cycles
                gc.collect()
                allocator.empty_cache()
            allocator.set_limit(budget_bytes)
        return before

    def _restore_limit(self):
        if self._limit is not None:
            allocator.set_limit(self._limit)

    def _measure(self, knows_phases):
        """What is allocated in which phase is known of the CPU, and only where the session is told of the loop."""
        phases = allocator.phases_at_peak() if knows_phases and self._limit is not None else None
        return allocator.statistics(self._device).as_dict() | {"phases": phases}
