"""A call that releases its arguments as it goes, as parts: behind each, memory that the call held is free for what it asks
for next.
"""

import dataclasses

from .kernel_requests import lives_of, place_workspaces


@dataclasses.dataclass
class CallPart:
    """`requests`: a KernelRequest's `output` counts `returned` and then `crossing`."""

    returned: list = dataclasses.field(default_factory=list)  # rows of the call's outputs that are asked for here
    crossing: list = dataclasses.field(default_factory=list)  # (bytes, last part) of what is there for later parts
    requests: list = dataclasses.field(default_factory=list)
    room: int = 0  # bytes that workspaces take
    releases: list = dataclasses.field(default_factory=list)  # what it holds no more after it


def parts_of_call(events, outputs, held, device):
    """`events`: of allocator.log(); `outputs`: addresses of the storages of the tensors returned; `held`: by address, what
    the call is given; `device`: its type. At least one part."""
    part_at, released = _divide(events, held)
    parts = [CallPart() for _ in range(part_at[-1] + 1 if part_at else 1)]
    for number, part in released.items():
        parts[part].releases.append(number)
    rows = {}
    for i, address in enumerate(outputs):
        rows.setdefault(address, i)
    asked = [[] for _ in parts]  # (Life, row of an output, last part)
    for life in lives_of(events):
        if life.end is not None:
            asked[part_at[life.begin]].append((life, None, part_at[life.end]))
        elif life.address in rows:
            asked[part_at[life.begin]].append((life, rows[life.address], None))
    for n, part in enumerate(parts):
        _fill(part, n, asked[n], device)
    return parts


def _divide(events, held):
    """The part of every event, and the last part that holds each argument that was released."""
    part_at, released, made, has_released = [], {}, set(), False
    part = 0
    for address, bytes_ in events:
        if bytes_ > 0:
            part += has_released
            has_released = False
            made.add(address)
        elif address in made:
            made.discard(address)
        elif address in held:
            released[held[address]] = part
            has_released = True
        part_at.append(part)
    return part_at, released


def _fill(part, number, asked, device):
    part.returned = [row for _, row, _ in asked if row is not None]
    part.crossing = [(life.bytes, last) for life, row, last in asked if row is None and last > number]
    returned, crossing, placed = 0, len(part.returned), []
    for life, row, last in asked:
        output = None
        if row is not None:
            output, returned = returned, returned + 1
        elif last > number:
            output, crossing = crossing, crossing + 1
        placed.append((life, output))
    part.requests, part.room = place_workspaces(placed, device)
