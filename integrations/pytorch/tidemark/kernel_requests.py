"""What a kernel asks the allocator for while it runs, and where its workspaces lie."""

import dataclasses

from .sizes import block_bytes


@dataclasses.dataclass(frozen=True)
class KernelRequest:
    """The storage of one of the tensors that the kernel returns, or a workspace. That lies at `offset` in the place of an
    output that is asked for once it is released (`within`), or in the room for all others of the kernel."""

    output: int | None
    bytes: int
    offset: int = 0
    within: int | None = None  # an output


@dataclasses.dataclass(frozen=True)
class Life:
    """Of a block, in rows of allocator.log(): asked for at `begin` and released at `end`; None: never."""

    begin: int
    end: int | None
    address: int
    bytes: int


def requests_of(events, outputs, device):
    """KernelRequests in order, and the room in bytes that workspaces take. `events`: of allocator.log(); `outputs`: addresses
    of the storages of the tensors returned; `device`: its type. What is asked for and kept, but not returned, is the
    library's own."""
    returned = {}
    for i, address in enumerate(outputs):
        returned.setdefault(address, i)
    asked = []
    for life in lives_of(events):
        if life.end is not None:
            asked.append((life, None))
        elif life.address in returned:
            asked.append((life, returned[life.address]))
    return place_workspaces(asked, device)


def lives_of(events):
    """A Life of each block that was asked for, in order."""
    freed_at, lives = {}, []  # of the latest block at an address
    for i, (address, bytes_) in reversed(list(enumerate(events))):
        if bytes_ == 0:
            freed_at[address] = i
        else:
            lives.append(Life(i, freed_at.pop(address, None), address, bytes_))
    return lives[::-1]


def place_workspaces(asked, device):
    """KernelRequests, and the room in bytes that those take which lie within no output. `asked`: (Life, output, or None for a
    workspace) in order."""
    outputs = [_Place(life.begin, output, block_bytes(life.bytes, device)) for life, output in asked if output is not None]
    outputs.sort(key=lambda place: place.bytes)  # a small workspace takes a small one
    room = _Place(None, None, None)
    requests = []
    for life, output in asked:
        if output is not None:
            requests.append(KernelRequest(output, life.bytes))
            continue
        taken = block_bytes(life.bytes, device)
        place = next((place for place in outputs if place.holds(life, taken)), room)
        requests.append(KernelRequest(None, life.bytes, place.take(life, taken), place.output))
    return requests, room.used_bytes


class _Place:
    """Of an output that is asked for at `asked_at`; all three None: room of any size."""

    def __init__(self, asked_at, output, bytes_):
        self.output = output
        self.bytes = bytes_
        self.used_bytes = 0
        self._asked_at = asked_at
        self._taken = []  # (low, high, end)

    def holds(self, life, taken):
        return life.end < self._asked_at and self._lowest_offset(life.begin, taken) + taken <= self.bytes

    def take(self, life, taken):
        offset = self._lowest_offset(life.begin, taken)
        self._taken.append((offset, offset + taken, life.end))
        self.used_bytes = max(self.used_bytes, offset + taken)
        return offset

    def _lowest_offset(self, begin, taken):
        """Of so many bytes that no workspace which is in use at `begin` has."""
        offset = 0
        for low, high, end in sorted(self._taken):
            if end > begin and low < offset + taken and offset < high:
                offset = high
        return offset
