"""Live bytes over one step as the allocator had them, request by request.

Thread rule: one at a time in a process; what other threads ask for meanwhile is in it.
"""

import contextlib
import dataclasses

from . import allocator, running
from .device_memory import memory_snapshot
from .errors import SessionError, TidemarkError
from .sizes import block_bytes


_RECORDS = "the session records a step of its own; measure a later one, the sixth say"


@dataclasses.dataclass
class MeasuredStep:
    """Filled behind the block. `live_bytes`: in blocks of the device, all that the process holds, before the first request
    and after each request and release in order."""

    live_bytes: list = dataclasses.field(default_factory=list)

    @property
    def peak_bytes(self):
        return max(self.live_bytes, default=0)


@contextlib.contextmanager
def measured_step():
    """One step of the loop, inside of it:

        with tidemark.measured_step() as step: ...

    Raises TidemarkError where Tidemark's allocator does not serve the device, and SessionError where the session records
    a step of its own, as it does in the first ones where the capture was not measured, and behind one that departs."""
    session = running.active()
    kind = session.plan.graph.device if session is not None else "cpu"
    if not allocator.serves(kind):
        raise TidemarkError(f"Tidemark's allocator does not serve {kind!r}, so there is nothing to measure a step by")
    if session is not None and session.records_a_step():
        raise SessionError(_RECORDS)
    recorded = session.recorded_steps if session is not None else 0
    step = MeasuredStep()
    sizes, before = _blocks(kind), allocator.statistics(kind).allocated_bytes
    with allocator.log(kind) as events:
        yield step
    if session is not None and session.recorded_steps != recorded:
        raise SessionError(_RECORDS)
    step.live_bytes = _levels(before, events, sizes, kind)


def _blocks(kind):
    """Bytes by address of what is allocated now."""
    found = {}
    for segment in memory_snapshot(kind)["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            found[block.get("address", address)] = block["size"]
            address += block["size"]
    return found


def _levels(level, events, sizes, kind):
    levels = [level]
    for address, bytes_ in events:
        if bytes_:
            sizes[address] = block_bytes(bytes_, kind)
        level += sizes[address] if bytes_ else -sizes.pop(address, 0)
        levels.append(level)
    return levels
