"""One training step as a value: operations in program order and the storages they read and write.

Storages, not tensors: views are folded. A storage lives from its first write to its last touch, or to the operation
until which the framework itself holds it (`pinned_until`), whichever is later. Times are nanoseconds, sizes bytes.
"""

import dataclasses
import json
import math
import numbers

from .errors import CaptureError, TidemarkError
from .rows import from_rows, to_rows
from .sizes import block_bytes, format_bytes

FORMAT = 1
TEXT_VERSION = 6
RESIDENT_ROLES = ("parameter", "input", "optimizer_state")


@dataclasses.dataclass(frozen=True)
class HostLink:
    """How quick copies between device and host memory are, one direction at a time."""

    out_bytes_per_s: float = 12e9
    in_bytes_per_s: float = 12e9
    latency_ns: int = 20_000

    def __post_init__(self):
        given = (self.out_bytes_per_s, self.in_bytes_per_s, self.latency_ns)
        if not all(isinstance(value, numbers.Real) and math.isfinite(value) for value in given):
            raise CaptureError(f"{self} has no sense: rates are bytes a second, and the latency is ns")
        if not (self.out_bytes_per_s > 0 and self.in_bytes_per_s > 0 and self.latency_ns >= 0):
            raise CaptureError(f"{self} has no sense: rates are above zero")

    def as_dict(self):
        return {
            "out_bytes_per_second": self.out_bytes_per_s,
            "in_bytes_per_second": self.in_bytes_per_s,
            "latency_ns": self.latency_ns,
        }


@dataclasses.dataclass
class Storage:
    name: str
    bytes: int
    role: str = "activation"
    module: str = ""
    bound_bytes: int | None = None  # most it can need, where its size depends on data
    bound_variant: int | None = None  # and which way of dealing rows out has that: those of one grow together
    pinned_until: int | None = None  # operation until which the framework holds it
    until_end: bool = False

    @property
    def resident(self):
        """There from before the step to after it."""
        return self.role in RESIDENT_ROLES

    @property
    def outlives_step(self):
        return self.resident or self.until_end


@dataclasses.dataclass(frozen=True)
class Load:
    """Rows that only data can say, of modules whose path is like `pattern`: an equal share is `expected`, memory is
    planned for `planned` of one part, and there can be `worst`."""

    pattern: str
    expected: int
    planned: int
    worst: int


@dataclasses.dataclass
class Op:
    name: str
    cost: int  # ns
    reads: list[int]
    writes: list[int]
    phase: str  # forward, backward or optimizer
    recompute: str = "pure"  # pure, random, collective or never
    module: str = ""
    micro_batch: int = 0
    transient_bytes: int = 0
    calls: list["Call"] = dataclasses.field(default_factory=list, repr=False)
    holds: list[int] = dataclasses.field(default_factory=list)  # read by no kernel, held by the running backward node
    requests: list["Request"] = dataclasses.field(default_factory=list, repr=False)  # of the allocator, in order


@dataclasses.dataclass(frozen=True)
class Site:
    """A place in a micro-batch's forward: the n-th event during the n-th call of a module. The path of the root module
    is "", that of what runs behind it "<loss>"."""

    micro_batch: int
    path: str
    call: int
    ordinal: int


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a kernel. `site` is None in backward and optimizer."""

    func: str
    site: Site | None
    outputs: tuple[int | None, ...]  # storage of each tensor returned, None for a view of an argument
    index: int  # among all calls of the step


@dataclasses.dataclass(frozen=True)
class Request:
    """What an operation asks the allocator for: a storage, or (None) a workspace at `offset` in its room, or in the place of
    the storage `within`, which it asks for later."""

    storage: int | None
    bytes: int
    offset: int = 0
    within: int | None = None


@dataclasses.dataclass
class Save:
    """One tensor that autograd keeps for backward."""

    site: Site
    storage: int
    bytes: int  # of its storage
    is_part: bool = False  # of a tensor that is made of others
    uses: list[int] = dataclasses.field(default_factory=list)  # operations before which backward asks for it
    until: list[int] = dataclasses.field(default_factory=list)  # last operations of the nodes that ask


def _gone():
    return None


@dataclasses.dataclass(repr=False)
class Graph:
    name: str
    ops: list[Op]
    storages: list[Storage]
    saves: list[Save]
    fingerprint: str = ""  # of the model: parameter paths, shapes and types
    device: str = "cpu"
    micro_batches: int = 1  # times chunks
    chunks: int = 1
    cost_unit: str = "ns"
    unit_bytes: int = 512  # blocks are multiples of it
    host_link: HostLink | None = None  # None: plans do not swap
    knows_requests: bool = False  # what kernels ask the allocator for was measured
    loads: list[Load] = dataclasses.field(default_factory=list)  # as `bounds` have them
    beside_plan_bytes: int = 0  # of a budget, for what is there beside what the plan has a place for
    gaps_bytes: int = 0  # of a budget, left free by the allocator between what stood there over steps as it was captured
    compiled: list[str] = dataclasses.field(default_factory=list)  # CompiledCode.met
    model: object = _gone  # weak reference to what was captured

    def __repr__(self):
        peak = format_bytes(self.keep_all_peak_bytes())
        return f"<Graph of {self.name}: {len(self.ops)} operations, {len(self.storages)} storages, peak {peak}>"

    def __getstate__(self):
        """A copy on file, or in another process, is of no model until a session is given one."""
        return self.__dict__ | {"model": _gone}

    def steps_parameters(self):
        """Whether the step changes parameters behind forward, as an optimizer does."""
        return any(self.storages[s].role == "parameter" for op in self.ops if op.phase != "forward" for s in op.writes)

    def batches_that_end_first(self):
        """Micro-batches whose backward had begun where the next one was captured."""
        first = {"forward": {}, "backward": {}}
        for i, op in enumerate(self.ops):
            if op.phase in first:
                first[op.phase].setdefault(op.micro_batch, i)
        forward, backward = first["forward"], first["backward"]
        return {
            batch
            for batch, begin in forward.items()
            if batch in backward and all(later < begin or backward[batch] < later for later in forward.values() if later != begin)
        }

    def rounded(self, bytes_):
        """What a block of so many bytes takes."""
        return block_bytes(bytes_, self.device, self.unit_bytes)

    def block_bytes(self, storage):
        """What is planned for it: the most it can need, where that is known."""
        found = self.storages[storage]
        return self.rounded(max(found.bytes, found.bound_bytes or 0))

    def swappable(self):
        """Storages that a session can fetch: made in forward and asked for through what autograd saves."""
        made = {s for op in self.ops if op.phase != "forward" for s in op.writes}
        return {
            save.storage
            for save in self.saves
            if save.uses and save.storage not in made and not self.storages[save.storage].outlives_step
        }

    def told(self):
        """Per operation, whether the session hears of it: in forward always, in backward where something that autograd
        saved is first asked for. A trace, which no session follows, does not say what is saved."""
        if not self.saves:
            return [True] * len(self.ops)
        told = [op.phase == "forward" for op in self.ops]
        for save in self.saves:
            if save.uses:
                told[min(save.uses)] = True
        return told

    def as_dict(self, budget=None):
        storages, swappable = [], self.swappable() if self.host_link is not None else ()
        for number, s in enumerate(self.storages):
            entry = {"name": s.name, "bytes": self.rounded(s.bytes), "role": s.role}
            if s.module:
                entry["module"] = s.module
            if s.bound_bytes is not None:
                entry["bound_bytes"] = self.rounded(s.bound_bytes)
            held_until = len(self.ops) - 1 if s.outlives_step else s.pinned_until  # by the framework
            if held_until is not None:
                entry["pinned_until"] = held_until
            if s.outlives_step:
                entry["until_end"] = True
            if self.host_link is not None:
                entry["swappable"] = number in swappable
            storages.append(entry)
        ops = []
        for op, told in zip(self.ops, self.told(), strict=True):
            entry = {"name": op.name, "cost": op.cost, "reads": sorted({*op.reads, *op.holds}), "writes": op.writes}
            entry |= {"phase": op.phase, "recompute": op.recompute}
            if op.module:
                entry["module"] = op.module
            if op.transient_bytes:
                entry["transient_bytes"] = self.rounded(op.transient_bytes)
            if not told:
                entry["told"] = False
            ops.append(entry)
        link = {} if self.host_link is None else {"link": self.host_link.as_dict()}
        return {
            "tidemark_graph": FORMAT,
            "name": self.name,
            "framework": self.to_text(budget),
            "cost_unit": self.cost_unit,
            **link,
            "storages": storages,
            "ops": ops,
        }

    def to_json(self, budget=None):
        """What `tidemark plan --graph` reads. `budget`: bytes and reserve, where they are not left to it."""
        return json.dumps(self.as_dict(budget), separators=(",", ":"))

    def to_text(self, budget=None):
        """All of it, for from_text(); the planner keeps it with the plan."""
        rows = to_rows(dataclasses.replace(self, model=None))
        return json.dumps({"pytorch": TEXT_VERSION, "budget": budget, "graph": rows}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text, where):
        """The graph, and the budget and reserve that the plan was made for or None. `where`: the file, for messages."""
        try:
            found = json.loads(text)
            if found["pytorch"] != TEXT_VERSION:
                raise ValueError(f"of version {found['pytorch']!r}, and this package reads {TEXT_VERSION}")
            graph = from_rows(cls, found["graph"])
            budget = from_rows(list[int] | None, found["budget"])
        except (ValueError, TypeError, KeyError) as error:
            raise TidemarkError(
                f"{where}: what it has of the framework is not readable here ({error}); capture and plan again"
            ) from error
        graph.model = _gone
        return graph, budget

    def live_ranges(self):
        """First and last operation of every storage with everything kept; (0, last) for what is always there."""
        last = len(self.ops) - 1
        ranges = [[None, None] for _ in self.storages]
        for i, op in enumerate(self.ops):
            for s in (*op.reads, *op.holds, *op.writes):
                if ranges[s][0] is None:
                    ranges[s][0] = i if s in op.writes and s not in op.reads else 0
                ranges[s][1] = i
        for s, storage in enumerate(self.storages):
            if ranges[s][0] is None:
                ranges[s] = [0, last if storage.outlives_step else 0]
                continue
            if storage.resident:
                ranges[s][0] = 0
            if storage.outlives_step:
                ranges[s][1] = last
            elif storage.pinned_until is not None:
                ranges[s][1] = max(ranges[s][1], storage.pinned_until)
        return [tuple(r) for r in ranges]

    def keep_all_live_bytes(self):
        """Live bytes during every operation with everything kept, its own workspace included: of what is in the plan."""
        change = [0] * (len(self.ops) + 1)
        for s, (first, last) in enumerate(self.live_ranges()):
            change[first] += self.block_bytes(s)
            change[last + 1] -= self.block_bytes(s)
        live, out = 0, []
        for i, op in enumerate(self.ops):
            live += change[i]
            out.append(live + self.rounded(op.transient_bytes))
        return out

    def keep_all_peak_bytes(self):
        return max(self.keep_all_live_bytes(), default=0) + self.beside_plan_bytes
